"""Look-ups in map files: map, map_MATCH, map_MATCH_int, map_MATCH_ip (manual 7.3.1).

The file is read with the configuration; a map of it is shared by all threads and may change while
the proxy runs (`rules.patterns`). The functions made here belong to a thread, like all of theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.patterns.index import groups_of
from mtproxy.rules.patterns.methods import PatternError, takes
from mtproxy.rules.patterns.reference import PatternExpr
from mtproxy.rules.regex import expand
from mtproxy.rules.tables import Arg, ArgKind, Converter
from mtproxy.rules.types import Type, Value, parse_ip

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View

_GIVES: Final = {"str": Type.STR, "int": Type.SINT, "ip": Type.ADDR}


class _Load:
    """Reads the file that a converter of one kind names. Raises PatternError."""

    def __init__(self, method: str, kind: str) -> None:
        self.method = method
        self.kind = kind

    def __call__(self, args: tuple[Any, ...], reader: RuleReader) -> tuple[Any, ...]:
        name, default = args
        ref = reader.patterns.file(name, reader.location, for_map=True, two_columns=True)
        expr = ref.expr(self.method, kind=self.kind)
        if self.kind == "ip" and default is not None:
            address = parse_ip(default.decode("latin-1"))
            if address is None:
                text = default.decode("utf-8", "surrogateescape")
                raise PatternError(f"map: cannot parse default ip <{text}>.")
            default = address
        return expr, default


def _map(args: tuple[Any, ...], _build: Build) -> Convert:
    expr: PatternExpr = args[0]
    default: Value | None = args[1]
    find = expr.finder()
    kind = expr.kind

    def text(value: Value, _view: View) -> Value | None:
        entry = find(value)
        return default if entry is None else entry.value

    def number(value: Value, _view: View) -> Value | None:
        entry = find(value)
        return default if entry is None else entry.as_int

    def address(value: Value, _view: View) -> Value | None:
        entry = find(value)
        return default if entry is None else entry.as_ip

    return text if kind == "str" else number if kind == "int" else address


def _map_regm(args: tuple[Any, ...], _build: Build) -> Convert:
    r"""The value may name groups of the match: \1."""
    expr: PatternExpr = args[0]
    default: Value | None = args[1]
    match = expr.matcher()

    def convert(value: Any, _view: View) -> Value | None:
        found = match(value)
        if found is None:
            return default
        template = found[0].value or b""
        return expand(template, value, groups_of(found, value))

    return convert


def _converter(name: str, method: str, kind: str) -> Converter:
    default = ArgKind.SINT if kind == "int" else ArgKind.STR
    return Converter(
        name,
        takes(method),
        _GIVES[kind],
        _map_regm if method == "regm" else _map,
        (Arg(ArgKind.MAP), Arg(default, optional=True)),
        load=_Load(method, kind),
    )


_METHODS: Final = ("str", "beg", "sub", "dir", "dom", "end", "reg", "int", "ip")

CONVERTERS: tuple[Converter, ...] = (
    _converter("map", "str", "str"),
    _converter("map_regm", "regm", "str"),
    *(_converter(f"map_{method}", method, "str") for method in _METHODS),
    *(_converter(f"map_{method}_int", method, "int") for method in _METHODS),
    *(_converter(f"map_{method}_ip", method, "ip") for method in _METHODS),
)

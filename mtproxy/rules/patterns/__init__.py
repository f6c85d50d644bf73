"""Patterns: what samples are compared with (manual 7.1.3).

`check` refuses bad patterns at load, `matcher` makes a thread's test out of a `PatternSpec`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mtproxy.rules.types import Type, Value

if TYPE_CHECKING:
    from mtproxy.base.ruleset import PatternSpec
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader

#: match method -> the type that samples are cast to before they are compared
_TAKES: Final = {
    "found": Type.ANY,
    "bool": Type.BOOL,
    "int": Type.SINT,
    "ip": Type.ADDR,
    "bin": Type.BIN,
    "len": Type.STR,
    "str": Type.STR,
    "beg": Type.STR,
    "sub": Type.STR,
    "dir": Type.STR,
    "dom": Type.STR,
    "end": Type.STR,
    "reg": Type.STR,
    "meth": Type.METH,
}
METHODS: Final = tuple(_TAKES)


def takes(method: str) -> Type:
    """The type of sample that a match method compares."""
    return _TAKES[method]


def check(spec: PatternSpec, reader: RuleReader) -> None:
    """Refuse patterns that cannot be ones of their method. Raises ConfigError."""


def matcher(spec: PatternSpec, build: Build) -> Callable[[Value], bool] | None:
    """This thread's comparison; None where there are no patterns."""
    texts = [one.encode("utf-8", "surrogateescape") for one in spec.patterns]
    if not texts:
        return None
    if spec.match in ("str", "meth"):
        known = frozenset(texts)
        return lambda value: value in known
    if spec.match == "beg":
        starts = tuple(texts)
        return lambda value: value.startswith(starts)  # type: ignore[union-attr]
    if spec.match == "int":
        numbers = frozenset(map(int, texts))
        return lambda value: value in numbers
    raise NotImplementedError(spec.match)

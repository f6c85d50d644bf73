"""Converters that set variables and pass their input on (manual 7.3.1: set-var, unset-var)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtproxy.rules import variables
from mtproxy.rules.tables import ArgKind, Converter, optional, required
from mtproxy.rules.types import Type, Value

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View


def _check(args: tuple[Any, ...]) -> str | None:
    for text in args[1:]:
        if text is not None and text.decode("latin-1") not in variables.CONDITIONS:
            return wrong_condition(text.decode("latin-1"))
    return None


def wrong_condition(word: str) -> str:
    """What is said about a condition that is none."""
    return (
        f'unknown condition "{word}", it should be one of'
        f" {', '.join(repr(one) for one in variables.CONDITIONS)}"
    )


def _make_set(args: tuple[Any, ...], build: Build) -> Convert:
    conditions = [text.decode() for text in args[1:] if text is not None]
    write = variables.writer(args[0], build, conditions)

    def convert(value: Value, view: View) -> Value | None:
        return value if write(view, value) else None

    return convert


def _make_unset(args: tuple[Any, ...], build: Build) -> Convert:
    write = variables.writer(args[0], build)

    def convert(value: Value, view: View) -> Value:
        write(view, None)
        return value

    return convert


CONVERTERS: tuple[Converter, ...] = (
    Converter(
        "set-var",
        Type.ANY,
        Type.ANY,
        _make_set,
        required(ArgKind.VARIABLE) + optional(*[ArgKind.STR] * 4),
        _check,
    ),
    Converter("unset-var", Type.ANY, Type.ANY, _make_unset, required(ArgKind.VARIABLE)),
)

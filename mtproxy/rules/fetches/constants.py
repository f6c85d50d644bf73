"""Fetches that need no stream: constants, time, random numbers, environment (manual 7.3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtproxy.rules.tables import ArgKind, Fetch, required
from mtproxy.rules.types import Type, Value

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate
    from mtproxy.rules.view import View


def _always_true(_view: View) -> bool:
    return True


def _always_false(_view: View) -> bool:
    return False


def _constant(args: tuple[Any, ...], _build: Build) -> Evaluate:
    value: Value = args[0]
    return lambda _view: value


FETCHES: tuple[Fetch, ...] = (
    Fetch("always_true", Type.BOOL, call=_always_true),
    Fetch("always_false", Type.BOOL, call=_always_false),
    Fetch("str", Type.STR, make=_constant, args=required(ArgKind.STR)),
    Fetch("int", Type.SINT, make=_constant, args=required(ArgKind.SINT)),
)

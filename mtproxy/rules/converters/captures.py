"""Converters that put their input into a slot of captures (manual 7.3.1: capture-req, -res)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtproxy.rules.keeping import fill
from mtproxy.rules.tables import ArgKind, Converter, required
from mtproxy.rules.types import Type, Value

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View


def _maker(*, response: bool) -> Any:
    def make(args: tuple[Any, ...], _build: Build) -> Convert:
        index: int = args[0]

        def convert(value: Value, view: View) -> Value | None:
            taken = fill(view, index, value, response=response)  # type: ignore[arg-type]
            return value if taken else None

        return convert

    return make


_SLOT = required(ArgKind.SINT)

CONVERTERS: tuple[Converter, ...] = (
    Converter("capture-req", Type.STR, Type.STR, _maker(response=False), _SLOT),
    Converter("capture-res", Type.STR, Type.STR, _maker(response=True), _SLOT),
)

"""Variables as samples (manual 7.3.2: var; 2.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtproxy.rules import variables
from mtproxy.rules.tables import ArgKind, Fetch, optional, required
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate


def _make(args: tuple[Any, ...], build: Build) -> Evaluate:
    name, default = args
    return variables.reader(name, build, default)


FETCHES: tuple[Fetch, ...] = (
    Fetch(
        "var",
        Type.ANY,
        make=_make,
        args=required(ArgKind.VARIABLE) + optional(ArgKind.STR),
    ),
)

"""Stick tables for tests that need no program."""

from __future__ import annotations

from mtproxy.base.sticktable import BY_NAME, Kind, StickTableSettings, Stored
from mtproxy.proxy.sticktable import StickTable
from mtproxy.proxy.sticktable_side import TableSide
from mtproxy.testing.proxies import FakeContext


def stored(*names: str) -> tuple[Stored, ...]:
    """Data types by name; arrays have three elements, rates a period of 1000 ms."""
    found = []
    for name in names:
        data = BY_NAME[name]
        found.append(Stored(name, 1000 if data.kind is Kind.RATE else 0, 3 if data.array else 1))
    return tuple(found)


def make_table(
    size: int = 100,
    *,
    expire: int = 0,
    store: str = "",
    kind: str = "integer",
    length: int = 32,
    nopurge: bool = False,
    srvkey: str = "name",
    name: str = "t",
) -> StickTable:
    """A table that stores what `store` names, with commas between."""
    settings = StickTableSettings(
        name, kind, size, length, expire, nopurge, srvkey, stored(*filter(None, store.split(",")))
    )
    return StickTable(settings)


def make_side(table: StickTable, ctx: FakeContext | None = None) -> TableSide:
    """One thread's side of it."""
    return table.side(ctx or FakeContext())  # type: ignore[arg-type]

"""Sums of the threads' counters, and the baselines that `clear counters all` leaves.

A clear must not write into counters of other threads: it stores the sums of the moment, which later
readings subtract. Gauges (what is going on now) are never cleared, and maxima are cleared by their
owners (`clear_maxima`, posted to each thread). Any thread may call; `clear` by one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtproxy.proxy.counters import BackendCounters, FrontendCounters, ServerCounters

    type Counters = FrontendCounters | BackendCounters | ServerCounters


class Totals:
    """Sums by name, read as attributes. `http_rsp` is a list of six."""

    __slots__ = ("_values", "http_rsp")

    def __init__(self, values: dict[str, int], http_rsp: list[int]) -> None:
        self._values = values
        self.http_rsp = http_rsp

    def __getattr__(self, name: str) -> int:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def values(self) -> dict[str, int]:
        """The scalar sums by name."""
        return dict(self._values)


@cache
def _plan(
    kind: Any,
) -> tuple[tuple[str, ...], Callable[[Counters], tuple[int, ...]], tuple[int, ...]]:
    """The scalar names of a kind of counters, what reads them all, and which are no sums."""
    names = tuple(name for name in kind.names() if name != "http_rsp")
    highest = kind.MAXIMA | {"last_tick"}
    return names, attrgetter(*names), tuple(i for i, name in enumerate(names) if name in highest)


def add_up(sets: Sequence[Counters]) -> Totals:
    """Add the sets of all threads: sums, except the highest of maxima and the latest of dates."""
    if not sets:
        raise ValueError("no counters to add up")
    kind: Any = type(sets[0])
    names, read, highest = _plan(kind)
    columns = [read(one) for one in sets]
    totals = list(map(sum, zip(*columns, strict=True)))
    for position in highest:
        totals[position] = max([column[position] for column in columns])
    responses = list(map(sum, zip(*[one.http_rsp for one in sets], strict=True)))
    return Totals(dict(zip(names, totals, strict=True)), responses)


class Baselines:
    """What had been counted at the last `clear counters all`, by an owner's key."""

    def __init__(self) -> None:
        self._cleared: dict[object, Totals] = {}

    def since_clear(self, key: object, sets: Sequence[Counters]) -> Totals:
        """The sums minus the baseline stored for `key`."""
        totals = add_up(sets)
        baseline = self._cleared.get(key)
        if baseline is None:
            return totals
        kind = type(sets[0])
        kept = kind.MAXIMA | kind.GAUGES
        before = baseline.values()
        values = {
            name: value if name in kept else value - before[name]
            for name, value in totals.values().items()
        }
        responses = [a - b for a, b in zip(totals.http_rsp, baseline.http_rsp, strict=True)]
        return Totals(values, responses)

    def forget(self, key: object) -> None:
        """The owner is gone."""
        self._cleared.pop(key, None)

    def clear(self, key: object, sets: Sequence[Counters]) -> None:
        """Count anew from here."""
        self._cleared[key] = add_up(sets)


def clear_maxima(counters: Counters) -> None:
    """Set the maxima of one set back to what is going on. Owner thread only."""
    for name in counters.MAXIMA:
        current = name.removesuffix("_max") + "_cur"
        setattr(counters, name, getattr(counters, current, 0))

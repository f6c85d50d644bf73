"""WeightedOrder: in which order weighted round robin serves a set of servers. Pure; no lock.

The order is HAProxy's, verified against the program, also while weights change, servers come and
go, or are passed over. Time is counted in picks. A server of weight w among a total of W comes back
W/w picks after its last turn (whole picks; the remainders add up). A pick goes to the server that
is due first; if none is due yet, to the heaviest one that has not had its first turn. Among servers
due at the same pick, the one with the smallest value of remainder minus weight goes first, then the
one that was queued first.

Time is cut into windows of W picks. Who is due behind the next window waits aside, by weight; when
nobody is left, those who wait aside begin a new window as if they were new. A server that comes
back is due when the window ends, sooner the heavier it is; one whose weight changes keeps its last
turn and moves its next one, but not to later.

To compute a pick is one step in a sorted list. Windows are computed ahead in blocks; when something
changes while turns of the last block are left, `back` recomputes that block up to the turn used
last. Where windows repeat themselves and are short they are kept, and cost nothing from then on.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from typing import Final

#: the longest window that is kept, in picks (it is what `back` may have to compute again)
CYCLE_MAX = 1 << 13

#: about how many picks `block` returns
BLOCK = 128

#: places of servers: not usable, before their first turn, due in this window, aside until the next
_NOWHERE: Final = 0
_NEW: Final = 1
_DUE: Final = 2
_ASIDE: Final = 3

_HEAVIEST: Final = 256 * 16
#: what times and remainders weigh in the order of servers that are due
_PART: Final = 16
_STEP: Final = 257
_WORD: Final = 0xFFFFFFFF

#: what a server is sorted by: its time or its weight, the order of queueing, its position
type _Entry = tuple[int, int, int]


class WeightedOrder:
    """An endless order of positions. The caller serializes all calls.

    `weights` are 0..4096 by position; 0 means that the position does not come.
    """

    __slots__ = (
        "_aside",
        "_cycle",
        "_due",
        "_entry",
        "_last",
        "_made",
        "_new",
        "_next",
        "_now",
        "_place",
        "_record",
        "_rest",
        "_saved",
        "_seq",
        "_served",
        "_total",
        "_window",
        "weights",
    )

    def __init__(self, weights: Sequence[int]) -> None:
        self.weights = list(weights)
        size = len(weights)
        self._total = self._window = self._now = sum(weights)
        self._seq = 0
        self._new: list[_Entry] = []
        self._due: list[_Entry] = []
        self._aside: list[_Entry] = []
        self._place = [_NOWHERE] * size
        self._entry: list[_Entry] = [(0, 0, 0)] * size
        #: by position: the pick at which it is due, that of its last turn, remainders so far
        self._next = [0] * size
        self._last = [0] * size
        self._rest = [0] * size
        for position, weight in enumerate(weights):
            if weight:
                self._queue_by_weight(position, _NEW)
        #: picks since the window began, and who was new then; None: not to be kept
        self._record: list[int] | None = None
        self._cycle: list[int] | None = None
        #: how many picks of the cycle have been served
        self._served = 0
        #: the state before the last block, and how many picks that had
        self._saved: tuple[object, ...] | None = None
        self._made = 0

    def resize(self, size: int) -> None:
        """Have room for more positions, without weights."""
        more = size - len(self.weights)
        self.weights += [0] * more
        self._place += [_NOWHERE] * more
        self._entry += [(0, 0, 0)] * more
        self._next += [0] * more
        self._last += [0] * more
        self._rest += [0] * more

    def block(self) -> Sequence[int]:
        """The next picks, about BLOCK of them; empty if no server has a weight."""
        if not self._total:
            return ()
        cycle = self._cycle
        if cycle is not None:
            start = self._served
            if len(cycle) <= BLOCK:
                self._made = BLOCK // len(cycle) * len(cycle)
                return cycle * (BLOCK // len(cycle))
            end = min(start + BLOCK, len(cycle))
            self._served = end % len(cycle)
            self._made = end - start
            return cycle[start:end]
        self._saved = self._state()
        picks = self._compute(BLOCK)
        self._made = len(picks)
        # none where the window that has just ended is the last one again
        return picks or self.block()

    def back(self, unused: int) -> None:
        """The last `unused` picks of the last block have not been made."""
        cycle = self._cycle
        if cycle is not None:
            # the state is that of the beginning of a cycle
            self._again((self._served - unused) % len(cycle))
        elif unused:
            assert self._saved is not None
            self._restore(self._saved)
            self._again(self._made - unused)
        self._record = self._saved = None
        self._made = 0

    def _again(self, count: int) -> None:
        """Makes picks that were made before."""
        self._cycle = self._record = None
        while count:
            count -= len(self._compute(count))
            self._cycle = None

    def change(self, weights: Mapping[int, int]) -> None:
        """Change weights. What `block` gave last must have been used, or given `back`."""
        self._record = None
        for position, weight in weights.items():
            old = self.weights[position]
            if weight == old:
                continue
            self._total += weight - old
            self.weights[position] = weight
            if not weight:
                self._leave(position)
                self._place[position] = _NOWHERE
            elif not old:
                self._come(position, weight)
            else:
                self._move(position, weight)

    def pick(self, refused: Callable[[int], bool], avoid: int = -1) -> int:
        """The next position that is not `refused`, and not `avoid` unless it is the last one; -1:
        none. Those passed over count as served, and come back in their turn. As for `change`.
        """
        if not self._total:
            return -1
        self._record = None
        switched = False
        avoided = chosen = -1
        passed: list[int] = []
        while True:
            if not self._window:
                self._now = self._window = self._total
            position = self._first()
            if position < 0:
                if switched:
                    chosen = avoided
                    break
                switched = True
                self._switch()
                continue
            self._turn(position)
            if not refused(position):
                if position != avoid or avoided >= 0:
                    chosen = position
                    break
                avoided = position
            passed.append(position)
        if chosen >= 0:
            self._queue(chosen)
        for position in reversed(passed):
            if position == chosen:
                continue
            if switched:
                # their places are lost, only weights matter
                self._queue_by_weight(position, _NEW)
            else:
                self._queue(position)
        return chosen

    def _compute(self, count: int) -> list[int]:
        """Make `count` picks, or as many as there are until the order is known to repeat."""
        picks: list[int] = []
        if not self._window:
            self._now = self._window = self._total
        due, weights, total, window = self._due, self.weights, self._total, self._window
        after, last, rests, entries = self._next, self._last, self._rest, self._entry
        behind = min(2 * window, window + total)
        while len(picks) < count:
            # the most common case without calls: who is due first, and again in this window
            if due and after[position := due[0][2]] <= self._now:
                weight = weights[position]
                before = after[position]
                when = before + total // weight
                rest = rests[position] + total % weight
                if rest >= weight:
                    rest -= weight
                    when += 1
                if when < behind and before:
                    del due[0]
                    last[position] = before
                    after[position] = when
                    rests[position] = rest
                    self._now += 1
                    self._seq += 1
                    entry = (
                        _STEP * when + (_HEAVIEST + rest - weight) // _PART,
                        self._seq,
                        position,
                    )
                    entries[position] = entry
                    insort(due, entry)
                else:
                    self._turn(position)
                    self._queue(position)
            else:
                position = self._first()
                if position < 0:
                    if self._switch():
                        break
                    window = self._window
                    behind = min(2 * window, window + total)
                    continue
                self._turn(position)
                self._queue(position)
            picks.append(position)
            record = self._record
            if record is not None:
                record.append(position)
                if len(record) > CYCLE_MAX + len(self._place):
                    self._record = None
        return picks

    def _first(self) -> int:
        """Whose turn is now; -1: nobody's in this window."""
        due = self._due
        position = -1
        if due:
            position = due[0][2]
            if self._next[position] <= self._now:
                return position
        if self._new:
            position = self._new[0][2]
            self._next[position] = self._rest[position] = 0
        return position

    def _turn(self, position: int) -> None:
        """Gives the turn: the server's next one is known, and it stands in no queue."""
        weight = self.weights[position]
        last = self._next[position] or self._now
        self._last[position] = last
        due = last + self._total // weight
        rest = self._rest[position] + self._total % weight
        if rest >= weight:
            rest -= weight
            due += 1
        self._next[position] = due
        self._rest[position] = rest
        self._leave(position)
        self._now += 1

    def _switch(self) -> bool:
        """Begins a window. Whether it is the last one again: it is kept then."""
        self._new, self._aside = self._aside, self._new
        place = self._place
        for _, _, position in self._new:
            place[position] = _NEW
        self._window = self._now = self._total
        positions = [position for _, _, position in self._new]
        size = len(positions)
        record = self._record
        if record and not self._due and record[:size] == positions and len(record) > size:
            self._cycle = record[size:]
            self._served = 0
            self._record = None
            return True
        self._record = positions if self._total <= CYCLE_MAX and not self._due else None
        return False

    def _queue(self, position: int) -> None:
        """Behind the window it waits aside."""
        due, window = self._next[position], self._window
        if due >= 2 * window or due >= window + self._total:
            self._next[position] = (due - window) & _WORD
            self._queue_by_weight(position, _ASIDE)
            return
        part = (_HEAVIEST + self._rest[position] - self.weights[position]) // _PART
        self._seq += 1
        entry = (_STEP * due + part, self._seq, position)
        self._entry[position] = entry
        self._place[position] = _DUE
        insort(self._due, entry)

    def _queue_by_weight(self, position: int, place: int) -> None:
        self._seq += 1
        entry = (-self.weights[position], self._seq, position)
        self._entry[position] = entry
        self._place[position] = place
        insort(self._new if place == _NEW else self._aside, entry)

    def _leave(self, position: int) -> None:
        """Takes it out of the queue where it stands."""
        place = self._place[position]
        queue = self._new if place == _NEW else self._due if place == _DUE else self._aside
        entry = self._entry[position]
        at = bisect_left(queue, entry)
        assert queue[at] == entry
        del queue[at]

    def _come(self, position: int, weight: int) -> None:
        """A server becomes usable."""
        wait = (self._total + self._window - self._now) & _WORD
        self._next[position] = (self._now + wait // weight) & _WORD
        self._queue(position)

    def _move(self, position: int, weight: int) -> None:
        """The weight of a usable server has changed."""
        self._leave(position)
        place = self._place[position]
        if place == _NEW:
            self._queue_by_weight(position, _NEW)
            return
        before = self._next[position]
        if place == _ASIDE:
            before += self._window
        step = self._total // weight
        due = min(self._last[position] + step, before)
        if due < self._now + 2:
            due = self._now + step
        self._next[position] = due
        self._rest[position] = 0
        self._queue(position)

    def _state(self) -> tuple[object, ...]:
        return (
            self._now,
            self._window,
            self._seq,
            self._new.copy(),
            self._due.copy(),
            self._aside.copy(),
            self._place.copy(),
            self._entry.copy(),
            self._next.copy(),
            self._last.copy(),
            self._rest.copy(),
        )

    def _restore(self, state: tuple[object, ...]) -> None:
        (
            self._now,
            self._window,
            self._seq,
            self._new,
            self._due,
            self._aside,
            self._place,
            self._entry,
            self._next,
            self._last,
            self._rest,
        ) = state  # type: ignore[assignment]

    def _check(self) -> None:
        assert self._total == sum(self.weights)
        queues = {_NEW: self._new, _DUE: self._due, _ASIDE: self._aside}
        for place, queue in queues.items():
            assert queue == sorted(queue)
            for entry in queue:
                assert self._entry[entry[2]] == entry
                assert self._place[entry[2]] == place
        queued = sorted(entry[2] for queue in queues.values() for entry in queue)
        assert queued == [position for position, weight in enumerate(self.weights) if weight]

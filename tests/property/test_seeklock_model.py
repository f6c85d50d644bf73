"""SeekLock against a model made of its compatibility matrix and its rules of fairness.

Real threads take, convert and drop the lock; the sequencer runs them one at a time, so that the
model says for each step who must get the lock, who must sleep and who must be woken.
"""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from mtproxy.sync import seeklock, stats
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.seeklock import SeekLock
from mtproxy.testing.counts import zero_counts
from mtproxy.testing.sequencer import BLOCKED, WOKEN, Sequencer

ACTORS = ("a", "b", "c", "d")
TID = {name: tid for tid, name in enumerate(ACTORS)}
COMPATIBLE = {
    ("R", "R"): True,
    ("R", "S"): True,
    ("R", "W"): False,
    ("S", "R"): True,
    ("S", "S"): False,
    ("S", "W"): False,
    ("W", "R"): False,
    ("W", "S"): False,
    ("W", "W"): False,
}
NAMES = {"R": "read", "S": "seek", "W": "write"}


class Model:
    """Who holds what, who waits, and who must be told."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held: dict[str, str] = {}
        self.upgrading: str | None = None
        self.queue: list[str] = []
        self.wants: dict[str, str] = {}
        self.signalled: set[str] = set()
        self.granted: set[str] = set()
        self.overtaken = 0

    def compatible(self, want: str) -> bool:
        if want == "R" and self.upgrading is not None:
            return False
        return all(COMPATIBLE[want, mode] for mode in self.held.values())

    def passes_freely(self, want: str) -> bool:
        """Nobody in the queue is delayed."""
        return not self.queue or (want == "R" and "W" not in (self.wants[a] for a in self.queue))

    def try_take(self, who: str, want: str) -> bool:
        if not (self.compatible(want) and self.passes_freely(want)):
            return False
        self.held[who] = want
        return True

    def take(self, who: str, want: str) -> bool:
        if self.try_take(who, want):
            return True
        if self.compatible(want) and self.overtaken < self.limit:
            self.overtaken += 1
            self.held[who] = want
            return True
        self.queue.append(who)
        self.wants[who] = want
        return False

    def leave_queue(self, who: str) -> None:
        if self.queue[0] == who:
            self.overtaken = 0
        self.queue.remove(who)
        self.held[who] = self.wants.pop(who)

    def released(self) -> None:
        if self.upgrading is not None:
            if "R" not in self.held.values():
                self.held[self.upgrading] = "W"
                self.granted.add(self.upgrading)
                self.signalled.add(self.upgrading)
                self.upgrading = None
            return
        modes = list(self.held.values())
        chosen = []
        for who in self.queue:
            want = self.wants[who]
            if all(COMPATIBLE[want, mode] for mode in modes):
                chosen.append(who)
                modes.append(want)
            if want == "W":
                break
        hand_over = self.overtaken >= self.limit
        for who in chosen:
            self.signalled.add(who)
            if hand_over:
                self.leave_queue(who)
                self.granted.add(who)

    def drop(self, who: str) -> None:
        mode = self.held.pop(who)
        if mode != "R" or "R" not in self.held.values():
            self.released()

    def convert(self, who: str, mode: str) -> None:
        self.held[who] = mode
        self.released()

    def upgrade(self, who: str) -> bool:
        if "R" in self.held.values():
            self.upgrading = who
            return False
        self.held[who] = "W"
        return True

    def resume(self, who: str) -> bool:
        """A woken thread looks: whether it has the lock now."""
        self.signalled.remove(who)
        if who in self.granted:
            self.granted.remove(who)
            return True
        if self.compatible(self.wants[who]):
            self.leave_queue(who)
            return True
        return False


class SeekLockMachine(RuleBasedStateMachine):
    """Threads a, b, c, d on one lock."""

    def __init__(self) -> None:
        super().__init__()
        zero_counts(LockLabel.OTHER, len(ACTORS))
        self.normal_limit = seeklock.OVERTAKE_LIMIT
        self.seq = Sequencer()
        self.lock = SeekLock(LockLabel.OTHER)
        self.lock.waiter_factory = self.seq.waiter
        self.commands: dict[str, Callable[[], object] | None] = {}
        self.results: dict[str, object] = {}
        self.failed_upgrades = 0
        for name in ACTORS:
            self.seq.spawn(name, self.obey, name)
            self.seq.step(name)

    def obey(self, name: str) -> None:
        """What each thread does: commands, until there is none."""
        while True:
            self.seq.at("idle")
            command = self.commands[name]
            if command is None:
                return
            self.results[name] = command()

    @initialize(limit=st.sampled_from((0, 1, 2, 64)))
    def start(self, limit: int) -> None:
        seeklock.OVERTAKE_LIMIT = limit
        self.model = Model(limit)

    def do(self, who: str, operation: str) -> object:
        method = getattr(self.lock, operation)
        self.commands[who] = lambda: method(TID[who])
        self.results.pop(who, None)
        self.seq.step(who)
        return self.results.get(who)

    def free(self, who: str, mode: str | None) -> bool:
        """Whether a thread can be given a command that starts from `mode`."""
        return self.seq.stands(who) == "idle" and self.model.held.get(who) == mode

    def some(self, mode: str | None) -> list[str]:
        return [who for who in ACTORS if self.free(who, mode)]

    @precondition(lambda self: self.some(None))
    @rule(data=st.data(), want=st.sampled_from("RSW"), patient=st.booleans())
    def take(self, data: st.DataObject, want: str, patient: bool) -> None:
        who = data.draw(st.sampled_from(self.some(None)))
        if patient:
            expected = self.model.take(who, want)
            self.do(who, f"take_{NAMES[want]}")
            assert self.seq.stands(who) == ("idle" if expected else BLOCKED)
        else:
            expected = self.model.try_take(who, want)
            assert self.do(who, f"try_take_{NAMES[want]}") is expected

    @precondition(lambda self: any(self.some(mode) for mode in "RSW"))
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from([who for mode in "RSW" for who in self.some(mode)]))
        mode = self.model.held[who]
        self.model.drop(who)
        self.do(who, f"drop_{NAMES[mode]}")
        assert self.seq.stands(who) == "idle"

    @precondition(lambda self: self.some("R"))
    @rule(data=st.data())
    def read_to_seek(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(self.some("R")))
        expected = "S" not in self.model.held.values()
        if expected:
            self.model.held[who] = "S"
        else:
            self.failed_upgrades += 1
        assert self.do(who, "try_read_to_seek") is expected

    @precondition(lambda self: self.some("S"))
    @rule(data=st.data())
    def seek_to_write(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(self.some("S")))
        expected = self.model.upgrade(who)
        self.do(who, "seek_to_write")
        assert self.seq.stands(who) == ("idle" if expected else BLOCKED)

    @precondition(lambda self: self.some("W") or self.some("S"))
    @rule(data=st.data(), to=st.sampled_from("RS"))
    def step_down(self, data: st.DataObject, to: str) -> None:
        who = data.draw(st.sampled_from(self.some("W") + self.some("S")))
        mode = self.model.held[who]
        if mode == "S":
            to = "R"
        self.model.convert(who, to)
        self.do(who, f"{NAMES[mode]}_to_{NAMES[to]}")
        assert self.seq.stands(who) == "idle"

    @precondition(lambda self: self.model.signalled)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        who = data.draw(st.sampled_from(sorted(self.model.signalled)))
        self.resume_one(who)

    def resume_one(self, who: str) -> None:
        expected = self.model.resume(who)
        self.seq.step(who)
        assert self.seq.stands(who) == ("idle" if expected else BLOCKED)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "model"):
            return
        model = self.model
        self.lock._check()
        modes = list(model.held.values())
        for i, one in enumerate(modes):
            assert all(COMPATIBLE[one, other] for other in modes[i + 1 :])
        assert {who for who in ACTORS if self.seq.stands(who) == WOKEN} == model.signalled
        strongest = max(modes, key="RSW".index, default="U")
        assert self.lock.state == strongest
        # what is counted is what threads know that they hold
        known = [mode for who, mode in model.held.items() if self.seq.stands(who) == "idle"]
        counted = stats.snapshot_of(LockLabel.OTHER)
        assert counted.read_locks - counted.read_unlocks == known.count("R")
        assert counted.seek_locks - counted.seek_unlocks == known.count("S")
        assert counted.write_locks - counted.write_unlocks == known.count("W")
        assert counted.failed_upgrades == self.failed_upgrades

    def teardown(self) -> None:
        """Nobody waits for ever: when all drop what they hold, everybody gets the lock."""
        try:
            with self.seq:
                while hasattr(self, "model") and (self.model.held or self.model.queue):
                    for who in sorted(self.model.signalled):
                        self.resume_one(who)
                    for who in ACTORS:
                        if who in self.model.held and self.seq.stands(who) == "idle":
                            mode = self.model.held[who]
                            self.model.drop(who)
                            self.do(who, f"drop_{NAMES[mode]}")
                    self.agrees()
                assert self.lock.state == "U"
                assert not self.lock._queue
                for who in ACTORS:
                    self.commands[who] = None
                self.seq.finish()
        finally:
            seeklock.OVERTAKE_LIMIT = self.normal_limit


TestSeekLockAgainstModel = pytest.mark.timeout(300)(SeekLockMachine.TestCase)
TestSeekLockAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

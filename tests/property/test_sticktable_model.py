"""A stick table against the obvious one: a dict that is searched as a whole, each time."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mtproxy.proxy.sticktable_layout import EXPIRE, USES
from mtproxy.sync import stats
from mtproxy.testing.proxies import FakeContext
from mtproxy.testing.tables import make_side, make_table

stats.configure(4)
EXPIRE_AFTER = 100

KEYS = st.integers(0, 7)
STEPS = st.one_of(
    st.tuples(st.just("track"), KEYS),
    st.tuples(st.just("end"), st.integers(0, 100)),
    st.tuples(st.just("bump"), st.integers(0, 100)),
    st.tuples(st.just("stick"), KEYS),
    st.tuples(st.just("clear"), KEYS),
    st.tuples(st.just("wait"), st.integers(1, 60)),
)


class Model:
    """key -> [uses, expiry, requests]; the oldest unused key gives way."""

    def __init__(self, size: int, expire: int) -> None:
        self.size, self.expire = size, expire
        self.entries: dict[int, list[int]] = {}
        self.now = 0

    def open(self, key: int) -> list[int] | None:
        if key not in self.entries:
            if len(self.entries) == self.size:
                unused = [k for k, entry in self.entries.items() if not entry[0]]
                if not unused:
                    return None
                del self.entries[min(unused, key=lambda k: self.entries[k][1])]
            self.entries[key] = [0, self.now + self.expire, 0]
        return self.entries[key]

    def touch(self, key: int) -> None:
        self.entries[key][1] = self.now + self.expire

    def drop_expired(self) -> None:
        if self.expire:
            for key, entry in list(self.entries.items()):
                if not entry[0] and entry[1] <= self.now:
                    del self.entries[key]


@given(st.integers(1, 5), st.sampled_from([0, EXPIRE_AFTER]), st.lists(STEPS, max_size=60))
def test_model(size: int, expire: int, steps: list[tuple[str, int]]) -> None:
    ctx = FakeContext()
    table = make_table(size, expire=expire, store="http_req_cnt")
    side = make_side(table, ctx)
    requests = side.layout.cells["http_req_cnt"]
    model = Model(size, expire)
    tracked: list[tuple[int, Any]] = []
    for what, number in steps:
        # every step has a tick of its own, so that there is always one oldest key
        ctx.now += 1
        model.now = ctx.now
        if what == "wait":
            ctx.now += number
            model.now = ctx.now
        elif what == "track":
            entry = side.track(number, side.start + side.request)
            expected = model.open(number)
            assert (entry is None) == (expected is None)
            if expected is not None:
                expected[0] += 1
                expected[2] += 1
                model.touch(number)
                tracked.append((number, entry))
        elif what in ("end", "bump"):
            if tracked:
                key, entry = tracked[number % len(tracked)]
                if what == "end":
                    tracked.remove((key, entry))
                    side.end(entry, 0, 0)
                    model.entries[key][0] -= 1
                else:
                    side.add(entry, side.request)
                    model.entries[key][2] += 1
                    model.touch(key)
        elif what == "stick":
            side.stick(number, 1, "s1")
            if model.open(number) is not None:
                model.touch(number)
        elif what == "clear":
            found: Any = table.find(number)
            if found is not None and table.drop_if_unused(found, 0):
                del model.entries[number]
        for shard in table.shards:
            if expire:
                table.expire_some(shard, ctx.now, 0, 100)
        model.drop_expired()
        table._check()
        assert {
            entry.key: [entry.cells[USES], entry.cells[EXPIRE], entry.cells[requests]]
            for entries in table.entries(0)
            for entry in entries
        } == model.entries

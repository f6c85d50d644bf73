"""Maps and rings of balancing against plain models of HAProxy's algorithms."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from mtproxy.proxy.balance.consistent import Consistent
from mtproxy.proxy.balance.ring import (
    POSITION_BITS,
    POSITION_MASK,
    WORD,
    index_of,
    with_points,
    without,
)
from mtproxy.proxy.balance.slotmap import slot_map
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock
from mtproxy.testing.proxies import server_settings

weights = st.lists(st.integers(0, 40), min_size=1, max_size=12)


@given(weights)
def test_a_slot_goes_to_who_is_furthest_behind(weights: list[int]) -> None:
    """Every server's score grows by its weight; the first of the highest ones pays the total."""
    total = sum(weights)
    scores = [0] * len(weights)
    expected = []
    for _ in range(total):
        best, most = -1, 0
        for position, weight in enumerate(weights):
            if weight:
                scores[position] += weight
                value = (scores[position] + total) // total
                if best < 0 or value > most:
                    best, most = position, value
        expected.append(best)
        scores[best] -= total
    assert list(slot_map(weights)) == expected


points = st.sets(st.integers(0, (1 << 32 + 3) - 1), max_size=60).map(
    lambda found: {(one >> 3) << POSITION_BITS | one & 7 for one in found}
)


@given(points, points)
def test_points_come_and_go(first: set[int], second: set[int]) -> None:
    ring = array("Q", sorted(first))
    both = with_points(ring, second - first)
    assert list(both) == sorted(first | second)
    assert list(without(both, second)) == sorted(first - second)


@given(points.filter(bool), st.integers(0, WORD))
def test_a_hash_belongs_to_the_nearest_point(found: set[int], number: int) -> None:
    ring = array("Q", sorted(found))
    places = [point >> POSITION_BITS for point in ring]
    before = min((number - place & WORD) for place in places)
    after = min((place - number & WORD) for place in places)
    chosen = places[index_of(ring, number)]
    if number in places:
        assert chosen == number
    elif before <= after:
        assert number - chosen & WORD == before
    else:
        assert chosen - number & WORD == after


@given(
    st.lists(
        st.dictionaries(st.integers(0, 3), st.integers(0, 40), min_size=1), min_size=1, max_size=8
    )
)
def test_a_ring_that_changed_is_one_made_at_once(changes: list[dict[int, int]]) -> None:
    servers = [server_settings(number + 1) for number in range(4)]

    def ring() -> Consistent:
        ids = [server.id for server in servers]
        addresses = [server.address for server in servers]
        return Consistent(Lock(LockLabel.LBPRM), ids, addresses, ["id"] * 4)

    changed, last = ring(), dict.fromkeys(range(4), 0)
    for change in changes:
        changed.update(change)
        changed._check()
        last |= change
    at_once = ring()
    at_once.update(last)
    assert changed._snapshot == at_once._snapshot
    assert {point & POSITION_MASK for point in at_once._snapshot[0]} == {
        position for position, weight in last.items() if weight
    }

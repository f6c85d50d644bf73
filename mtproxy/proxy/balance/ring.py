"""Rings of consistent hashing: points of servers around the 32-bit circle. Pure; no lock.

Each server has as many points as its weight in 1/16 says. Point n of a server lies at the full
avalanche of its key + n; its key comes from its id, or from its address (`hash-key`). A hash
belongs to the nearest point; where two are as near, to the one before it. All of it is HAProxy's,
verified against the program.

A ring is a sorted array of integers, `place << POSITION_BITS | position`. It is never changed: a
change makes a new one by copying slices, so that readers need no lock and a server that comes or
goes costs one copy of the array, not a sort.
"""

from __future__ import annotations

import socket
from array import array
from bisect import bisect_left
from collections.abc import Iterable

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.hashes import avalanche
from mtproxy.base.xxhash import xxh32

POSITION_BITS = 16
POSITION_MASK = (1 << POSITION_BITS) - 1
WORD = 0xFFFFFFFF
#: the ids of two servers are so many points apart
_ID_RANGE = 4096

#: `place << POSITION_BITS | position` in order
type Ring = array[int]


def key_of(server_id: int, address: Address, hash_key: str) -> int:
    """Where the points of a server come from: `hash-key` id, addr or addr-port (manual 5.2).

    A server without an IP address has the key of its id whatever is wanted.
    """
    family = {AddressKind.IPV4: socket.AF_INET, AddressKind.IPV6: socket.AF_INET6}.get(address.kind)
    if hash_key == "id" or family is None:
        return server_id * _ID_RANGE & WORD
    packed = socket.inet_pton(family, address.host)
    seed = avalanche(address.port) if hash_key == "addr-port" else 0
    if family == socket.AF_INET6:
        return xxh32(packed, seed)
    return avalanche(seed + int.from_bytes(packed, "little") & WORD)


def points_of(key: int, position: int, first: int, end: int) -> list[int]:
    """Points `first` to `end` - 1 of the server at `position`, in the order of their numbers."""
    return [avalanche(key + n & WORD) << POSITION_BITS | position for n in range(first, end)]


def without(ring: Ring, points: Iterable[int]) -> Ring:
    """The ring with these points, which are all in it, taken out."""
    result = array("Q")
    start = 0
    for point in sorted(points):
        at = bisect_left(ring, point, start)
        result += ring[start:at]
        start = at + 1
    result += ring[start:]
    return result


def with_points(ring: Ring, points: Iterable[int]) -> Ring:
    """The ring with these points, none of which is in it, put in."""
    result = array("Q")
    start = 0
    for point in sorted(points):
        at = bisect_left(ring, point, start)
        result += ring[start:at]
        result.append(point)
        start = at
    result += ring[start:]
    return result


def index_of(ring: Ring, number: int) -> int:
    """The index of the point that a hash of 32 bits belongs to. The ring must not be empty."""
    after = bisect_left(ring, number << POSITION_BITS)
    # index -1 is the last point: the circle is closed
    before = after - 1
    if after == len(ring):
        after = 0
    to_before = number - (ring[before] >> POSITION_BITS) & WORD
    to_after = (ring[after] >> POSITION_BITS) - number & WORD
    if to_before <= to_after:
        return before if before >= 0 else len(ring) - 1
    return after

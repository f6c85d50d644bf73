"""The map of static balancing: which server has which slot. Pure; no lock.

Each server has as many of the slots as its weight says, spread evenly. A slot goes to the server
that is furthest behind its share, the first one among equals: HAProxy's order, verified against
the program. Weights are first divided by what divides them all, which keeps the map short.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import heappop, heappush
from math import gcd

#: positions by slot
type SlotMap = array[int]


def divisor(weights: Sequence[int]) -> int:
    """What the weights of a backend are divided by: of all its servers, usable or not."""
    return gcd(*weights) or 1


def slot_map(weights: Sequence[int]) -> SlotMap:
    """One slot for each unit of the weights.

    At slot o, counted from 1, a server of weight w among a total of W ought to have had
    floor(o * w / W) slots. Only who gains a unit at o or is given a slot changes its arrears, so a
    heap for each number of arrears, the lowest position on top, costs a logarithmic step a slot.
    """
    total = sum(weights)
    gains: list[list[int]] = [[] for _ in range(total + 1)]
    arrears = [0] * len(weights)
    #: by arrears; what is no longer true of a server is dropped when it comes to the top
    heaps: dict[int, list[int]] = {0: [i for i, weight in enumerate(weights) if weight]}
    for position, weight in enumerate(weights):
        if weight:
            gains[-(-total // weight)].append(position)
    gained = [0] * len(weights)
    best = 0
    slots = array("H")
    for slot in range(1, total + 1):
        for position in gains[slot]:
            gained[position] += 1
            weight = weights[position]
            following = -(-(gained[position] + 1) * total // weight)
            if following <= total:
                gains[following].append(position)
            arrears[position] += 1
            level = arrears[position]
            heappush(heaps.setdefault(level, []), position)
            best = max(best, level)
        while True:
            heap = heaps[best]
            while heap and arrears[heap[0]] != best:
                heappop(heap)
            if heap:
                break
            best -= 1
        position = heappop(heap)
        arrears[position] = best - 1
        heappush(heaps.setdefault(best - 1, []), position)
        slots.append(position)
    return slots

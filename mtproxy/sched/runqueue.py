"""The shares of the run-queue classes in one turn of the loop.

A turn runs at most `tune.runqueue-depth` tasklets of all classes together. While everything that
waits fits in, nobody is held back. Otherwise the classes that wait share the depth by weight:
urgent 4, normal 3, bulk 1 (HAProxy 2.6 has the same proportions between its first three classes);
what a class does not need goes to the others, the more urgent first.

The shares are dealt like cards: each combination of waiting classes has a short cyclic pattern with
the weights in it, and a turn takes as many cards as its depth allows, beginning where the last turn
with the same combination stopped. Hence for any depth, 1 included:

- a turn never runs more than its depth, and never less while something waits;
- over the turns each class gets its weight exactly, as long as it has so much to do;
- a class that waits gets a card within one round of the pattern (8 at most) of each of the at most
  three combinations that it can be part of: nobody starves.

`ThreadContext.dealt` keeps the positions. Owner thread only; no lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.tasklet import Tasklet

#: tasklets of one turn, where `tune.runqueue-depth` is not set; see docs/mechanisms.md
DEFAULT_RUNQUEUE_DEPTH = 40

#: how tasklets are run: `loop.run_some`, or something that does the same and looks on
type RunSome = Callable[["ThreadContext", deque["Tasklet"], int], int]

#: bit of each class in a combination
URGENT, NORMAL, BULK = 1, 2, 4
#: combination -> whose turn it is, cyclically; those of one class have nothing to share
PATTERNS: tuple[tuple[int, ...], ...] = tuple(
    tuple({"u": URGENT, "n": NORMAL, "b": BULK}[letter] for letter in text)
    for text in ("", "u", "n", "unununu", "b", "uubuu", "nnbn", "unununub")
)


def share_out(dealt: list[int], depth: int, urgent: int, normal: int, bulk: int) -> list[int]:
    """How many tasklets of each class a turn may run, `urgent`, `normal` and `bulk` of which wait.

    The sum is `depth`, or what waits if that is less. `dealt` is the state, see the module; it is
    touched only where not all can run.
    """
    waiting = [urgent, normal, bulk]
    if urgent + normal + bulk <= depth:
        return waiting
    combination = URGENT * (urgent > 0) | NORMAL * (normal > 0) | BULK * (bulk > 0)
    pattern = PATTERNS[combination]
    rounds, rest = divmod(depth, len(pattern))
    shares = [0, 0, 0]
    if rounds:
        for one in pattern:
            shares[one >> 1] += rounds
    place = dealt[combination]
    for _ in range(rest):
        shares[pattern[place] >> 1] += 1
        place = (place + 1) % len(pattern)
    dealt[combination] = place
    # what one class cannot use goes to the others
    left = 0
    for i in range(3):
        if shares[i] > waiting[i]:
            left += shares[i] - waiting[i]
            shares[i] = waiting[i]
    for i in range(3):
        if not left:
            break
        more = min(left, waiting[i] - shares[i])
        shares[i] += more
        left -= more
    return shares


def run_classes(ctx: ThreadContext, depth: int, run_some: RunSome) -> None:
    """Run one turn's tasklets where not only normal ones wait: urgent, then normal, then bulk."""
    urgent, normal, bulk = ctx.urgent, ctx.normal, ctx.bulk
    activity = ctx.activity
    first, second, third = share_out(ctx.dealt, depth, len(urgent), len(normal), len(bulk))
    if first < len(urgent) or second < len(normal) or third < len(bulk):
        activity.long_rq += 1
    if first:
        activity.urgent += first
        run_some(ctx, urgent, first)
        # what the urgent ones have woken may run in the same turn, if there is room
        second = max(second, min(len(normal), depth - first - third))
    if second:
        run_some(ctx, normal, second)
    if third:
        activity.bulk += third
        run_some(ctx, bulk, third)

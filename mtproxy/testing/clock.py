"""A mock clock for shared tasks: runs the global wait queue through hours in no time."""

from __future__ import annotations

from mtproxy.sched.waitqueue import NEVER
from mtproxy.testing.proxies import FakeContext


class MockClock:
    """Moves `ctx.now` from one expiry of the wait queue to the next and runs what is due."""

    def __init__(self, ctx: FakeContext) -> None:
        self.ctx = ctx

    def run_until(self, tick: int) -> None:
        """Run all shared tasks that are due up to and including `tick`, each at its own tick."""
        ctx, queue = self.ctx, self.ctx.pool.wait_queue
        while queue.next_tick <= tick:
            assert queue.next_tick != NEVER
            ctx.now = max(ctx.now, queue.next_tick)
            for task in queue.collect(ctx.now, ctx.tid):
                task.run(ctx)  # type: ignore[arg-type]
        ctx.now = tick

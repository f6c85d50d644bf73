"""A program for tests of profilers: the proxy's own pool and runtime socket, and on its second
thread a function that is known to burn a known share of the time.

`python -m mtproxy.testing.hotpool SOCKET [SHARE]` runs until SIGTERM. `planted_hot` has SHARE (0.8)
of the second thread's time, `planted_warm`, which is the same code, the rest.
"""

from __future__ import annotations

import signal
import sys

from mtproxy.base.addresses import Address, AddressKind, BindSettings
from mtproxy.base.settings import GlobalSettings, Settings, StatsSocket
from mtproxy.boot import runtime_socket
from mtproxy.sched import profiled
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.pool import Pool
from mtproxy.sched.tasklet import park
from mtproxy.stats.runtime import Runtime
from mtproxy.sync import stats as lock_stats

NBTHREAD = 2
#: turns of the two loops together, per run of the tasklet: about 20 ms
_TURNS = 300_000


def planted_hot(turns: int) -> int:
    """Burns CPU, and calls nothing."""
    x = 0
    for i in range(turns):
        x += i
    return x


def planted_warm(turns: int) -> int:
    """The same under another name."""
    x = 0
    for i in range(turns):
        x += i
    return x


async def burn(ctx: ThreadContext, share: float) -> None:
    """For ever, a run at a time."""
    task = next(iter(ctx.tasklets))
    hot = int(_TURNS * share)
    while True:
        planted_hot(hot)
        planted_warm(_TURNS - hot)
        task.wake()
        await park()


def main(argv: list[str]) -> int:
    """Run until SIGTERM."""
    path, share = argv[0], float(argv[1]) if len(argv) > 1 else 0.8
    bind = BindSettings(Address(AddressKind.UNIX, path), level="admin", mode=0o600)
    settings = Settings(GlobalSettings(stats_sockets=(StatsSocket(bind),)), ())
    lock_stats.configure(NBTHREAD)
    sockets, failures = runtime_socket.bind_all(settings)
    assert not failures, failures
    pool = Pool(NBTHREAD)
    runtime = Runtime(settings, pool, maxconn=100)

    def setup(ctx: ThreadContext) -> None:
        profiled.adopt(ctx)
        if ctx.tid == 1:
            ctx.spawn(burn(ctx, share), "burner")

    pool.handle_signal(signal.SIGTERM, pool.hard_stop)
    runtime_socket.announce(pool.fd_table, runtime, sockets)
    pool.run(setup)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

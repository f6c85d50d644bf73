"""The soak run's chaos: origins that are killed, restarted, reset and stalled, servers that are
disabled by hand, a proxy that stands still.

`Chaos` and `Pulse` are threads of the run's own process. `Chaos` alone touches the origins while it
runs; `windows` and `counts` are read after `join`, or copied.
"""

from __future__ import annotations

import collections
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from mtproxy.testing.program import Program
from mtproxy.testing.server import free_port
from mtproxy.testing.waiting import PATIENCE, wait_until
from mtproxy.testing.wire import refused

#: seconds after an origin recovered, and the proxy's checks have seen it, in which its former state
#: may still show: requests that began before have to end
RECOVERY = 2.0
#: a thread that wants to run 20 times a second and is kept from it for so long tells that the
#: machine is: timeouts of a second strike then although nobody is ill
STALL = 0.4
SERVER_TIMEOUT = 5.0
KINDS = ("kill", "restart", "reset", "stall", "long stall", "disable", "freeze")
#: dealt in random order; the first deal is one of each
_DECK = ["kill"] * 4 + ["restart"] * 2 + ["reset"] * 4 + ["stall"] * 3 + ["long stall"]
_DECK += ["disable"] * 3 + ["freeze"] * 2


class OriginProcess:
    """One origin and the ways to hurt it. Used by the chaos thread alone."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["--port", str(self.port), "--name", self.name, "--patience", "60"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mtproxy.testing.origin", *words], stdout=subprocess.DEVNULL
        )
        wait_until(lambda: not refused(("127.0.0.1", self.port)), f"origin {self.name}")

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Whatever it does just now."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Pulse(threading.Thread):
    """Notes when the machine stood still, see STALL. `stalls` is read after `join`."""

    def __init__(self) -> None:
        super().__init__(name="pulse")
        self.finish = threading.Event()
        self.stalls: list[tuple[float, float]] = []

    def run(self) -> None:
        last = time.monotonic()
        while not self.finish.wait(0.05):
            now = time.monotonic()
            if now - last > STALL:
                self.stalls.append((last, now))
            last = now


class Chaos(threading.Thread):
    """Hurts one origin at a time. `windows` holds [begin, end] of each hurt; an open one ends at
    infinity. Only this thread writes; readers take it after `join`, or a copy.
    """

    def __init__(
        self, proxy: Program, origins: Sequence[OriginProcess], seed: str, healthy: float
    ) -> None:
        super().__init__(name="chaos")
        self.proxy = proxy
        self.origins = origins
        self.rng = random.Random(f"chaos-{seed}")
        self.healthy = healthy
        self.deck: list[str] = list(KINDS)
        self.rng.shuffle(self.deck)
        self.windows: list[tuple[float, float]] = []
        self.counts: collections.Counter[str] = collections.Counter()
        self.now = "healthy"
        self.finish = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            pause = self.healthy
            while not self.finish.wait(pause):
                self.hurt()
                pause = self.healthy + RECOVERY
        except BaseException as error:  # noqa: BLE001 - shown by the main thread
            self.error = error

    def hurt(self) -> None:
        origin = self.rng.choice(self.origins)
        if not self.deck:
            self.deck = list(_DECK)
            self.rng.shuffle(self.deck)
        what = self.deck.pop()
        self.now = what if what == "freeze" else f"{what} {origin.name}"
        begin = time.monotonic()
        self.windows.append((begin, float("inf")))
        if what in ("kill", "restart"):
            origin.end(signal.SIGKILL if what == "kill" else signal.SIGTERM)
            self.finish.wait(self.rng.uniform(0.1, 1.5))
            origin.start()
        elif what == "disable":
            self.proxy.cli(f"disable server be/{origin.name}")
            self.finish.wait(self.rng.uniform(0.1, 1.5))
            self.proxy.cli(f"enable server be/{origin.name}")
        elif what == "reset":
            origin.signal(signal.SIGUSR1)
        elif what == "freeze":
            self.proxy.process.send_signal(signal.SIGSTOP)
            self.finish.wait(self.rng.uniform(0.2, 1.0))
            self.proxy.process.send_signal(signal.SIGCONT)
        else:
            origin.signal(signal.SIGSTOP)
            long = what == "long stall"
            self.finish.wait(SERVER_TIMEOUT + 2 if long else self.rng.uniform(0.3, 3.0))
            origin.signal(signal.SIGCONT)
        self.counts[what] += 1
        wait_until(lambda: self.all_up() or not self.proxy.alive(), "all servers to be up")
        self.windows[-1] = (begin, time.monotonic())
        self.now = "healthy"

    def all_up(self) -> bool:
        """Whether the proxy knows that all origins are well."""
        return all(self.proxy.server_status("be", origin.name) == "UP" for origin in self.origins)

    def excuses(self, begin: float, end: float) -> bool:
        """Whether an origin was hurt, or just had been, at some time between `begin` and `end`."""
        return any(start <= end and begin <= stop + RECOVERY for start, stop in list(self.windows))

    def healthy_share(self, begin: float, end: float) -> float:
        """The part of the time in which nothing was excused."""
        hurt = sum(min(stop + RECOVERY, end) - start for start, stop in self.windows)
        return max(0.0, 1 - hurt / (end - begin))

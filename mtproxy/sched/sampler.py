"""The built-in sampler: the stacks of all threads, again and again, while they run.

On a free-threaded build nothing but a stopped world makes the stacks of other threads readable.
`faulthandler` stops it, walks the frames in C, and writes them as text; so one sample is one
`faulthandler.dump_traceback`. The text is not looked at here: it leaves as it is, and whoever asked
for the session takes it apart in a process of its own (`mtproxy profile`). The proxy pays for the
stop and for the dump alone: about 15 us per thread and 3 us per frame.

A `Sampler` is one session. Its helper thread dumps into a pipe (cheaper than a file in memory; it
never blocks, so a dump that does not fit is cut short instead of waiting for a reader that is
stopped too), reads it back, and keeps it for `take`. The session ends by itself after its seconds,
by `stop`, or with the pool. Bounds, whatever was asked for:

- rate: MAX_RATE; and less while dumps are dear: they may use CPU_SHARE of what the process uses,
  and stop the world for STOPPED_SHARE of the time;
- time: MAX_SECONDS;
- memory: MAX_PENDING bytes wait for `take`; further samples are dropped and counted.

Samples are taken at irregular intervals, so that they do not keep in step with what happens
regularly. A thread is caught where the interpreter next looks for a stop request, which it does at
the beginning of a function and at each turn of a loop, or where it is in a system call.

`start` and `take` and `stop` are called by one thread; `_run` is the helper's. They share a deque
(its operations are atomic) and plain stores.
"""

from __future__ import annotations

import _thread
import faulthandler
import fcntl
import json
import os
import random
import sys
import sysconfig
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mtproxy.base.report import say
from mtproxy.sched import fallback
from mtproxy.sched.loop import run_loop

if TYPE_CHECKING:
    from mtproxy.sched.pool import Pool

#: version of what `take` gives, see `Sampler.take`
FORMAT = 1
DEFAULT_RATE = 100
MAX_RATE = 1000
DEFAULT_SECONDS = 10
MAX_SECONDS = 3600
#: bytes that wait to be taken
MAX_PENDING = 4 << 20
#: of the CPU time that the process uses, which is taken for LEAST_CPUS when it is less
CPU_SHARE = 0.015
LEAST_CPUS = 0.25
#: of the time
STOPPED_SHARE = 0.25
#: how often `on_data` is called while samples come, in seconds
NOTICE_INTERVAL = 0.2
#: how often threads are named anew and the bounds are worked out, in seconds
REVIEW_INTERVAL = 1.0
_PIPE_SIZE = 1 << 20
#: the helper looks this often at least whether it is to stop, in seconds
_SLICE = 0.1


def free_threaded() -> bool:
    """Whether this is a free-threaded build of CPython, its GIL on or off."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def why_not() -> str | None:
    """Why this interpreter cannot be sampled safely; None if it can."""
    if free_threaded() and sys.version_info < (3, 13, 2):
        return (
            "faulthandler of free-threaded CPython before 3.13.2 does not stop the threads that it "
            "looks at"
        )
    return None


def thread_names(pool: Pool) -> dict[int, str]:
    """Thread identifier -> name, of all threads that are known by name. Any thread."""
    main = threading.main_thread()
    names = {
        thread.ident: "mtproxy/1" if thread is main else thread.name
        for thread in threading.enumerate()
        if thread.ident is not None
    }
    watchdog = pool.watchdog
    if watchdog is not None and watchdog.ident is not None:
        names[watchdog.ident] = "mtproxy/watchdog"
    return names


class Sampler:
    """One session. `on_data` is called by the helper thread when there is something to take, and
    when the session has ended; it must not block.
    """

    def __init__(
        self,
        pool: Pool,
        on_data: Callable[[], None],
        *,
        seconds: float = DEFAULT_SECONDS,
        rate: float = DEFAULT_RATE,
        idle: bool = False,
    ) -> None:
        """Without `idle` no dump is made while all threads of the pool wait for work."""
        self.pool = pool
        self.idle = idle
        self.seconds = min(seconds, MAX_SECONDS)
        self.rate = min(rate, MAX_RATE)
        self.samples = 0
        self.dumps = 0
        self.dropped = 0
        #: CPU time of all dumps, in ns, and for how long they stopped the world at most
        self.cpu_ns = 0
        self.stopped_ns = 0
        #: nothing more will come
        self.ended = False
        self._on_data = on_data
        self._pieces: deque[bytes] = deque()
        self._added = 0
        self._taken = 0
        self._stopping = False

    def start(self) -> None:
        """Begin to sample."""
        # Not a threading.Thread: three frames less in every dump.
        _thread.start_new_thread(self._run, ())

    def stop(self) -> None:
        """End soon. Any thread."""
        self._stopping = True

    def take(self) -> bytes:
        """What has come since the last call, in whole lines.

        `@profile JSON` comes first: the process, and which lines are idle. `@threads JSON` names
        threads by number. `@sample MICROSECONDS` is followed by a dump of faulthandler's without
        its empty lines, or by nothing where all threads of the pool waited for work. `@end JSON`
        comes last. `ended` is looked at before `take`, not after it.
        """
        pieces = []
        while self._pieces:
            pieces.append(self._pieces.popleft())
        data = b"".join(pieces)
        self._taken += len(data)
        return data

    # --- the helper thread
    def _run(self) -> None:
        try:
            self._session()
        except Exception as error:  # noqa: BLE001 - the client is told, the proxy goes on
            say("warning", f"the profiling session failed: {type(error).__name__}: {error}")
            self._add(_line("end", {"error": f"{type(error).__name__}: {error}"}))
        finally:
            self.ended = True
            self._on_data()

    def _session(self) -> None:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            try:
                fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
            except OSError:
                pass  # dumps of very many threads may be cut short then
            self._add(_line("profile", self._header()))
            self._sample_until_the_end(reader, writer)
        finally:
            os.close(reader)
            os.close(writer)

    def _sample_until_the_end(self, reader: int, writer: int) -> None:
        clock, cpu_clock = time.monotonic_ns, time.thread_time_ns
        dump = faulthandler.dump_traceback
        pool = self.pool
        pace = _Pace(self.rate)
        names: Mapping[int, str] = {}
        begin = now = clock()
        end = begin + int(self.seconds * 1e9)
        due = begin
        review = notice = begin
        while not self._stopping and not pool.stopping_now:
            if now >= review:
                review = now + int(REVIEW_INTERVAL * 1e9)
                pace.review(now)
                current = thread_names(pool)
                if current != names:
                    names = current
                    self._add(_line("threads", {str(i): name for i, name in names.items()}))
            before = clock()
            text = b""
            if self.idle or not all(shared.sleeping for shared in pool.shareds):
                cpu = cpu_clock()
                dump(writer, all_threads=True)
                stopped = clock() - before
                text = os.read(reader, _PIPE_SIZE)
                cost = cpu_clock() - cpu
                pace.learn(cost, stopped)
                self.dumps += 1
                self.cpu_ns += cost
                self.stopped_ns += stopped
            self._keep((before - begin) // 1000, text)
            if now >= notice:
                notice = now + int(NOTICE_INTERVAL * 1e9)
                self._on_data()
            now = clock()
            due = max(due + pace.interval_ns(), now)
            # 0.75 to 1.25 of the interval
            due += int((random.random() - 0.5) * 0.5 * pace.interval_ns())
            self._sleep_until(min(due, end))
            now = clock()
            if now >= end:
                break
        self._add(
            _line(
                "end",
                {
                    "seconds": (clock() - begin) / 1e9,
                    "samples": self.samples,
                    "dropped": self.dropped,
                    "dumps": self.dumps,
                    "cpu_us": self.cpu_ns // 1000,
                    "stopped_us": self.stopped_ns // 1000,
                },
            )
        )

    def _sleep_until(self, due: int) -> None:
        """Sleep, in slices that are short enough for `stop`. (Event.wait would cost as much as a
        third of a dump.)
        """
        while not self._stopping:
            left = due - time.monotonic_ns()
            if left <= 0:
                return
            time.sleep(min(left / 1e9, _SLICE))

    def _header(self) -> dict[str, object]:
        from mtproxy.sched.polllines import poll_lines  # needs dis, which nothing else does

        package = sys.modules["mtproxy"].__file__ or ""
        loop = run_loop.__code__
        return {
            "format": FORMAT,
            "pid": os.getpid(),
            "python": sys.version.split()[0],
            "free_threaded": free_threaded(),
            "rate": self.rate,
            "seconds": self.seconds,
            "root": os.path.dirname(os.path.dirname(package)),
            "idle": [[loop.co_filename, line] for line in poll_lines(loop)],
            # a poller in Python waits in frames of its own, above those lines
            "pollers": [fallback.__file__],
        }

    def _keep(self, at_us: int, text: bytes) -> None:
        self.samples += 1
        if self._added - self._taken > MAX_PENDING:
            self.dropped += 1
            return
        # an empty line ends the answer of a runtime command
        stacks = text.strip(b"\n").replace(b"\n\n", b"\n") + b"\n" if text else b""
        self._add(b"@sample %d\n%b" % (at_us, stacks))

    def _add(self, piece: bytes) -> None:
        self._added += len(piece)
        self._pieces.append(piece)


class _Pace:
    """How long to wait between samples: as asked for, or longer while dumps cost too much."""

    def __init__(self, rate: float) -> None:
        self._asked_ns = 1e9 / rate
        self._cost_ns = 0.0
        self._stopped_ns = 0.0
        self._cpus = 1.0
        self._seen = 0
        self._process_ns = 0

    def learn(self, cost_ns: int, stopped_ns: int) -> None:
        """One dump took so much CPU time and so long."""
        if not self._cost_ns:
            self._cost_ns, self._stopped_ns = cost_ns, stopped_ns
        self._cost_ns += (cost_ns - self._cost_ns) / 16
        self._stopped_ns += (stopped_ns - self._stopped_ns) / 16

    def review(self, now: int) -> None:
        """See how many CPUs the process uses."""
        spent = time.process_time_ns()
        if self._seen:
            self._cpus = max(LEAST_CPUS, (spent - self._process_ns) / (now - self._seen))
        self._seen, self._process_ns = now, spent

    def interval_ns(self) -> int:
        return int(
            max(
                self._asked_ns,
                self._cost_ns / (CPU_SHARE * self._cpus),
                self._stopped_ns / STOPPED_SHARE,
            )
        )


def _line(kind: str, content: Mapping[str, object]) -> bytes:
    return f"@{kind} {json.dumps(content)}\n".encode()

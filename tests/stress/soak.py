"""The long stress run: many clients, bodies of every size, and origin servers that are hurt.

    make soak
    python tests/stress/soak.py --requests 20000 --program haproxy

While clients (mtproxy.testing.soak_client) check every byte, the origins are killed, restarted,
reset and stalled in turns, with healthy times between; others break single answers off, at any
place, servers are disabled by hand, the proxy is stopped for a moment, and requests queue, as each
server takes a few at a time.
Afterwards everybody leaves, and the proxy has to be as it was: no socket more, no memory grown, no
session left, counters that add up, and a log that has a line for each request, as its client saw
it (mtproxy.testing.soak_ledger).

It fails on: a wrong byte, an answer to another client, a request that hangs, a status that nobody
sent, a failure (502, 503, 504 or a closed connection) while all origins were well beyond the rate
of `HEALTHY_FAILURES`, sockets or memory that stay, a proxy that died or printed a traceback.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from mtproxy.testing import procfs
from mtproxy.testing.program import Program
from mtproxy.testing.soak_chaos import Chaos, OriginProcess, Pulse
from mtproxy.testing.soak_client import FAULTS
from mtproxy.testing.soak_ledger import FORMAT, Ledger, LogReader
from mtproxy.testing.waiting import wait_until

#: failures permitted per request while every origin is well
HEALTHY_FAILURES = 1 / 5000
#: a pipe pair kept for the next splice is no leak, a socket is
KEPT_PIPES = 32
#: requests among which each kind of fault happens, however rare it is
ALL_FAULTS = 200_000
MOST_GROWTH = 24_000_000
CONFIG = """
global
    nbthread {threads}
defaults
    mode http
    timeout connect 2s
    timeout client 20s
    timeout server 5s
    timeout tunnel 20s
    timeout http-request 15s
    timeout http-keep-alive 15s
    timeout queue 15s
    retries 3
    option redispatch
frontend fe
    bind "fd@${{fe}}"
    log 127.0.0.1:{log} local0
    capture request header x-id len 64
    log-format "soak {format}"
    default_backend be
backend be
    balance roundrobin
    default-server maxconn 6 check inter 200ms fastinter 100ms downinter 200ms rise 2 fall 2
    {servers}
"""


class Soak:
    """One run. `problems` is empty when all is well."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.problems: list[str] = []
        self.lock = threading.Lock()
        self.failures: list[tuple[float, float, str]] = []
        self.progress: dict[int, dict[str, Any]] = {}
        self.warm_rss = 0
        self.ledger = Ledger()
        #: answers and errors that the frontend counted
        self.said = 0

    def run(self) -> None:
        options = self.options
        origins = [OriginProcess(f"o{n + 1}") for n in range(3)]
        with contextlib.ExitStack() as stack:
            for origin in origins:
                stack.callback(origin.kill)
                origin.start()
            servers = "\n    ".join(f"server {o.name} 127.0.0.1:{o.port}" for o in origins)
            log = stack.enter_context(LogReader(self.ledger))
            config = CONFIG.format(
                threads=options.threads, servers=servers, log=log.port, format=FORMAT
            )
            proxy = stack.enter_context(Program(options.program, config))
            proxy.wait_ready()
            sockets, descriptors = self._sockets(proxy), proxy.fd_count()
            chaos = Chaos(proxy, origins, options.seed, options.healthy)
            pulse = Pulse()
            pulse.start()
            begin = time.monotonic()
            try:
                self._traffic(proxy, chaos)
            finally:
                pulse.finish.set()
                pulse.join()
            took = time.monotonic() - begin
            chaos.windows += pulse.stalls
            stalled = sum(stop - start for start, stop in pulse.stalls)
            if stalled:
                print(f"the machine stood still {len(pulse.stalls)} times, {stalled:.1f} s in all")
            self._add_up(proxy)
            self._audit(proxy, log)
            for origin in origins:
                origin.end(signal.SIGKILL)
            self._aftermath(proxy, sockets, descriptors)
            self._judge(proxy, chaos, begin, took)

    def _traffic(self, proxy: Program, chaos: Chaos) -> None:
        options = self.options
        workers = [self._worker(proxy, number) for number in range(options.workers)]
        readers = [
            threading.Thread(target=self._follow, args=(number, worker))
            for number, worker in enumerate(workers)
        ]
        for reader in readers:
            reader.start()
        if options.healthy > 0:
            chaos.start()
        tick = threading.Event()
        begin = time.monotonic()
        try:
            while any(reader.is_alive() for reader in readers):
                tick.wait(1.0)
                done = self._sum("done")
                if not self.warm_rss and done >= options.requests / 5 and proxy.alive():
                    self.warm_rss = proxy.rss()
                self._show(proxy, chaos, begin)
                if not proxy.alive() or chaos.error is not None:
                    self.problems.append(f"the proxy died, or the chaos did ({chaos.error!r})")
                    break
        finally:
            for worker in workers:
                if worker.poll() is None and self.problems:
                    worker.kill()
            for reader in readers:
                reader.join()
            for worker in workers:
                worker.wait()
            chaos.finish.set()
            if chaos.ident is not None:
                chaos.join()
        print(file=sys.stderr)

    def _worker(self, proxy: Program, number: int) -> subprocess.Popen[str]:
        options = self.options
        share = options.requests // options.workers
        share += options.requests % options.workers if number == 0 else 0
        words = ["--port", str(proxy.port()), "--requests", str(share), "--name", f"w{number}"]
        words += ["--seed", options.seed, "--clients", str(options.clients)]
        return subprocess.Popen(
            [sys.executable, "-m", "mtproxy.testing.soak_client", *words],
            stdout=subprocess.PIPE,
            text=True,
        )

    def _follow(self, number: int, worker: subprocess.Popen[str]) -> None:
        """Reads a worker's lines to its end (a thread for each worker)."""
        assert worker.stdout is not None
        for text in worker.stdout:
            line = json.loads(text)
            with self.lock:
                if "fatal" in line:
                    self.problems.append(f"{line['fatal']}: {line['detail']} (id {line['id']})")
                elif "failure" in line:
                    self.failures.append((line["begin"], line["end"], line["failure"]))
                elif "outcomes" in line:
                    self.ledger.enter_outcomes(line["outcomes"])
                else:
                    self.progress[number] = line
        worker.stdout.close()

    def _sum(self, key: str) -> int:
        with self.lock:
            return sum(int(line[key]) for line in self.progress.values())

    def _show(self, proxy: Program, chaos: Chaos, begin: float) -> None:
        if not proxy.alive():
            return
        done = self._sum("done")
        seconds = time.monotonic() - begin
        text = (
            f"{done:,} of {self.options.requests:,} requests, {done / seconds:,.0f}/s, "
            f"{self._sum('bytes') / 1e9:.2f} GB, {self._sum('failed')} failed; proxy: "
            f"{proxy.fd_count()} descriptors, {proxy.rss() / 1e6:.0f} MB; {chaos.now}"
        )
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif round(seconds) % 10 == 0:
            print(text, file=sys.stderr, flush=True)

    @staticmethod
    def _sockets(proxy: Program) -> int:
        return sum(t.startswith("socket:") for t in procfs.fd_targets(proxy.pid).values())

    def _add_up(self, proxy: Program) -> None:
        """All clients have gone: nothing is going on, and what was counted fits together."""
        if not proxy.alive():
            return

        def quiet() -> bool:
            rows = [proxy.stat("fe", "FRONTEND"), proxy.stat("be", "BACKEND")]
            return all(int(row[name] or 0) == 0 for row in rows for name in ("scur", "qcur"))

        try:
            wait_until(quiet, "sessions to end", 60)
        except TimeoutError:
            self.problems.append("sessions are left although all clients have gone")
            return
        front, back = proxy.stat("fe", "FRONTEND"), proxy.stat("be", "BACKEND")
        servers = [proxy.stat("be", f"o{n + 1}") for n in range(3)]

        def answers(row: dict[str, str]) -> int:
            kinds = ("1xx", "2xx", "3xx", "4xx", "5xx", "other")
            return sum(int(row[f"hrsp_{kind}"] or 0) for kind in kinds)

        requests, said = int(front["req_tot"]), answers(front)
        # a kept connection that its server closed meanwhile ends without an answer and a line
        silent = requests - said
        self.said = said
        with self.lock:
            failed = len(self.failures)
        print(
            f"counters: {requests:,} requests, {said:,} answers and errors, {silent} ended silently"
        )
        if not 0 <= silent <= failed:
            self.problems.append(f"{silent} of {requests} requests have no answer and no error")
        behind = answers(back)
        if behind > said:
            self.problems.append(f"the backend answered {behind}, the frontend {said}")
        if sum(answers(row) for row in servers) > behind:
            self.problems.append("the servers answered more often than their backend")
        for name in ("bin", "bout"):
            if int(back[name]) > int(front[name]):
                self.problems.append(f"{name}: {back[name]} behind, {front[name]} in front")
        if int(back["wretr"]) != sum(int(row["wretr"]) for row in servers):
            self.problems.append("retries of the servers are not the backend's")

    def _audit(self, proxy: Program, log: LogReader) -> None:
        """The log against what the clients saw, request by request."""
        ledger = self.ledger
        if not proxy.alive() or self.problems:
            return
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: not ledger.waiting(), "the log's last lines", 60)
        if lost := log.lost():
            self.problems.append(f"the log's reader was late: {lost} datagrams are lost")
            return
        self.problems += ledger.problems()
        unlogged = ledger.unlogged()
        if ledger.lines != self.said:
            self.problems.append(
                f"{self.said} answers and errors were counted, {ledger.lines} were logged"
            )
        kinds = {"=": 0, "~": 0, "!": 0, "?": 0}
        for word, count in ledger.outcomes.items():
            kinds[word[0]] += count
        states = ", ".join(f"{what} {n:,}" for what, n in ledger.states.most_common(12))
        print(
            f"log: {ledger.lines:,} lines, {ledger.headless:,} of them without a head; "
            f"{ledger.queued:,} waited in a queue, {ledger.retries:,} retries\n"
            f"    states: {states}\n"
            f"    clients: {kinds['=']:,} whole answers, {kinds['~']:,} cut, {kinds['!']:,} left, "
            f"{kinds['?']:,} without a word, of which {unlogged:,} are not in the log"
        )

    def _aftermath(self, proxy: Program, sockets: int, descriptors: int) -> None:
        """Clients and origins are gone: what does the proxy still hold?"""
        if not proxy.alive():
            self.problems.append(f"the proxy ended with {proxy.process.returncode}")
            return
        try:
            wait_until(lambda: self._sockets(proxy) <= sockets, "sockets to be given back", 60)
        except TimeoutError:
            now = self._sockets(proxy)
            self.problems.append(f"{now - sockets} sockets stayed open ({sockets} at the start)")
        if (more := proxy.fd_count() - descriptors) > KEPT_PIPES:
            self.problems.append(f"{more} descriptors more than at the start")
        if self.warm_rss and (grown := proxy.rss() - self.warm_rss) > MOST_GROWTH:
            self.problems.append(f"memory grew by {grown / 1e6:.0f} MB after the first fifth")

    def _judge(self, proxy: Program, chaos: Chaos, begin: float, took: float) -> None:
        done = self._sum("done")
        unexcused = [f for f in self.failures if not chaos.excuses(f[0], f[1])]
        share = chaos.healthy_share(begin, begin + took)
        reasons = collections.Counter(what for _, _, what in self.failures)
        print(f"{done:,} requests in {took:.0f} s, {self._sum('bytes') / 1e9:.2f} GB of bodies")
        hurts = ", ".join(f"{what} {count}" for what, count in sorted(chaos.counts.items()))
        print(f"origins hurt: {hurts or 'never'}; all well for {share:.0%} of the time")
        faults: collections.Counter[str] = collections.Counter()
        for line in self.progress.values():
            faults.update(line["faults"])
        print("faults: " + ", ".join(f"{what} {faults[what]:,}" for what in FAULTS))
        missing = [what for what in FAULTS if not faults[what]]
        if missing and done >= ALL_FAULTS:
            self.problems.append(f"faults that never happened: {', '.join(missing)}")
        if proxy.alive():
            print(
                f"proxy: {self.warm_rss / 1e6:.0f} MB after a fifth, {proxy.rss() / 1e6:.0f} MB "
                f"at the end; {proxy.fd_count()} descriptors"
            )
        print(f"failed: {len(self.failures)}, of them {len(unexcused)} while all origins were well")
        for what, count in reasons.most_common(8):
            print(f"    {count:6}  {what}")
        if done < self.options.requests and not self.problems:
            self.problems.append(f"only {done} of {self.options.requests} requests were made")
        if len(unexcused) > done * share * HEALTHY_FAILURES:
            first = "; ".join(f"{what} at {at - begin:.1f} s" for at, _, what in unexcused[:5])
            self.problems.append(f"{len(unexcused)} failures while all origins were well: {first}")
        if proxy.alive():
            proxy.stop(signal.SIGTERM)
        if "Traceback" in proxy.output():
            self.problems.append(f"the proxy printed a traceback:\n{proxy.output()[-3000:]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when all was well."""
    parser = argparse.ArgumentParser(
        prog="tests/stress/soak.py",
        description="The long stress run: clients check every byte of their answers while the "
        "origin servers behind the proxy are killed, restarted, reset and stalled in turns. "
        "Afterwards the proxy must hold no socket and no memory more than before. "
        "Exit code: 0 passed, 1 failed.",
        epilog="Also: make soak ARGS='--requests 20000'.",
    )
    parser.add_argument(
        "--requests", type=int, default=200_000, help="requests of all clients together (200000)"
    )
    parser.add_argument("--program", default="mtproxy", help="mtproxy, haproxy or a path (mtproxy)")
    parser.add_argument(
        "--seed",
        default=str(random.SystemRandom().randrange(1_000_000)),
        help="repeats the choices of clients and chaos (default: by chance, printed at the start)",
    )
    parser.add_argument("--workers", type=int, default=2, help="client processes (2)")
    parser.add_argument("--clients", type=int, default=12, help="clients of each process (12)")
    parser.add_argument("--threads", type=int, default=2, help="the proxy's nbthread (2)")
    parser.add_argument(
        "--healthy", type=float, default=3.0, help="seconds between two hurts (3); 0: no hurts"
    )
    options = parser.parse_args(arguments)
    words = f"{options.program}, {options.requests:,} requests, --seed {options.seed}"
    print(f"soak: {words}", flush=True)
    soak = Soak(options)
    soak.run()
    for problem in soak.problems:
        print(f"PROBLEM: {problem}")
    print("soak: " + ("failed" if soak.problems else "passed"))
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())

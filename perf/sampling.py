"""Log sampling: what it costs to share the counts, by strategy and number of threads.

Threads of this process do what the proxy's threads do with a log line: call the frontend's
generated log function (`option httplog`), which chooses, formats and queues, and flush their
targets after every turn of 40 messages. Targets are UDP sockets on the loopback interface, whose
receivers read nothing: the kernel drops what does not fit, at the same price in every variant.

`unsampled` has one log line to one server. The others have four, `sample 1:4` to `4:4`, so every
variant formats and sends each message once; what differs is the choice and the four queues.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.log_settings import LogSettings, SampleSettings
from mtproxy.log.logger import ThreadLogs, make_logger, sampling_of
from mtproxy.log.sampling import DEFAULT_STRATEGY, STRATEGIES, Sampling
from mtproxy.testing.logrecord import FakeRecord
from perf.results import Ratio, Series, interleave, ratio
from perf.suite import Benchmark, Outcome, Say, pick, positive, series_of
from perf.workers import together

SERVERS = 4
#: messages of one turn of a loop (tune.runqueue-depth)
TURN = 40
LEAST_RATE = 0.95
MOST_LOSS = 1 / 3
UNSAMPLED = "unsampled"

#: how far a message goes: only the choice of its servers; the log function as well, with queueing;
#: or all the way into the kernel
CHOICE, FUNCTION, SENT = "choice", "function", "sent"


class Context:
    """What a logger wants of a thread's context."""

    def __init__(self, tid: int) -> None:
        self.tid = tid


def _record() -> FakeRecord:
    """A record of a class with slots, as the streams are."""
    values = vars(FakeRecord())
    kind = type("Record", (), {"__slots__": tuple(values)})
    record = kind()
    for name, value in values.items():
        setattr(record, name, value)
    return record  # type: ignore[no-any-return]


def log_lines(ports: list[int], variant: str) -> list[LogSettings]:
    """The frontend's `log` lines."""
    count = 1 if variant == UNSAMPLED else len(ports)
    lines = []
    for number, port in enumerate(ports[:count], 1):
        sample = None if count == 1 else SampleSettings(((number, number),), count)
        address = Address(AddressKind.UDP4, "127.0.0.1", port)
        lines.append(LogSettings(address, facility="local0", sample=sample))
    return lines


def worker(
    lines: list[LogSettings], shared: Sampling | None, messages: int, depth: str, tid: int
) -> Callable[[], None]:
    """One thread's work; made on that thread."""
    logs = ThreadLogs(Context(tid))
    logger = make_logger(
        lines,
        None,
        os.getpid(),
        Context(tid),
        options=frozenset({"httplog"}),
        log_format="httplog",
        thread_logs=logs,
        shared_samples=shared,
    )
    log, record = logger.log, _record()
    turns = messages // TURN
    if depth == CHOICE:
        assert shared is not None
        draw = next(iter(shared.draw(level, tid) for level in shared.sampled))
        draw_next, modulus = draw.next, draw.modulus or sys.maxsize

        def choose() -> None:
            for _ in range(turns * TURN):
                draw_next() % modulus

        return choose
    queues = [sender.target.waiting for sender in logger.senders]

    def forget() -> None:
        for queue in queues:
            queue.clear()

    flush = logs.flush if depth == SENT else forget

    def work() -> None:
        for _ in range(turns):
            for _ in range(TURN):
                log(record)
            flush()
        logs.close()

    return work


def run(options: argparse.Namespace, say: Say) -> Outcome:
    """Every variant, number of threads and depth takes its turn in every round."""
    strategies = list(STRATEGIES)
    variants: dict[str, tuple[int, str, str]] = {}
    for threads in options.threads:
        for variant in (UNSAMPLED, *strategies):
            for depth in (SENT, FUNCTION, CHOICE):
                if (variant, depth) != (UNSAMPLED, CHOICE):
                    variants[_name(threads, variant, depth)] = (threads, variant, depth)
    with ExitStack() as stack:
        ports = [stack.enter_context(_receiver()).getsockname()[1] for _ in range(SERVERS)]

        def measure(name: str) -> dict[str, float]:
            threads, variant, depth = variants[name]
            lines = log_lines(ports, variant)
            shared = None if variant == UNSAMPLED else sampling_of(lines, variant)
            each = options.messages // threads // TURN * TURN
            spent = together(threads, lambda tid: worker(lines, shared, each, depth, tid))
            total = each * threads
            return {"CPU": spent.cpu_seconds / total * 1e6, "rate": total / spent.seconds}

        for variant in (UNSAMPLED, *strategies):  # once without counting: code is compiled
            measure(_name(1 if 1 in options.threads else options.threads[0], variant, SENT))
        found = interleave(list(variants), options.rounds, measure, say)
    series = series_of(found, {"CPU": "us/message", "rate": "messages/s"})
    settings: dict[str, object] = {
        "rounds": options.rounds,
        "messages": options.messages,
        "servers": SERVERS,
        "turn": TURN,
        "default": DEFAULT_STRATEGY,
    }
    notes = _notes(series, options.threads, strategies)
    return Outcome(series, _ratios(series, options.threads, strategies), settings, notes)


def _receiver() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    return sock


def _name(threads: int, variant: str, depth: str) -> str:
    return f"{threads} thr {variant} {depth}"


def _ratios(series: list[Series], threads: list[int], strategies: list[str]) -> list[Ratio]:
    ratios = []
    for n in threads:
        plain_cpu = pick(series, _name(n, UNSAMPLED, SENT), "CPU")
        plain_rate = pick(series, _name(n, UNSAMPLED, SENT), "rate")
        for name in strategies:
            asked = LEAST_RATE if n == 2 and name == DEFAULT_STRATEGY else None
            mine = pick(series, _name(n, name, SENT), "rate")
            title = f"rate, {n} thr: {name} / {UNSAMPLED}"
            ratios.append(ratio(title, mine, plain_rate, asked, at_most=False))
        for name in strategies:
            mine = pick(series, _name(n, name, SENT), "CPU")
            ratios.append(ratio(f"CPU, {n} thr: {name} / {UNSAMPLED}", mine, plain_cpu))
        asked = MOST_LOSS if n == 2 else None
        ratios.append(_loss(series, n, SENT, "rate", asked))
        ratios.append(_loss(series, n, SENT, "CPU", asked))
        ratios.append(_loss(series, n, FUNCTION, "CPU", None))
    if {2, 4} <= set(threads):
        # the machine's cores are fewer than four as a rule: the loss from that is a thing by itself
        for name in (UNSAMPLED, *strategies):
            four, two = (pick(series, _name(n, name, SENT), "rate") for n in (4, 2))
            ratios.append(ratio(f"rate of {name}: 4 threads / 2", four, two))
    return ratios


def _loss(
    series: list[Series], threads: int, depth: str, metric: str, asked: float | None
) -> Ratio:
    """What sampling costs with the default (rate lost, or CPU time added), divided by what it
    costs with the lock.
    """
    plain, mine, lock = (
        pick(series, _name(threads, name, depth), metric).values
        for name in (UNSAMPLED, DEFAULT_STRATEGY, "lock")
    )
    sign = 1 if metric == "CPU" else -1
    values = tuple(
        # less than nothing is nothing; where the lock costs nothing there is no answer
        max(sign * (m - p), 0.0) / cost if (cost := sign * (k - p)) > 0 else float("inf")
        for p, m, k in zip(plain, mine, lock, strict=True)
    )
    what = "CPU added" if metric == "CPU" else "rate lost"
    return Ratio(f"{what}, {threads} thr, {depth}: {DEFAULT_STRATEGY} / lock", values, asked)


def _notes(series: list[Series], threads: list[int], strategies: list[str]) -> list[str]:
    """Shares of the time of a message."""
    cores = len(os.sched_getaffinity(0))
    notes = [f"{n} threads on {cores} cores: over-subscribed" for n in threads if n > cores]
    for n in threads:
        shares = []
        for name in (UNSAMPLED, *strategies):
            sent = pick(series, _name(n, name, SENT), "CPU").median
            function = pick(series, _name(n, name, FUNCTION), "CPU").median
            share = f"{name} {100 * function / sent:.0f} %"
            if name != UNSAMPLED:
                choice = pick(series, _name(n, name, CHOICE), "CPU").median
                share += f" (the choice {100 * choice / sent:.0f} %)"
            shares.append(share)
        notes.append(f"share of the log function in CPU time, {n} thr: {', '.join(shares)}")
    return notes


def _messages(text: str) -> int:
    return max(TURN * 64, int(positive(text)))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--messages", type=_messages, default=60_000, help="of one round of one variant (60000)"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4], help="(1 2 4)")


BENCHMARK = Benchmark(
    "sampling",
    "log lines without sampling and with four samples, by the way threads share the count",
    run,
    _options,
)

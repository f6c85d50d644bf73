"""Maps and ACLs: what a look-up costs in small and in big lists, and what a change costs.

Each list is looked into by one thread and by two at once; half of the look-ups find something. A
change is `set-map` of an entry that is there. Beside them stand ACLs of a few patterns that do not
match, which is what most rules of most requests are.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from typing import Any

from mtproxy.rules.patterns.reference import PatternExpr, PatternRef
from mtproxy.rules.types import Ip4
from perf.results import interleave, ratio
from perf.suite import Benchmark, Outcome, Say, pick, series_of
from perf.workers import together

SMALL, BIG = 100, 100_000
METHODS = ("str", "beg", "end", "dom", "ip", "int")
CHANGE = "set-map"
#: ACLs that do not match: method, patterns, value
ACLS: dict[str, tuple[str, tuple[bytes, ...], bytes]] = {
    "acl path_beg, 5": (
        "beg",
        (b"/static/", b"/images/", b"/js/", b"/css/", b"/fonts/"),
        b"/api/v1/users/42",
    ),
    "acl path_end, 5": (
        "end",
        (b".jpg", b".png", b".gif", b".css", b".js"),
        b"/api/v1/users/42",
    ),
    "acl path_reg, linear": ("reg", (rb"^/old/(.*)$",), b"/api/v1/users/42"),
    "acl path_reg, PCRE2": ("reg", (rb"^/(?:old|gone){2,}/",), b"/api/v1/users/42"),
}


def _text(method: str, number: int) -> bytes:
    """The pattern with a number, and a value that it matches."""
    scattered = number * 2_654_435_761 % (1 << 32)
    match method:
        case "ip":
            return b"%d.%d.%d.%d/32" % tuple(scattered.to_bytes(4))
        case "int":
            return b"%d" % scattered
        case "beg":
            return b"/%x/" % scattered
        case "end":
            return b"/%x" % scattered
    return b"%x.example.com" % scattered


def _value(method: str, text: bytes) -> Any:
    match method:
        case "ip":
            return Ip4(int.from_bytes(bytes(map(int, text[:-3].split(b".")))))
        case "int":
            return int(text)
        case "beg":
            return text + b"index.html"
        case "end":
            return b"/files" + text
        case "dom":
            return b"www." + text
    return text


def make_map(method: str, size: int) -> PatternExpr:
    """A map of `size` entries."""
    ref = PatternRef("file", "", has_values=True)
    expr = ref.expr(method, kind="str")
    for number in range(size):
        ref.load(_text(method, number), b"v%d" % number)
    return expr


def _look_ups(expr: PatternExpr, size: int) -> Callable[[int, int], Callable[[], None]]:
    def prepare(tid: int, times: int) -> Callable[[], None]:
        choose = random.Random(tid)
        find = expr.finder()
        # entries, and as many that are none
        values = [
            _value(expr.method, _text(expr.method, choose.randrange(2 * size))) for _ in range(1000)
        ]

        def work() -> None:
            for _ in range(times // 1000):
                for value in values:
                    find(value)

        return work

    return prepare


def _changes(expr: PatternExpr, size: int) -> Callable[[int, int], Callable[[], None]]:
    def prepare(tid: int, times: int) -> Callable[[], None]:
        choose = random.Random(tid)
        keys = [_text(expr.method, choose.randrange(size)) for _ in range(1000)]
        change = expr.ref.set_or_add

        def work() -> None:
            for _ in range(times // 1000):
                for key in keys:
                    change(key, b"new", tid)

        return work

    return prepare


def _tests(name: str) -> Callable[[int, int], Callable[[], None]]:
    method, texts, value = ACLS[name]
    ref = PatternRef("", "")
    expr = ref.expr(method)
    for text in texts:
        ref.load(text)

    def prepare(_tid: int, times: int) -> Callable[[], None]:
        test = expr.tester()

        def work() -> None:
            for _ in range(times):
                test(value)

        return work

    return prepare


def run(options: argparse.Namespace, say: Say) -> Outcome:
    """Every list with every number of threads, in every round."""
    jobs: dict[str, Callable[[int, int], Callable[[], None]]] = {}
    for method in METHODS:
        for size in (SMALL, BIG):
            jobs[f"{method} {size:,}"] = _look_ups(make_map(method, size), size)
    for size in (SMALL, BIG):
        jobs[f"{CHANGE} {size:,}"] = _changes(make_map("str", size), size)
    jobs |= {name: _tests(name) for name in ACLS}
    variants = {f"{n} thr {name}": (n, job) for n in (1, 2) for name, job in jobs.items()}

    def measure(variant: str) -> dict[str, float]:
        threads, prepare = variants[variant]
        each = options.look_ups
        spent = together(threads, lambda tid: prepare(tid, each))
        return {"CPU": spent.cpu_seconds / (each * threads) * 1e9}

    series = series_of(
        interleave(list(variants), options.rounds, measure, say), {"CPU": "ns/look-up"}
    )
    ratios = [
        ratio(
            f"{n} thr: {name}, {BIG:,} / {SMALL:,} entries",
            pick(series, f"{n} thr {name} {BIG:,}", "CPU"),
            pick(series, f"{n} thr {name} {SMALL:,}", "CPU"),
        )
        for n in (1, 2)
        for name in (*METHODS, CHANGE)
    ]
    settings: dict[str, object] = {"rounds": options.rounds, "look-ups": options.look_ups}
    return Outcome(series, ratios, settings)


def _count(text: str) -> int:
    return max(1000, int(text))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--look-ups", type=_count, default=100_000, help="of one thread in one round (100000)"
    )


BENCHMARK = Benchmark(
    "rules-maps",
    "maps and ACLs: a look-up in small and big lists, a change, a test that does not match",
    run,
    _options,
)

"""Lists of patterns that several threads change while others look into them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mtproxy.rules.patterns.reference import PatternExpr, PatternRef
from mtproxy.rules.types import Ip4
from mtproxy.sync import stats

READERS, WRITERS, STEPS = 2, 2, 1500
#: entries that are always there, and how a value is made of a text
STABLE = 30
METHODS: dict[str, tuple[Callable[[int], bytes], Callable[[bytes], Any]]] = {
    "str": (lambda n: b"key%d" % n, lambda text: text),
    "beg": (lambda n: b"/%d/" % n, lambda text: text + b"x"),
    "end": (lambda n: b"/%d" % n, lambda text: b"x" + text),
    "sub": (lambda n: b"<%d>" % n, lambda text: b"x" + text + b"y"),
    "dom": (lambda n: b"h%d.example" % n, lambda text: b"www." + text),
    "reg": (lambda n: b"^%d[a-z]$" % n, lambda text: text[1:-6] + b"a"),
    "int": (lambda n: b"%d" % n, int),
    "ip": (
        lambda n: b"10.0.%d.%d" % (n >> 8, n & 255),
        lambda text: Ip4(int.from_bytes(bytes(map(int, text.split(b"."))))),
    ),
}


def _storm(threads: list[Callable[[], None]]) -> None:
    failures: list[BaseException] = []

    def guard(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)

    running = [threading.Thread(target=guard, args=(work,)) for work in threads]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    if failures:
        raise failures[0]


@pytest.mark.parametrize("method", METHODS)
def test_entries_come_and_go(method: str) -> None:
    """What is always there is always found, with a value that somebody has stored."""
    stats.configure(READERS + WRITERS)
    make, value_of = METHODS[method]
    ref = PatternRef("file", "", has_values=True)
    expr = ref.expr(method, kind="str")
    for number in range(STABLE):
        ref.load(make(number), b"0")
    done = threading.Event()

    def write(tid: int) -> Callable[[], None]:
        def work() -> None:
            choose = random.Random(tid)
            for _ in range(STEPS):
                number = choose.randrange(STABLE)
                ref.set_or_add(make(number), b"%d" % choose.randrange(9), tid)
                passing = make(STABLE + tid * 50 + choose.randrange(50))
                if choose.random() < 0.5:
                    ref.set_or_add(passing, b"p", tid)
                else:
                    ref.delete(passing, tid)
            done.set()

        return work

    def read(seed: int) -> None:
        choose = random.Random(seed)
        find, test = expr.finder(), expr.tester()
        texts = [make(number) for number in range(STABLE)]
        values = [value_of(text) for text in texts]
        missing = value_of(make(999))
        while not done.is_set():
            number = choose.randrange(STABLE)
            entry = find(values[number])
            assert entry is not None
            assert entry.key == texts[number]
            assert entry.value is not None
            assert entry.value.isdigit()
            assert test(values[number])
            assert find(missing) is None
            assert not test(missing)

    writers = [write(tid) for tid in range(WRITERS)]
    _storm([*writers, *(lambda seed=seed: read(seed) for seed in range(READERS))])
    ref._check()
    assert all(expr.finder()(value_of(make(number))) for number in range(STABLE))


@pytest.mark.parametrize("method", ["str", "beg", "reg", "ip"])
def test_versions_are_seen_as_a_whole(method: str) -> None:
    """A look-up sees entries of one version; a version never goes back."""
    stats.configure(READERS + 1)
    make, value_of = METHODS[method]
    ref = PatternRef("file", "", has_values=True)
    expr: PatternExpr = ref.expr(method, kind="str")
    for number in range(10):
        ref.load(make(number), b"0")
    done = threading.Event()

    def write() -> None:
        for _ in range(60):
            version = ref.prepare(0)
            for number in range(10):
                ref.add(make(number), b"%d" % version, 0, version)
            assert ref.commit(version, 0)
        done.set()

    def read() -> None:
        find = expr.finder()
        values = [value_of(make(number)) for number in range(10)]
        last = 0
        while not done.is_set():
            for value in values:
                entry = find(value)
                assert entry is not None
                assert entry.value is not None
                assert entry.generation == int(entry.value) >= last
                last = entry.generation

    _storm([write, *[read] * READERS])
    ref._check()
    assert ref.current == ref.next == 60
    assert ref.entry_count() == 10

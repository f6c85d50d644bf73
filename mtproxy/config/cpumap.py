"""The argument syntax of `cpu-map [auto:]GROUP[/THREADS] CPUS...` (manual 3.1). Pure.

There is one thread group. Sets are `all`, `odd`, `even`, `N`, `N-M`, `N-` and `-`-free numbers;
threads count from 1, CPUs from 0.
"""

from __future__ import annotations

import re

from mtproxy.base.errors import ConfigError
from mtproxy.base.units import decimal

#: as HAProxy's builds for 64-bit machines
MAX_THREADS = 64
MAX_CPUS = 1024
_RANGE = re.compile(r"([0-9]+)(?:(-)([0-9]*))?")


def parse_set(text: str, lowest: int, highest: int, *, words: bool = True) -> list[int]:
    """`all`, `odd`, `even`, a number or a range, within [lowest, highest], in ascending order.

    `words` allows the three words; a CPU set is made of numbers only.
    """
    if text == "all" and words:
        return list(range(lowest, highest + 1))
    if text in ("odd", "even") and words:
        wanted = 1 if text == "odd" else 0
        return [number for number in range(lowest, highest + 1) if number % 2 == wanted]
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ConfigError(f"'cpu-map' : '{text}' is not a valid number or range", word=text)
    low = decimal(found[1])
    high = low
    if found[2]:
        high = decimal(found[3]) if found[3] else highest
    if low > high:
        low, high = high, low
    if low < lowest or high > highest:
        raise ConfigError(
            f"'cpu-map' : '{text}' is not within {lowest} to {highest}",
            word=text,
        )
    return list(range(low, high + 1))


def parse_cpu_map(words: tuple[str, ...]) -> dict[int, frozenset[int]]:
    """Thread number -> CPU numbers, from the words behind `cpu-map`."""
    if len(words) < 2:
        raise ConfigError(
            "'cpu-map' expects a thread group and set ('1/all', '1/1-4', 'auto:1/1-4')"
            " followed by CPU numbers or ranges"
        )
    target, cpu_words = words[0], words[1:]
    auto = target.startswith("auto:")
    group, slash, threads_text = target.removeprefix("auto:").partition("/")
    groups = parse_set(group, 1, MAX_THREADS)
    threads = parse_set(threads_text, 1, MAX_THREADS) if slash else parse_set("all", 1, MAX_THREADS)
    cpus: set[int] = set()
    for word in cpu_words:
        for part in word.split(","):
            cpus.update(parse_set(part, 0, MAX_CPUS - 1, words=False))
    if 1 not in groups:
        # Groups beyond the first do not exist: nothing to do, as in HAProxy.
        return {}
    if not auto:
        return dict.fromkeys(threads, frozenset(cpus))
    if len(groups) > 1 and not slash:
        raise ConfigError("'cpu-map' : 'auto:' needs one thread group", word=target)
    if len(threads) != len(cpus):
        raise ConfigError(
            "'cpu-map' : with 'auto:' the thread set and the CPU set must have the same size"
            f" ({len(threads)} and {len(cpus)})",
            word=target,
        )
    return {thread: frozenset({cpu}) for thread, cpu in zip(threads, sorted(cpus), strict=True)}

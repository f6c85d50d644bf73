"""Long differential fuzzing of the HTTP/1 codec against h11.

    python -m mtproxy.testing.h1fuzz [--seconds N] [--seed S] [--case K] [--responses | --requests]

Every case is made from `seed` and its number alone, so a failure prints the command that repeats
it. Progress is shown every 10 seconds. Exit code 0: nothing found; 1: a failure, with the input.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from mtproxy.http.cache import HeadCache
from mtproxy.testing.h1compare import compare_request, compare_response
from mtproxy.testing.h1generator import Generator

#: seconds between two lines of progress
PROGRESS = 10.0

_METHODS = [b"GET", b"GET", b"GET", b"HEAD", b"POST", b"CONNECT"]


def run_case(seed: int, case: int, cache: HeadCache, only: str | None = None) -> str | None:
    """One case; the description of a failure, or None."""
    generator = Generator(Random(f"{seed}/{case}"))
    rng = generator.rng
    if only == "requests" or (only is None and rng.randrange(2)):
        data = generator.request()
        pieces = generator.pieces(data)
        wrong = compare_request(data, pieces, cache)
        what = "request"
    else:
        data = generator.response()
        pieces = generator.pieces(data)
        method = rng.choice(_METHODS)
        upgrade = rng.randrange(4) == 0
        wrong = compare_response(data, pieces, method, cache, upgrade)
        what = f"response to {method.decode()}{' with an upgrade' if upgrade else ''}"
    if wrong is None:
        return None
    return f"{what}\n  input:  {data!r}\n  pieces: {pieces!r}\n  wrong:  {wrong}"


def main(argv: list[str] | None = None) -> int:
    """Run until the time is over or something is found."""
    parser = argparse.ArgumentParser(
        prog="python -m mtproxy.testing.h1fuzz",
        description="Random HTTP/1 messages, whole and broken, are given to mtproxy's parser and "
        "to h11; where the two disagree in a way that docs/http1.md does not explain, that is a "
        "failure (exit code 1). Also: make fuzz ARGS='...'.",
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument("--seed", type=int, default=None, help="default: from the clock")
    parser.add_argument("--case", type=int, default=None, help="run this case only")
    for only in ("requests", "responses"):
        parser.add_argument(
            f"--{only}",
            action="store_const",
            const=only,
            dest="only",
            help=f"{only} alone (default: both in turns, by chance)",
        )
    options = parser.parse_args(argv)
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000_007
    cache = HeadCache(entries_max=64)
    out = sys.stdout
    if options.case is not None:
        found = run_case(seed, options.case, cache, options.only)
        out.write((found or "nothing found") + "\n")
        return 1 if found else 0
    start = shown = time.monotonic()
    out.write(f"h1 against h11: seed {seed}, {options.seconds:g} s\n")
    out.flush()
    case = 0
    while True:
        found = run_case(seed, case, cache, options.only)
        if found is not None:
            only = f" --{options.only}" if options.only else ""
            out.write(
                f"case {case}: {found}\n"
                f"  repeat: python -m mtproxy.testing.h1fuzz --seed {seed} --case {case}{only}\n"
            )
            return 1
        case += 1
        now = time.monotonic()
        if case % 1000 == 0:
            cache._check()
        if now - shown >= PROGRESS:
            out.write(f"  {now - start:5.0f} s  {case} cases\n")
            out.flush()
            shown = now
        if now - start >= options.seconds:
            out.write(f"nothing found in {case} cases\n")
            return 0


if __name__ == "__main__":
    sys.exit(main())

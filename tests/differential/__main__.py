"""The differential bed by hand.

    python -m tests.differential [FAMILY...] [--case PART] [--haproxy-only] [--show]

Prints the cases in which mtproxy differs from HAProxy, or with `--haproxy-only` what HAProxy does
(to read while a feature is being written).
"""

from __future__ import annotations

import argparse
import sys

from tests.differential import bed, families, known_differences
from tests.differential.case import Case


def _say(text: str) -> None:
    data = text.encode("utf-8", "replace").decode()
    sys.stdout.write(data + "\n")


def _describe(case: Case) -> None:
    for title, text in (("sections", case.sections), ("front", case.front), ("back", case.back)):
        for line in filter(None, (line.strip() for line in text.splitlines())):
            _say(f"  {title}: {line}")
    for data in case.requests:
        _say(f"    request   {data!r}")


def _load_only(name: str, cases: list[Case], haproxy_only: bool) -> int:
    theirs = bed.refusals("haproxy", cases)
    if haproxy_only:
        for case in cases:
            _say(f"{name}/{case.name}: {theirs.get(case.name) or 'accepted'}")
        return 0
    mine = bed.refusals("mtproxy", cases)
    wrong = 0
    for case in cases:
        broken = mine.get(case.name, "").startswith(bed.TRACEBACK_WORD)
        if broken or (case.name in mine) != (case.name in theirs):
            wrong += f"{name}/{case.name}" not in known_differences.DIFFERENCES
            _say(f"{name}/{case.name}: mtproxy: {mine.get(case.name) or 'accepted'}")
            _say(f"    haproxy: {theirs.get(case.name) or 'accepted'}")
    return wrong


def main() -> int:
    """Exit code 1 where something differs that is not recorded."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--case", default="", help="only cases whose names have this in them")
    parser.add_argument("--haproxy-only", action="store_true")
    parser.add_argument("--brief", action="store_true", help="names only")
    options = parser.parse_args()
    total = wrong = 0
    for name in options.families or families.names():
        cases = [case for case in families.family(name) if options.case in case.name]
        total += len(cases)
        if name in families.LOAD_ONLY:
            wrong += _load_only(name, cases, options.haproxy_only)
            continue
        if options.haproxy_only:
            seen = bed.run_accepted("haproxy", cases)
            for case in cases:
                _say(f"{name}/{case.name}")
                _describe(case)
                _say(str(seen[case.name]))
            continue
        found = bed.differences(cases)
        for case in cases:
            if case.name not in found:
                continue
            mine, theirs = found[case.name]
            known = known_differences.DIFFERENCES.get(f"{name}/{case.name}")
            wrong += known is None
            _say(f"{name}/{case.name}" + (f" (known: {known})" if known else ""))
            if options.brief:
                if mine.refused:
                    _say(f"    {mine.refused}")
                continue
            _describe(case)
            _say(f"  mtproxy\n{mine}\n  haproxy\n{theirs}")
        _say(f"{name}: {len(cases)} cases, {len(found)} differ")
    _say(f"{total} cases, {wrong} differ and are not recorded")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

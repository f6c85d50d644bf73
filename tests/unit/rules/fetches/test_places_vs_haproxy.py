"""What HAProxy knows of its fetches (`-dKsmp`): names, types, and where each may be used."""

from __future__ import annotations

import re
import subprocess
from functools import cache

import pytest

from mtproxy.rules import points, registry
from mtproxy.rules.points import Point
from mtproxy.testing.haproxy_judge import find_haproxy

pytestmark = pytest.mark.skipif(find_haproxy() is None, reason="haproxy is not installed")

#: columns of HAProxy's table: the place, and the kind of section
COLUMNS: dict[int, tuple[Point, str]] = {
    0: (points.TCP_CONNECTION, "frontend"),
    1: (points.TCP_SESSION, "frontend"),
    2: (points.TCP_CONTENT, "frontend"),
    3: (points.HTTP_REQUEST, "frontend"),
    5: (points.USE_BACKEND, "frontend"),
    6: (points.TCP_CONTENT, "backend"),
    7: (points.HTTP_REQUEST, "backend"),
    9: (points.USE_SERVER, "backend"),
    11: (points.TCP_RESPONSE, "backend"),
    12: (points.HTTP_RESPONSE, "backend"),
    14: (points.STICK_RESPONSE, "backend"),
    16: (points.HTTP_RESPONSE, "frontend"),
    18: (points.LOG, "frontend"),
    20: (points.GLOBAL, "frontend"),
    21: (points.RUNTIME, "frontend"),
}
#: families that are still to come
PENDING = re.compile(r"capture\.|http_auth|unique-id$|var$").match
#: what HAProxy gives in a wider type than its table says
TYPES = {"ipv4": {"ipv4", "ipv6", "addr"}, "sint": {"sint", "ipv4", "addr"}}


@cache
def known() -> dict[str, tuple[str, str]]:
    """Marks and type by name."""
    done = subprocess.run(
        ["haproxy", "-dKsmp", "-f", "/dev/null"], capture_output=True, text=True, check=False
    )
    rows = re.findall(r"^\[ ([Y. ]+) \] ([^:(]+)(?:\(.*?\))?: (\w+)$", done.stdout, re.MULTILINE)
    return {name: (marks.replace(" ", ""), kind) for marks, name, kind in rows}


def test_the_table_was_read() -> None:
    assert len(known()) > 300


def test_every_fetch_of_haproxy_is_known() -> None:
    missing = known().keys() - registry.FETCHES.keys()
    assert sorted(name for name in missing if not PENDING(name)) == []


def test_fetches_may_be_used_where_haproxy_takes_them() -> None:
    wrong = []
    for name, (marks, _) in known().items():
        entry = registry.FETCHES.get(name)
        if entry is None or entry.later:
            continue
        for column, (point, kind) in COLUMNS.items():
            if (point.missing(entry.needs, kind) is None) != (marks[column] == "Y"):
                wrong.append(f"{name} in {kind} {point.name}: haproxy {marks[column]}")
    assert wrong == []


def test_types_are_those_of_haproxy() -> None:
    wrong = []
    for name, (_, kind) in known().items():
        entry = registry.FETCHES.get(name)
        if entry is None or entry.later:
            continue
        if entry.out.value not in TYPES.get(kind, {kind}):
            wrong.append(f"{name}: {entry.out.value}, haproxy {kind}")
    assert wrong == []

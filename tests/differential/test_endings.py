"""Sessions end in mtproxy as in HAProxy: the same log line, counters and last bytes; see `endings`."""

from __future__ import annotations

import pytest

from tests.differential import endings
from tests.differential.endings import Ending
from tests.differential.endings_table import HTTP, KNOWN, PENDING, TCP

_TABLES = {"http": HTTP, "tcp": TCP}

#: what the table must make happen (manual 8.5); PC and RC need a process that is out of descriptors
_STATES = {
    "http": "---- CC CD CH CL CQ CR cD cR SC SD SH sC sD sH sQ PD PH PR PT LR LH IR DD DH KD KH",
    "tcp": "-- CC CD CQ cD cL SC SD sC sD sQ PR PD K- D-",
}
#: those of the manual that no way leads to in HAProxy 2.6, where we made it happen otherwise
_NOWHERE = {"http": {"CL", "PD"}, "tcp": set[str]()}


@pytest.mark.usefixtures("haproxy")
@pytest.mark.parametrize("table", _TABLES)
def test_sessions_end_alike(table: str) -> None:
    cases = _TABLES[table]
    known = {name.partition("/")[2] for name in KNOWN if name.startswith(table)}
    pending = {name.partition("/")[2] for name in PENDING if name.startswith(table)}
    passed_over = known | pending
    found, states = endings.differences(cases, known, pending)
    wrong = [
        f"{table}/{name}\n  mtproxy\n{mine}\n  haproxy\n{theirs}"
        for name, (mine, theirs) in found.items()
        if name not in passed_over
    ]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:40])
    over = sorted(known - found.keys())
    assert not over, f"no difference any more, take them out of the table: {over}"
    elsewhere = {
        e.name: states[e.name]
        for e in cases
        if e.state not in states[e.name] and e.name not in pending
    }
    assert not elsewhere, f"what HAProxy logs is not what the table says: {elsewhere}"


@pytest.mark.parametrize("table", _TABLES)
def test_every_state_is_in_the_table(table: str) -> None:
    there = {ending.state[:2] for ending in _TABLES[table]} - {""}
    wanted = {state[:2] for state in _STATES[table].split()} - _NOWHERE[table]
    assert wanted <= there, wanted - there


def test_names_are_unique_and_records_have_cases() -> None:
    for table, cases in _TABLES.items():
        names = [ending.name for ending in cases]
        assert len(names) == len(set(names))
        for name in (*KNOWN, *PENDING):
            if name.startswith(f"{table}/"):
                assert name.partition("/")[2] in names, name


def test_a_play_tells_what_both_ends_did() -> None:
    ending = Ending("x", "----", (endings.GET, "head"), (("head", endings.OK, "hold"),))
    shown = endings.perform("mtproxy", [ending], 300)["x"]
    assert shown.heard == [endings.OK]
    assert endings.states_of(shown) == ["----"]
    assert shown.counters["server"] == "stot=1 hrsp_2xx=1 req_tot=1"

"""mtproxy and HAProxy answer, forward and log the same in every case; see `cases`."""

from __future__ import annotations

import pytest

from tests.differential import bed, families
from tests.differential.case import Case
from tests.differential.known_differences import BY_CHANCE, DIFFERENCES, PENDING

RUN = [name for name in families.names() if name not in families.LOAD_ONLY]


def known(family: str) -> set[str]:
    """The recorded differences of a family, by case."""
    return {name.partition("/")[2] for name in DIFFERENCES if name.startswith(f"{family}/")}


def judge(family: str, cases: list[Case], found: dict[str, str]) -> None:
    """Fails for a difference that is not recorded, and for a record without a difference."""
    wrong = [
        f"{family}/{name}\n{text}" for name, text in found.items() if name not in known(family)
    ]
    over = known(family) - found.keys() - {name.partition("/")[2] for name in BY_CHANCE}
    unknown = known(family) - {case.name for case in cases}
    assert not wrong, f"{len(wrong)} cases differ:\n" + "\n".join(wrong[:40])
    assert not over - unknown, f"no difference any more, take them out of the table: {sorted(over)}"
    assert not unknown, f"there are no such cases: {sorted(unknown)}"


@pytest.mark.usefixtures("haproxy")
@pytest.mark.parametrize("family", RUN)
def test_the_same_is_seen(family: str) -> None:
    if family in PENDING:
        pytest.skip("not judged yet: what it is about is being built")
    cases = families.family(family)
    found = {
        name: f"  mtproxy\n{mine}\n  haproxy\n{theirs}"
        for name, (mine, theirs) in bed.differences(cases).items()
    }
    judge(family, cases, found)


@pytest.mark.usefixtures("haproxy")
@pytest.mark.parametrize("family", families.LOAD_ONLY)
def test_the_same_is_refused(family: str) -> None:
    if family in PENDING:
        pytest.skip("not judged yet: what it is about is being built")
    cases = families.family(family)
    mine = bed.refusals("mtproxy", cases)
    theirs = bed.refusals("haproxy", cases)
    found = {
        case.name: f"  mtproxy: {mine.get(case.name, 'accepted')}\n"
        f"  haproxy: {theirs.get(case.name, 'accepted')}"
        for case in cases
        if (case.name in mine) != (case.name in theirs)
        or mine.get(case.name, "").startswith(bed.TRACEBACK_WORD)
    }
    judge(family, cases, found)


def test_every_record_names_a_family_and_gives_a_reason() -> None:
    assert DIFFERENCES.keys() >= BY_CHANCE
    for name, reason in DIFFERENCES.items():
        assert name.partition("/")[0] in families.names(), name
        assert len(reason.split()) >= 3, f"{name}: {reason!r} is no reason"


def test_there_are_enough_cases() -> None:
    assert sum(len(families.family(name)) for name in RUN) >= 300

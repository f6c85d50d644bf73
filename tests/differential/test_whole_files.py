"""Whole configurations do in mtproxy what they do in HAProxy; see `whole.stage`."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.differential.whole import ALL
from tests.differential.whole.stage import Seen, differences, perform


@pytest.mark.usefixtures("haproxy")
@pytest.mark.parametrize("name", ALL)
def test_a_whole_configuration(name: str) -> None:
    whole = ALL[name]
    if whole.root and os.geteuid() != 0:
        pytest.skip("only root may start it")
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(perform, "haproxy", whole)
        mine = perform("mtproxy", whole)
        theirs = other.result()
    found = differences(mine, theirs)
    wrong = [f"{where}\n{both}" for where, both in found.items() if where not in whole.known]
    assert not wrong, "\n".join(wrong)
    over = whole.known.keys() - found.keys()
    assert not over, f"no difference any more, take them out: {sorted(over)}"
    # the scenario is about something
    assert theirs.answers


def test_a_difference_is_found() -> None:
    one = Seen([b"a"], {"s": [b"x"]}, [b"1"], [], ["n"])
    other = Seen([b"a", b"b"], {"s": [b"y"]}, [b"1"], [], ["n"])
    assert list(differences(one, other)) == ["answers 1", "forwarded to s 0"]
    assert differences(one, one) == {}

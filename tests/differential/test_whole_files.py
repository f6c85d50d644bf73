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
    assert not found, "\n".join(found)
    # the scenario is about something
    assert theirs.answers


def test_a_difference_is_found() -> None:
    one = Seen([b"a"], {"s": [b"x"]}, [b"1"], [], ["n"])
    other = Seen([b"a", b"b"], {"s": [b"y"]}, [b"1"], [], ["n"])
    assert [text.partition("\n")[0] for text in differences(one, other)] == [
        "answers 1",
        "forwarded to s 0",
    ]
    assert differences(one, one) == []

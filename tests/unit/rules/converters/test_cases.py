"""Converters, casts and arguments give what HAProxy gave (see `mtproxy.testing.expressions`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mtproxy.rules import registry
from mtproxy.testing.expressions import Evaluator, read_cases

_CASES = Path(__file__).parent / "cases"

#: differences that stay, and why
DIFFERENT = {
    # HAProxy leaves the type of a truth value that is calculated with; the number is the same
    "bool(true),add(1)": "sint 2",
    "int(5),bool,add(1)": "sint 2",
    "int(5),odd,mul(10)": "sint 10",
}


def _all_cases() -> Iterator[tuple[str, str]]:
    for path in sorted(_CASES.glob("*.txt")):
        yield from read_cases(path)


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    return Evaluator()


@pytest.mark.parametrize(("text", "outcome"), list(_all_cases()))
def test_an_expression_gives_what_haproxy_gives(
    text: str, outcome: str, evaluator: Evaluator
) -> None:
    if text.partition("(")[0] not in registry.FETCHES:
        pytest.skip("the fetch is missing")
    assert evaluator.outcome(text) == DIFFERENT.get(text, outcome)

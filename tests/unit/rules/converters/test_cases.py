"""Converters, casts and arguments give what HAProxy gave (see `mtproxy.testing.expressions`)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mtproxy.testing.expressions import ZONE, Evaluator, read_cases

_FILES = sorted((Path(__file__).parent / "cases").glob("*.txt"))

#: differences that stay, and why
DIFFERENT = {
    # HAProxy leaves the type of a truth value that is calculated with; the number is the same
    "bool(true),add(1)": "sint 2",
    "int(5),bool,add(1)": "sint 2",
    "int(5),odd,mul(10)": "sint 10",
    # "\\u00zz": HAProxy makes some byte of digits that are none
    "bin(225c7530307a7a22),json_query('$')": "none",
    "bin(225c7530307a7a22),json_query('$',int)": "none",
    # HAProxy loses what stands behind "q=0,"
    'str("en;q=0,fr;q=0.1"),language(es;fr;en)': "str 'fr'",
    'str("en;q=0,fr;q=0.1"),language(es;fr;en,xx)': "str 'fr'",
    # HAProxy waits for more of a CONNACK with a property that is unknown
    "bin(200400000199),mqtt_is_valid": "bool 0",
    # a message that ends within a field has no such field
    "bin(08),protobuf(1)": "none",
    "bin(082a12),protobuf(2)": "none",
    # HAProxy takes these for numbers of fields
    "bin(082a),protobuf(.1)": "error",
    "bin(082a),protobuf(1..2)": "error",
}


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = ZONE
    time.tzset()
    yield Evaluator()
    del os.environ["TZ"]
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_expressions_give_what_haproxy_gives(path: Path, evaluator: Evaluator) -> None:
    cases = read_cases(path)
    wrong = [
        f"{text}: {outcome} expected, {found}"
        for text, outcome in ((text, DIFFERENT.get(text, given)) for text, given in cases)
        if (found := evaluator.outcome(text)) != outcome
    ]
    assert cases
    assert not wrong, "\n".join(wrong)

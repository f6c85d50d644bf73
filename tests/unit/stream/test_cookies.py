"""Dates of persistence cookies, and which cookies count; the whole way is compared with HAProxy in
tests/differential.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtproxy.stream.cookies import _outside, from_date, to_date


@given(st.integers(0, (1 << 30) - 1))
def test_a_date_comes_back(units: int) -> None:
    text = to_date(units)
    assert len(text) == 5
    assert from_date(text) == units


@pytest.mark.parametrize("text", [b"", b"AAAA", b"AA=AA", b"\xff" * 5])
def test_what_is_no_date(text: bytes) -> None:
    assert from_date(text) == 0


@pytest.mark.parametrize(
    ("date", "limit", "outside"),
    [
        (0, 10, False),
        (1000, 0, False),
        (1000, 10, False),
        (989, 10, True),
        (1000 + 86400, 10, False),
        (1001 + 86400, 10, True),
    ],
)
def test_too_old_or_from_the_future(date: int, limit: int, outside: bool) -> None:
    assert _outside(date, limit, 1000) is outside


def test_the_digits_of_dates() -> None:
    """The last two are those of plain base64, as in the cookies of HAProxy."""
    assert to_date(0b000000_000001_011010_111110_111111) == b"ABa+/"

"""Times, sizes and integers of haproxy.cfg."""

from __future__ import annotations

import pytest

from mtproxy.base.units import UnitError, decimal, parse_integer, parse_size, parse_time


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("1", 1),
        ("5000", 5000),
        ("7ms", 7),
        ("5s", 5000),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("1us", 1),  # rounded up: a time never becomes "none"
        ("1500us", 2),
        ("2147483647", 2147483647),
        ("0s", 0),
    ],
)
def test_a_time_is_in_milliseconds(text: str, ms: int) -> None:
    assert parse_time(text) == ms


def test_the_default_unit_and_the_unit_of_the_result_can_differ() -> None:
    assert parse_time("3", "s") == 3000
    assert parse_time("1500ms", "s", result_unit="s") == 2
    assert parse_time("10", "s", result_unit="s") == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a time is expected"),
        ("s", "unexpected character 's'"),
        ("5sx", "unexpected character 'x'"),
        ("1.5s", "unexpected character '.'"),
        ("-1", "unexpected character '-'"),
        ("1S", "unexpected character 'S'"),
        ("1w", "unexpected character 'w'"),
        ("\u0661s", "unexpected character '\u0661'"),
        ("2147483648", "timer overflow"),
        ("25d", "timer overflow"),
    ],
)
def test_a_bad_time_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UnitError, match=message.replace(".", r"\.")):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("16384", 16384), ("16k", 16384), ("2M", 2 << 20), ("1g", 1 << 30)],
)
def test_sizes_have_binary_suffixes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "k", "16kb", "-1", "1.5k", "4g", "99999999999"])
def test_bad_and_huge_sizes_are_refused(text: str) -> None:
    with pytest.raises(UnitError):
        parse_size(text)


def test_integers_know_their_range() -> None:
    assert parse_integer("-5") == -5
    assert parse_integer("+5", 5, 5) == 5
    for text, low, high, message in (
        ("6", 1, 5, r"must be between 1 and 5 \(got 6\)"),
        ("0", 1, None, r"must be at least 1 \(got 0\)"),
        ("", None, None, "an integer is expected"),
        ("1k", None, None, "'1k' is not an integer"),
    ):
        with pytest.raises(UnitError, match=message):
            parse_integer(text, low, high)


@pytest.mark.parametrize("sign", ["", "-", "+"])
def test_thousands_of_digits_are_only_a_large_number(sign: str) -> None:
    """int() itself refuses them, with an error of its own."""
    nines = "9" * 5000
    assert abs(decimal(sign + nines)) == 10**30
    assert (decimal(sign + nines) < 0) == (sign == "-")
    assert abs(decimal(sign + "0" * 5000 + "12")) == 12
    assert decimal("0" * 5000) == 0
    for parse in (parse_time, parse_size, lambda text: parse_integer(text, 0, 5)):
        with pytest.raises(UnitError):
            parse(nines)

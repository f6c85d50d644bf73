"""Times, sizes and counts as haproxy.cfg writes them (manual 2.5, "Time format").

Pure functions, callable from any thread. All raise `UnitError` with a message that says what is
wrong with the text; the caller adds the keyword's name.
"""

from __future__ import annotations

import re

#: the largest time, 2^31 - 1 ms: about 24.8 days
MAX_TIME_MS = 0x7FFFFFFF

_TIME = re.compile(r"([0-9]+)(us|ms|s|m|h|d)?(.*)", re.DOTALL)
_SIZE = re.compile(r"([0-9]+)([kKmMgG]?)(.*)", re.DOTALL)
_INTEGER = re.compile(r"[+-]?[0-9]+")

_MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_TIME_FORM = "a time is a number and one of the units us, ms, s, m, h, d"
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


#: a number with more digits is out of every range; int() refuses thousands of them with an error
#: of its own
_DIGITS_MAX = 30
_TOO_LARGE = 10**_DIGITS_MAX


class UnitError(ValueError):
    """The text is no time, size or number, or is out of range."""


def decimal(text: str) -> int:
    """The value of decimal digits with an optional sign, however many: what exceeds every limit
    of the program (30 digits) becomes 10^30. `text` was matched before.
    """
    if len(text) <= _DIGITS_MAX:
        return int(text)
    digits = text.lstrip("+-").lstrip("0")
    value = _TOO_LARGE if len(digits) > _DIGITS_MAX else int(digits or "0")
    return -value if text[0] == "-" else value


def _unexpected(text: str) -> UnitError:
    return UnitError(f"unexpected character '{text[:1]}'")


def _split(pattern: re.Pattern[str], text: str, what: str) -> tuple[str, str]:
    """Digits and unit of `text`; the pattern's third group is what does not belong there."""
    found = pattern.fullmatch(text)
    if found is None:
        raise _unexpected(text) if text else UnitError(f"{what} is expected")
    digits, unit, rest = found.groups()
    if rest:
        raise _unexpected(rest)
    return digits, unit


def parse_time(text: str, default_unit: str = "ms", *, result_unit: str = "ms") -> int:
    """A time with an optional unit (us, ms, s, m, h, d), in `result_unit`, rounded up.

    A time that is not zero never becomes zero by rounding. Raises UnitError when the text is
    malformed or the time is above 2147483647 result units.
    """
    try:
        digits, unit = _split(_TIME, text, "a time")
    except UnitError as error:
        raise UnitError(f"{error} ({_TIME_FORM})") from None
    micros = decimal(digits) * _MICROSECONDS[unit or default_unit]
    divisor = _MICROSECONDS[result_unit]
    value = -(-micros // divisor)
    if value > MAX_TIME_MS:
        raise UnitError(f"timer overflow (maximum value is {MAX_TIME_MS} {result_unit})")
    return value


def parse_size(text: str, *, maximum: int = 0xFFFFFFFF) -> int:
    """A size in bytes with an optional suffix k, m or g (powers of 1024, either case)."""
    digits, suffix = _split(_SIZE, text, "a size")
    value = decimal(digits) * _FACTORS[suffix.lower()]
    if value > maximum:
        raise UnitError(f"size too large (maximum value is {maximum})")
    return value


def parse_integer(text: str, minimum: int | None = None, maximum: int | None = None) -> int:
    """A decimal integer within [minimum, maximum]."""
    if _INTEGER.fullmatch(text) is None:
        raise UnitError(f"'{text}' is not an integer" if text else "an integer is expected")
    value = decimal(text)
    if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
        if maximum is None:
            raise UnitError(f"must be at least {minimum} (got {value})")
        raise UnitError(f"must be between {minimum} and {maximum} (got {value})")
    return value

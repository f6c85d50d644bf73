"""Dates from numbers (manual 7.3.1: http_date, ltime, utime; 2.8's ms_ltime, us_utime, ...).

A date that the system's calendar cannot tell gives no sample. Each function remembers the last
number that it converted: many requests come in the same second. Functions belong to the thread
that made them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.tables import ArgKind, Converter, optional, required
from mtproxy.rules.types import Type, wrap

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
#: HAProxy takes 55 bits of a number of seconds
_SECONDS: Final = 0x007FFFFFFFFFFFFF
_UNITS: Final = {b"s": 1, b"ms": 1000, b"us": 1_000_000}
_fraction = re.compile(r"%(%|(?:[369])?N)")


def _remember(make: Callable[[int], bytes | None]) -> Convert:
    last: int | None = None
    text: bytes | None = None

    def convert(value: Any, _view: View) -> bytes | None:
        nonlocal last, text
        if value != last:
            text = make(value)
            last = value
        return text

    return convert


def _calendar(
    seconds: int, convert: Callable[[float], time.struct_time]
) -> time.struct_time | None:
    try:
        return convert(seconds)
    except (OverflowError, OSError, ValueError):
        return None


def _strftime(
    convert: Callable[[float], time.struct_time], unit: int = 1
) -> Callable[[tuple[Any, ...], Build], Convert]:
    """Formats of strftime(3); those in smaller units know %N, %3N, %6N and %9N, as date(1) does."""

    def make(args: tuple[Any, ...], _build: Build) -> Convert:
        form, offset = args[0].decode("utf-8", "surrogateescape"), args[1] or 0

        def text(value: int) -> bytes | None:
            if unit == 1:
                seconds, used = (value & _SECONDS) + offset, form
            else:
                seconds, rest = divmod(value + offset, unit)
                seconds &= _SECONDS
                digits = f"{rest * (1_000_000_000 // unit):09}"
                used = _fraction.sub(lambda found: _digits(found[1], digits), form)
            moment = _calendar(seconds, convert)
            if moment is None:
                return None
            return time.strftime(used, moment).encode("utf-8", "surrogateescape")

        return _remember(text)

    return make


def _digits(directive: str, digits: str) -> str:
    if directive == "%":
        return "%%"
    return digits if directive == "N" else digits[: int(directive[0])]


def _http_date(args: tuple[Any, ...], _build: Build) -> Convert:
    offset, unit = args[0] or 0, _UNITS[args[1] or b"s"]

    def text(value: int) -> bytes | None:
        number = wrap(value + offset)
        # C divides towards zero
        seconds = abs(number) // unit * (-1 if number < 0 else 1)
        moment = _calendar(seconds & _SECONDS, time.gmtime)
        if moment is None:
            return None
        fraction = f".{number - seconds * unit}" if unit > 1 else ""
        return (
            f"{_DAYS[moment.tm_wday]}, {moment.tm_mday:02} {_MONTHS[moment.tm_mon - 1]}"
            f" {moment.tm_year:04} {moment.tm_hour:02}:{moment.tm_min:02}:{moment.tm_sec:02}"
            f"{fraction} GMT"
        ).encode()

    return _remember(text)


def _check_unit(args: tuple[Any, ...]) -> str | None:
    if args[1] is None or args[1] in _UNITS:
        return None
    return f"expects 's', 'ms' or 'us', got '{args[1].decode(errors='replace')}'"


def _time(name: str, convert: Callable[[float], time.struct_time], unit: int = 1) -> Converter:
    args = (*required(ArgKind.STR), *optional(ArgKind.SINT))
    return Converter(name, Type.SINT, Type.STR, _strftime(convert, unit), args)


CONVERTERS: tuple[Converter, ...] = (
    Converter(
        "http_date",
        Type.SINT,
        Type.STR,
        _http_date,
        optional(ArgKind.SINT, ArgKind.STR),
        _check_unit,
    ),
    _time("ltime", time.localtime),
    _time("utime", time.gmtime),
    _time("ms_ltime", time.localtime, 1000),
    _time("ms_utime", time.gmtime, 1000),
    _time("us_ltime", time.localtime, 1_000_000),
    _time("us_utime", time.gmtime, 1_000_000),
)

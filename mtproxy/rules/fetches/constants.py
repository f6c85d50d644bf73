"""Fetches that need no stream: constants, time, random numbers, environment (manual 7.3.2).

Functions belong to the thread that made them; all of them may be used while a configuration is
read (global `set-var`).
"""

from __future__ import annotations

import os
import random
import re
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.tables import Arg, ArgKind, Fetch, optional, required
from mtproxy.rules.types import Binary, Type, Value, wrap

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate
    from mtproxy.rules.view import View

_BOOLS: Final = {b"true": True, b"1": True, b"false": False, b"0": False}
#: parts of a second by unit of `date`
UNITS: Final = {b"s": 1, b"ms": 1000, b"us": 1_000_000}
_match_hex = re.compile(rb"(?:[0-9A-Fa-f]{2})+").fullmatch


def _always_true(_view: View) -> bool:
    return True


def _always_false(_view: View) -> bool:
    return False


def _one(_view: View) -> int:
    return 1


def _constant(args: tuple[Any, ...], _build: Build) -> Evaluate:
    value: Value = args[0]
    return lambda _view: value


def _check_bool(args: tuple[Any, ...]) -> str | None:
    return None if args[0].lower() in _BOOLS else "Expects 'true', 'false', '0' or '1'."


def _bool(args: tuple[Any, ...], _build: Build) -> Evaluate:
    value = _BOOLS[args[0].lower()]
    return lambda _view: value


def _check_bin(args: tuple[Any, ...]) -> str | None:
    return None if _match_hex(args[0]) else "an even number of hex digit is expected."


def _bin(args: tuple[Any, ...], _build: Build) -> Evaluate:
    value = Binary(bytes.fromhex(args[0].decode("ascii")))
    return lambda _view: value


# --- time


def now_us() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000


def _check_date(args: tuple[Any, ...]) -> str | None:
    unit = args[1]
    if unit is None or unit in UNITS:
        return None
    return f"expects 's', 'ms' or 'us', got '{unit.decode('utf-8', 'replace')}'."


def _date(args: tuple[Any, ...], _build: Build) -> Evaluate:
    offset: int = args[0] or 0
    divisor = 1_000_000 // UNITS[args[1] or b"s"]
    return lambda _view: wrap(now_us() // divisor + offset)


def _date_us(_view: View) -> int:
    """The part of the second that has passed."""
    return now_us() % 1_000_000


# --- chance


def _rand(args: tuple[Any, ...], _build: Build) -> Evaluate:
    bits = random.Random(random.SystemRandom().getrandbits(64)).getrandbits
    if args[0] is None:
        return lambda _view: bits(32)
    span = args[0] & (1 << 64) - 1
    # 64 bits, as HAProxy computes it: a negative range is a big one
    return lambda _view: (bits(32) * span & (1 << 64) - 1) >> 32


def _check_uuid(args: tuple[Any, ...]) -> str | None:
    version = args[0]
    return None if version in (None, 4) else f"Unsupported UUID version: '{version}'"


def _uuid(_args: tuple[Any, ...], _build: Build) -> Evaluate:
    make = uuid.uuid4
    return lambda _view: str(make()).encode()


# --- the machine


def _env(args: tuple[Any, ...], _build: Build) -> Evaluate:
    value = os.environb.get(args[0])
    return lambda _view: value


def _hostname(_args: tuple[Any, ...], _build: Build) -> Evaluate:
    name = os.uname().nodename.encode()
    return lambda _view: name


FETCHES: tuple[Fetch, ...] = (
    Fetch("always_true", Type.BOOL, call=_always_true),
    Fetch("always_false", Type.BOOL, call=_always_false),
    Fetch("str", Type.STR, make=_constant, args=required(ArgKind.STR)),
    Fetch("int", Type.SINT, make=_constant, args=required(ArgKind.SINT)),
    Fetch("bool", Type.BOOL, make=_bool, args=required(ArgKind.STR), check=_check_bool),
    Fetch("bin", Type.BIN, make=_bin, args=required(ArgKind.STR), check=_check_bin),
    Fetch("ipv4", Type.IPV4, make=_constant, args=required(ArgKind.IPV4)),
    Fetch("ipv6", Type.IPV6, make=_constant, args=required(ArgKind.IPV6)),
    Fetch("meth", Type.METH, make=_constant, args=required(ArgKind.STR)),
    Fetch(
        "date",
        Type.SINT,
        make=_date,
        args=(Arg(ArgKind.SINT, optional=True), Arg(ArgKind.STR, optional=True)),
        check=_check_date,
    ),
    Fetch("date_us", Type.SINT, call=_date_us),
    Fetch("rand", Type.SINT, make=_rand, args=optional(ArgKind.SINT)),
    Fetch("uuid", Type.STR, make=_uuid, args=optional(ArgKind.SINT), check=_check_uuid),
    Fetch("env", Type.STR, make=_env, args=required(ArgKind.STR)),
    Fetch("hostname", Type.STR, make=_hostname),
    # there is but one process, and its number is 1
    Fetch("proc", Type.SINT, call=_one),
    Fetch("nbproc", Type.SINT, call=_one),
)

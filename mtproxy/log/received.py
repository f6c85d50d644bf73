"""Syslog messages that others send: what their heads say, and heads made from it (manual 3.10).

`parse` understands RFC 5424 and RFC 3164 as HAProxy does: the priority first; then either version 1
with all fields, or a date, the host's name and perhaps a tag. A head that is neither leaves the
priority alone, and what follows it is the message. `head` writes any of the `format`s of a `log`
line from what was understood; what a format lacks is made up as for lines of our own. Pure.

Compared with HAProxy 2.6, which loses the last two bytes of a message that begins like version 1
and is not, and takes a tag apart whose brackets are followed by something else than a colon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

_MONTHS = (
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
)  # fmt: skip

_match_priority = re.compile(rb"<([0-9]*)>").match
#: version 1, time, host, tag, process, message id, structured data; "-" for what is not said
_match_rfc5424 = re.compile(
    rb"1 (-|.{19}(?:\.[0-9]*)?(?:Z|[+-].{5})) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) "
    rb"(-|(?:\[(?:[^\]]|(?<=\\)\])*\])+) ",
    re.DOTALL,
).match
_match_rfc3164 = re.compile(rb"((?:" + b"|".join(_MONTHS) + rb").{12}) ([^ ]+) ", re.DOTALL).match
#: a tag, and a process in brackets, must end with a colon and a blank
_match_tag = re.compile(rb"([^ :\[]*)(?:\[([^ :\]]*)\])?: ").match

#: the shortest date of RFC 5424 with its zone, and the length of one of RFC 3164
_ISO_LENGTH = 20
_LEGACY_LENGTH = 15


@dataclass(slots=True)
class Received:
    """A message; fields that its head does not have are empty. `level` and `facility` are -1 where
    there was no priority.
    """

    text: bytes
    level: int = -1
    facility: int = -1
    time: bytes = b""
    host: bytes = b""
    tag: bytes = b""
    process: bytes = b""
    message_id: bytes = b""
    data: bytes = b""


def parse(message: bytes) -> Received:
    """A message as it came, without what frames it."""
    found = _match_priority(message)
    if found is None:
        return Received(message)
    priority = int(found[1] or b"0")
    text = message[found.end() :]
    result = Received(text, priority & 7, priority >> 3)
    if text.startswith(b"1 "):
        fields = _match_rfc5424(text)
        if fields is not None:
            result.text = text[fields.end() :]
            result.time = fields[1]
            result.host, result.tag, result.process, result.message_id, result.data = (
                b"" if field == b"-" else field for field in fields.groups()[1:]
            )
        return result
    fields = _match_rfc3164(text)
    if fields is not None:
        result.time, result.host = fields.groups()
        result.text = rest = text[fields.end() :]
        tagged = _match_tag(rest)
        if tagged is not None:
            result.tag, result.process = tagged[1], tagged[2] or b""
            result.text = rest[tagged.end() :]
    return result


def natural_format(message: Received) -> str:
    """The format of a message that a `log` line without one keeps."""
    if message.host:
        iso = message.time == b"-" or len(message.time) >= _ISO_LENGTH
        return "rfc5424" if iso else "rfc3164"
    if message.tag:
        return "local"
    return "priority" if message.level >= 0 else "raw"


def head(message: Received, log_format: str, level: int, facility: int, now: datetime) -> bytes:
    """What stands before the text. `now` is the local time, with its zone."""
    parts: list[bytes] = []
    match log_format:
        case "local" | "rfc3164" | "rfc5424" | "priority":
            parts.append(b"<%d>" % (facility << 3 | level))
        case "timed" | "short":
            parts.append(b"<%d>" % level)
    match log_format:
        case "local" | "rfc3164":
            parts.append(_legacy_time(message.time, now) + b" ")
        case "rfc5424":
            time = b"-" if message.time == b"-" else _iso_time(message.time, now)
            parts.append(b"1 %b " % time)
        case "timed" | "iso":
            parts.append(_iso_time(message.time, now) + b" ")
    parts += _names(message, log_format)
    return b"".join(parts)


def _names(message: Received, log_format: str) -> Iterator[bytes]:
    if log_format == "rfc5424":
        for field in (
            message.host, message.tag, message.process, message.message_id, message.data,
        ):  # fmt: skip
            yield (field or b"-") + b" "
        return
    if log_format not in ("rfc3164", "local"):
        return
    if log_format == "rfc3164":
        yield (message.host or b"localhost") + b" "
    if message.tag:
        process = b"[%b]" % message.process if message.process else b""
        yield b"%b%b: " % (message.tag, process)


def _legacy_time(time: bytes, now: datetime) -> bytes:
    """Month, day and time of day."""
    if len(time) == _LEGACY_LENGTH:
        return time
    if len(time) >= _ISO_LENGTH:
        try:
            month = int(time[5:7])
        except ValueError:
            month = 13
        if month <= len(_MONTHS):
            day = (b" " if time[8:9] == b"0" else time[8:9]) + time[9:10]
            return b"%b %b %b" % (_MONTHS[max(month, 1) - 1], day, time[11:19])
    clock = now.strftime("%H:%M:%S").encode()
    return b"%b %2d %b" % (_MONTHS[now.month - 1], now.day, clock)


def _iso_time(time: bytes, now: datetime) -> bytes:
    """A date of RFC 5424. One of RFC 3164 has no year and no zone: the year is this one, or the
    last where that would be in the future, and the zone "unknown".
    """
    if len(time) >= _ISO_LENGTH:
        return time
    if len(time) == _LEGACY_LENGTH and time[:3] in _MONTHS:
        month = _MONTHS.index(time[:3]) + 1
        year = now.year - (now.month < month)
        day = (b"0" if time[4:5] == b" " else time[4:5]) + time[5:6]
        return b"%d-%02d-%bT%b-00:00" % (year, month, day, time[7:15])
    return now.isoformat(timespec="microseconds").encode()

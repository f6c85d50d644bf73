"""HTTP responses that stand in files: `errorfile` and its like (HAProxy manual 4.2).

They are read once, at load, by rules of their own: lines may end with LF alone, as editors leave
them. Pure functions over bytes; any thread.
"""

from __future__ import annotations

import re

from mtproxy.base.ruleset import StoredMessage
from mtproxy.http.headers import CONNECTION_CLOSE, TCHAR, connection_flags

_match_start = re.compile(
    rb"HTTP/([0-9])\.([0-9]) +([0-9]{3})(?: +([\t\x20-\x7e\x80-\xff]*))?"
).fullmatch
_match_field = re.compile(rb"([" + TCHAR + rb"]+):([\t\x20-\x7e\x80-\xff]*)").fullmatch
_match_length = re.compile(rb"[0-9]{1,18}").fullmatch


class BadStored(ValueError):
    """A file that holds no response that could be sent."""


def parse_stored(data: bytes) -> StoredMessage:
    """The response in `data`. An empty file stands for no response at all. Raises BadStored.

    Without Content-Length the body ends with the connection. Errors: an incomplete head, a status
    below 200, a chunked body, a body of another length than Content-Length says.
    """
    if not data:
        return StoredMessage(11, 0, b"", close=True, silent=True)
    lines: list[bytes] = []
    at = 0
    while True:
        end = data.find(b"\n", at)
        if end < 0:
            raise BadStored(f"unable to parse headers (the head does not end, offset {at})")
        line = data[at:end].removesuffix(b"\r")
        start, at = at, end + 1
        if not line:
            break
        if lines and _match_field(line) is None:
            raise BadStored(f"unable to parse headers (error offset: {start})")
        lines.append(line)
    if not lines:
        raise BadStored("unable to parse headers (error offset: 0)")
    match = _match_start(lines[0])
    if match is None:
        raise BadStored("invalid status line, expects 'HTTP/1.x <status> <reason>'")
    major, minor, code, reason = match.groups(b"")
    if major != b"1":
        raise BadStored(f"invalid http version (HTTP/{major.decode()}.{minor.decode()})")
    status = int(code)
    if status < 200:
        raise BadStored(f"invalid http status code for an error message ({status})")
    version = 11 if minor >= b"1" else 10
    return _with_fields(version, status, reason.rstrip(b" \t"), lines[1:], data[at:])


def _with_fields(
    version: int, status: int, reason: bytes, lines: list[bytes], body: bytes
) -> StoredMessage:
    headers: list[tuple[bytes, bytes]] = []
    length: int | None = None
    close = False
    for line in lines:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if name == b"transfer-encoding":
            raise BadStored("chunk-encoded payload not supported")
        if name == b"content-length":
            if _match_length(value) is None or length not in (None, int(value)):
                raise BadStored(f"bad content-length '{value.decode('latin-1')}'")
            if length is not None:
                continue
            length = int(value)
            if status == 204:
                continue
        elif name == b"connection":
            close = close or bool(connection_flags(value) & CONNECTION_CLOSE)
        headers.append((name, value))
    bodyless = status in (204, 304)
    if body and (bodyless or length == 0):
        raise BadStored("message payload not expected")
    if not bodyless and length is not None and length != len(body):
        raise BadStored(
            f"payload size does not match the announced content-length ({len(body)} != {length})"
        )
    if length is None and not bodyless:
        close = True
    return StoredMessage(version, status, reason, tuple(headers), body, close)

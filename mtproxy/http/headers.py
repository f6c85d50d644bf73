"""Header fields as immutable tuples.

A `Header` is `(name, value, wire, kind)`: the lower-cased name, the value without surrounding
white space, the line as it goes out on the next connection, and a small integer that says whether
the codec itself cares about the field. `kind` 0 means that it does not.

`wire` is `b"name: value\\r\\n"`, except for the fields that speak of one connection only: their
outgoing form is already right (RFC 9110 section 7.6.1). `Connection` loses `close` and
`keep-alive` (in a parsed head its value loses them too), `TE` keeps only `trailers`; when nothing
is left, `wire` is `b""`. So a head is written with `b"".join([header[2] for header in headers])`.

Everything here is immutable or pure and may be used from any thread.
"""

from __future__ import annotations

import re
from typing import Final

from mtproxy.http.errors import BadMessage

type Header = tuple[bytes, bytes, bytes, int]

K_NONE: Final = 0
K_HOST: Final = 1
#: a Host whose value cannot be one (RFC 9112 section 3.2); a request with it is refused
K_BAD_HOST: Final = 2
K_CONNECTION: Final = 3
K_CONTENT_LENGTH: Final = 4
K_TRANSFER_ENCODING: Final = 5
K_UPGRADE: Final = 6
K_EXPECT: Final = 7
K_WEBSOCKET_KEY: Final = 8
K_WEBSOCKET_ACCEPT: Final = 9
#: kinds below zero need no work in the codec; they are told apart for the layers above
K_TE: Final = -1
K_KEEP_ALIVE: Final = -2
K_PROXY_CONNECTION: Final = -3
K_TRAILER: Final = -4
K_COOKIE: Final = -5
K_SET_COOKIE: Final = -6
K_AUTHORIZATION: Final = -7
K_PROXY_AUTHORIZATION: Final = -8

KINDS: Final[dict[bytes, int]] = {
    b"host": K_HOST,
    b"connection": K_CONNECTION,
    b"content-length": K_CONTENT_LENGTH,
    b"transfer-encoding": K_TRANSFER_ENCODING,
    b"upgrade": K_UPGRADE,
    b"expect": K_EXPECT,
    b"te": K_TE,
    b"sec-websocket-key": K_WEBSOCKET_KEY,
    b"sec-websocket-accept": K_WEBSOCKET_ACCEPT,
    b"keep-alive": K_KEEP_ALIVE,
    b"proxy-connection": K_PROXY_CONNECTION,
    b"trailer": K_TRAILER,
    b"cookie": K_COOKIE,
    b"set-cookie": K_SET_COOKIE,
    b"authorization": K_AUTHORIZATION,
    b"proxy-authorization": K_PROXY_AUTHORIZATION,
}

#: tokens of Connection that the codec acts upon, as bits
CONNECTION_CLOSE: Final = 1
CONNECTION_KEEP_ALIVE: Final = 2
CONNECTION_UPGRADE: Final = 4

#: a character of a token, RFC 9110 section 5.6.2, for use within [] of a pattern
TCHAR: Final = rb"!#$%&'*+\-.^_`|~0-9A-Za-z"

# RFC 9110 section 5.1: a field name is a token; section 5.5: HTAB is the only control character
# that a value may hold. Bytes from 0x80 on (obs-text) pass through untouched.
_match_field = re.compile(rb"([" + TCHAR + rb"]+):([\t\x20-\x7e\x80-\xff]*)").fullmatch
_match_token = re.compile(rb"[" + TCHAR + rb"]+").match
# RFC 3986 section 3.2.2, with an optional port
_match_host = re.compile(
    rb"(?:[A-Za-z0-9\-._~%!$&'()*+,;=]*|\[[A-Za-z0-9\-._~%!$&'()*+,;=:]+\])(?::[0-9]*)?"
).fullmatch


def is_token(data: bytes) -> bool:
    """Is this a token (a method, a field name)?"""
    match = _match_token(data)
    return match is not None and match.end() == len(data)


def connection_flags(value: bytes) -> int:
    """The CONNECTION_* bits of a value of Connection; tokens count in any case."""
    flags = 0
    for part in value.lower().split(b","):
        token = part.strip(b" \t")
        if token == b"close":
            flags |= CONNECTION_CLOSE
        elif token == b"keep-alive":
            flags |= CONNECTION_KEEP_ALIVE
        elif token == b"upgrade":
            flags |= CONNECTION_UPGRADE
    return flags


def _connection_wire(value: bytes) -> bytes:
    parts = [part.strip(b" \t") for part in value.split(b",")]
    kept = [part for part in parts if part and part.lower() not in (b"close", b"keep-alive")]
    return b"connection: " + b", ".join(kept) + b"\r\n" if kept else b""


def _te_wire(value: bytes) -> bytes:
    # a weight on "trailers" does not exist: with one it is another coding (RFC 9110 section
    # 10.1.4)
    parts = [part.strip(b" \t") for part in value.lower().split(b",")]
    return b"te: trailers\r\n" if b"trailers" in parts else b""


def make_header(name: bytes, value: bytes) -> Header:
    """A Header from a lower-cased name and a trimmed value, both known to be valid.

    Rules that add or replace a field use this too, so that its kind and wire form are right.
    """
    kind = KINDS.get(name, 0)
    if kind == K_CONNECTION:
        wire = _connection_wire(value)
    elif kind == K_TE:
        wire = _te_wire(value)
    else:
        wire = name + b": " + value + b"\r\n"
        if kind == K_HOST and _match_host(value) is None:
            kind = K_BAD_HOST
    return (name, value, wire, kind)


def parse_field_line(line: bytes) -> Header | None:
    """One header line without its line end; None when it is malformed (or a folded line)."""
    match = _match_field(line)
    if match is None:
        return None
    name, value = match.groups()
    return make_header(name.lower(), value.strip(b" \t"))


def refuse_field_line(line: bytes, position: int, status: int = 400) -> BadMessage:
    """The error for a line that `parse_field_line` refused; `position` is its offset."""
    if line[:1] in (b" ", b"\t"):
        return BadMessage(status, "folded header line", position)
    name, colon, value = line.partition(b":")
    match = _match_token(name)
    good = match.end() if match is not None else 0
    if good < len(name):
        return BadMessage(status, "bad character in a header name", position + good)
    if not colon:
        return BadMessage(status, "header line without a colon", position)
    if not name:
        return BadMessage(status, "header without a name", position)
    for index, byte in enumerate(value, position + len(name) + 1):
        if byte == 0x7F or (byte < 0x20 and byte != 0x09):
            return BadMessage(status, "control character in a header value", index)
    raise AssertionError(f"a good header line was refused: {line!r}")

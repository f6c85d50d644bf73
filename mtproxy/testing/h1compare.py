"""Does our HTTP/1 codec take nothing that h11 refuses, and read the same out of what both take?

`compare_request` and `compare_response` read one input in given pieces with both and return what
is wrong, or None. What we take although h11 does not is listed in `EXCEPTIONS`, with the reason;
each is checked by mending the input in just that way, after which h11 must take it and read what
we read. For tests only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from mtproxy.http.cache import HeadCache
from mtproxy.http.chunked import ChunkedReader
from mtproxy.http.errors import BadMessage
from mtproxy.http.framing import skip_empty_lines
from mtproxy.http.h1_request import RequestHead
from mtproxy.http.uri import ABSOLUTE, AUTHORITY, agree, target_form
from mtproxy.testing.h1messages import (
    Message,
    Refused,
    h11_request,
    h11_response,
    read_request,
    read_response,
)

#: what we take and h11 refuses: name and reason
EXCEPTIONS: Final[dict[str, str]] = {
    "empty lines": "RFC 9112 section 2.2 asks servers to skip one; HAProxy skips any number",
    "spaces": "HAProxy takes several spaces in a request line, and its own tests send them",
    "no host": "HAProxy takes HTTP/1.1 requests without Host, and monitoring scripts send them",
    "equal hosts": "HAProxy makes one Host of several equal ones; nothing is left to doubt",
    "chunks": "white space before a chunk extension: RFC 9112 section 7.1.1 asks to take it",
}


def _strip_empty_lines(head: bytes) -> bytes:
    return head[skip_empty_lines(head) :]


def _single_spaces(head: bytes) -> bytes:
    line, end, rest = head.partition(b"\r\n")
    return re.sub(rb" +", b" ", line) + end + rest


def _add_host(head: bytes) -> bytes:
    if re.search(rb"\nhost:", head.lower()):
        return head
    return head.replace(b"\r\n", b"\r\nHost: mended\r\n", 1)


def _one_host(head: bytes) -> bytes:
    lines = head.split(b"\r\n")
    hosts = [line for line in lines if line.lower().startswith(b"host:")]
    if len(hosts) < 2:
        return head
    first = lines.index(hosts[0])
    return b"\r\n".join(line for at, line in enumerate(lines) if line not in hosts or at == first)


_MENDERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "empty lines": _strip_empty_lines,
    "spaces": _single_spaces,
    "no host": _add_host,
    "equal hosts": _one_host,
}


def _relayed(body: bytes) -> bytes:
    """A chunked body and what follows it, as we send it on."""
    reader = ChunkedReader()
    return b"".join(reader.relay(body)) + reader.rest


def _headers(message: Message, dropped: set[bytes]) -> list[tuple[bytes, bytes]]:
    """Header fields in a form in which ours and h11's must be equal."""
    found = []
    for name, value in message.headers:
        if name in dropped or (name, value) == (b"host", b"mended"):
            continue
        if name == b"transfer-encoding":
            value = value.lower()
        elif name == b"connection":
            # what was said to us goes no further
            words = [word.strip(b" \t") for word in value.split(b",")]
            words = [w for w in words if w and w.lower() not in (b"close", b"keep-alive")]
            if not words and value:
                continue
            value = b", ".join(words)
        found.append((name, value))
    return found


def _difference(ours: Message, theirs: Message, dropped: set[bytes]) -> str | None:
    pairs = {
        "start line": (ours.start, theirs.start),
        "headers": (_headers(ours, dropped), _headers(theirs, dropped)),
        "body": (ours.body, theirs.body),
        "rest": (ours.rest, theirs.rest),
        "interim responses": (ours.interim, theirs.interim),
    }
    for what, (mine, other) in pairs.items():
        if mine != other:
            return f"{what} differ: {mine!r} and h11 {other!r}"
    # we drop some trailer fields on purpose
    if any(trailer not in theirs.trailers for trailer in ours.trailers):
        return f"trailers differ: {ours.trailers!r} and h11 {theirs.trailers!r}"
    return None


def _judge(
    data: bytes,
    pieces: list[bytes],
    ours: Callable[[list[bytes]], Message | None],
    theirs: Callable[[list[bytes]], Message | None],
    dropped: Callable[[Message], set[bytes]],
    expected: Callable[[Message], Message],
) -> str | None:
    def read(parts: list[bytes]) -> Message | str | None:
        try:
            return ours(parts)
        except BadMessage:
            return "refused"

    mine = read(pieces)
    whole = read([data])
    if isinstance(mine, Message) and isinstance(whole, Message):
        mine_head, whole_head = mine.head, whole.head
        mine.head = whole.head = None
        if mine != whole:
            return f"split changes the reading: {mine!r} and whole {whole!r}"
        mine.head, whole.head = mine_head, whole_head
    elif mine != whole:
        return f"split changes the verdict: {mine!r} and whole {whole!r}"
    if not isinstance(mine, Message):
        return None
    try:
        other = theirs(pieces)
    except Refused as refusal:
        other = _ask_mended(data, mine, theirs)
        if other is None:
            return f"we take what h11 refuses ({refusal}): {mine!r}"
    if other is None:
        return f"we see an end where h11 waits for more: {mine!r}"
    return _difference(mine, expected(other), dropped(mine))


def _ask_mended(
    data: bytes, ours: Message, theirs: Callable[[list[bytes]], Message | None]
) -> Message | None:
    """h11's reading after the listed mendings, None if it still refuses."""
    head, body = data[: ours.body_at], data[ours.body_at :]
    if isinstance(ours.head, RequestHead):
        for mend in _MENDERS.values():
            head = mend(head)
    if ours.head is not None and ours.head.chunked:
        body = _relayed(body)
    try:
        return theirs([head + body])
    except Refused:
        return None


def compare_request(data: bytes, pieces: list[bytes], cache: HeadCache) -> str | None:
    """What is wrong with our reading of a request, by h11's judgement; None: nothing."""

    def dropped(message: Message) -> set[bytes]:
        names: set[bytes] = set()
        head = message.head
        assert isinstance(head, RequestHead)
        if head.chunked:
            names.add(b"content-length")
        if head.upgrade is None:
            # withdrawn where there is a body
            names.add(b"upgrade")
        return names

    def expected(message: Message) -> Message:
        method, target = message.start
        assert isinstance(method, bytes)
        form = target_form(method, target)
        if form in (ABSOLUTE, AUTHORITY):
            host = dict(message.headers).get(b"host")
            if host == b"mended":
                host = None
            target, host = agree(target, form, host)
            message.start = (method, target)
            message.headers = [
                (name, host if name == b"host" and host is not None else value)
                for name, value in message.headers
            ]
        return message

    return _judge(
        data, pieces, lambda parts: read_request(parts, cache), h11_request, dropped, expected
    )


def compare_response(
    data: bytes, pieces: list[bytes], method: bytes, cache: HeadCache, upgrade: bool = False
) -> str | None:
    """What is wrong with our reading of a response, by h11's judgement; None: nothing."""

    def dropped(message: Message) -> set[bytes]:
        head = message.head
        assert head is not None
        status = message.start[0]
        assert isinstance(status, int)
        if status < 200 or status == 204:
            return {b"content-length", b"transfer-encoding"}
        return {b"content-length"} if head.chunked else set()

    def expected(message: Message) -> Message:
        # h11 keeps white space around the reason
        message.start = (message.start[0], message.start[1].strip(b" \t"))
        return message

    return _judge(
        data,
        pieces,
        lambda parts: read_response(parts, method, cache, upgrade),
        lambda parts: h11_response(parts, method, upgrade),
        dropped,
        expected,
    )

"""Whole HTTP/1 messages read from pieces, by our codec and by h11, in one comparable form.

`read_request` and `read_response` drive the codec as the streams do; `h11_request` and
`h11_response` ask h11 the same. All give a `Message`, None when the bytes end too early, or
raise: BadMessage from ours, `Refused` from h11. For tests only; a call touches nothing but its
arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import h11

from mtproxy.http.cache import HeadCache
from mtproxy.http.chunked import ChunkedReader
from mtproxy.http.errors import BadMessage
from mtproxy.http.framing import find_head_end
from mtproxy.http.h1_request import RequestHead, parse_request_head
from mtproxy.http.h1_response import (
    BODY_CHUNKED,
    BODY_LENGTH,
    BODY_NONE,
    BODY_UNTIL_CLOSE,
    ResponseHead,
    parse_response_head,
)

_HUGE = 1 << 30


class Refused(Exception):
    """h11 does not take the message."""


@dataclass
class Message:
    """One message. `start` is (method, target) or (status, reason)."""

    start: tuple[bytes | int, bytes]
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)
    #: bytes behind the message
    rest: bytes = b""
    #: our head, None in a message that h11 read
    head: RequestHead | ResponseHead | None = None
    #: offset of the body in the bytes that were read (ours only)
    body_at: int = 0
    #: status codes of the interim responses before this one
    interim: list[int] = field(default_factory=list)


def _body(
    message: Message, mode: int, length: int, buf: bytes, pieces: Iterable[bytes], eof: bool
) -> Message | None:
    """Read the body that begins with `buf`."""
    rest = [buf, *pieces]
    if mode == BODY_NONE:
        message.rest = b"".join(rest)
    elif mode == BODY_LENGTH:
        data = b"".join(rest)
        if len(data) < length:
            return None
        message.body, message.rest = data[:length], data[length:]
    elif mode == BODY_UNTIL_CLOSE:
        message.body = b"".join(rest)
        return message if eof else None
    else:
        reader = ChunkedReader()
        for piece in rest:
            message.body += b"".join(reader.feed(piece))
        if not reader.done:
            return None
        message.trailers = [header[:2] for header in reader.trailers]
        message.rest = reader.rest
        if reader.payload != len(message.body):
            raise AssertionError("ChunkedReader.payload does not count its payload")
    return message


def read_request(pieces: Iterable[bytes], cache: HeadCache) -> Message | None:
    """Our reading of the first request in `pieces`. Raises BadMessage."""
    todo = iter(pieces)
    buf = b""
    seen = 0
    for piece in todo:
        buf += piece
        end = find_head_end(buf, 0, seen=seen)
        seen = len(buf)
        if end < 0:
            continue
        head = parse_request_head(buf[:end], cache)
        message = Message(
            (head.method, head.target),
            [header[:2] for header in head.headers],
            head=head,
            body_at=end,
        )
        length = head.content_length
        mode = BODY_CHUNKED if head.chunked else BODY_LENGTH if length > 0 else BODY_NONE
        return _body(message, mode, length, buf[end:], todo, False)
    return None


def read_response(
    pieces: Iterable[bytes], method: bytes, cache: HeadCache, upgrade: bool = False
) -> Message | None:
    """Our reading of the final response in `pieces`, after which the server closes.

    `upgrade`: the request asked for one. Raises BadMessage.
    """
    todo = iter(pieces)
    buf = b""
    seen = 0
    at = 0
    interim: list[int] = []
    for piece in todo:
        buf += piece
        while True:
            end = find_head_end(buf, 0, seen=seen)
            seen = len(buf)
            if end < 0:
                break
            head = parse_response_head(buf[:end], method, cache)
            buf = buf[end:]
            at += end
            seen = 0
            if head.status == 101 and not upgrade:
                raise BadMessage(502, "an upgrade that nobody asked for")
            if head.status < 200 and head.status != 101:
                interim.append(head.status)
                continue
            message = Message(
                (head.status, head.reason),
                [header[:2] for header in head.headers],
                head=head,
                body_at=at,
                interim=interim,
            )
            return _body(message, head.body, head.content_length, buf, todo, True)
    return None


def _h11_rest(conn: h11.Connection, todo: Iterable[bytes]) -> bytes:
    return bytes(conn.trailing_data[0]) + b"".join(todo)


def _h11_message(conn: h11.Connection, pieces: Iterable[bytes], eof: bool) -> Message | None:
    todo = iter(pieces)
    message: Message | None = None
    interim: list[int] = []
    ended = False
    while True:
        try:
            event = conn.next_event()
        except h11.RemoteProtocolError as error:
            raise Refused(str(error)) from None
        if event is h11.NEED_DATA:
            piece = next(todo, None)
            # an empty piece would mean the end of the input to h11
            while piece == b"":
                piece = next(todo, None)
            if piece is not None:
                conn.receive_data(piece)
            elif eof and not ended:
                ended = True
                conn.receive_data(b"")
            else:
                return None
        elif event is h11.PAUSED:
            # a tunnel begins, before any EndOfMessage
            if message is not None:
                message.rest = _h11_rest(conn, todo)
            return message
        elif isinstance(event, h11.Request):
            message = Message((event.method, event.target), list(event.headers))
        elif isinstance(event, h11.InformationalResponse):
            if event.status_code == 101:
                message = Message((101, event.reason), list(event.headers), interim=interim)
            else:
                interim.append(event.status_code)
        elif isinstance(event, h11.Response):
            start = (event.status_code, event.reason)
            message = Message(start, list(event.headers), interim=interim)
        elif isinstance(event, h11.Data):
            assert message is not None
            message.body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert message is not None
            message.trailers = list(event.headers)
            message.rest = _h11_rest(conn, todo)
            return message
        elif isinstance(event, h11.ConnectionClosed):
            return message


def h11_request(pieces: Iterable[bytes]) -> Message | None:
    """h11's reading of the first request in `pieces`. Raises Refused."""
    return _h11_message(h11.Connection(h11.SERVER, max_incomplete_event_size=_HUGE), pieces, False)


def h11_response(pieces: Iterable[bytes], method: bytes, upgrade: bool = False) -> Message | None:
    """h11's reading of the final response in `pieces`. Parameters as for read_response.

    Raises Refused.
    """
    conn = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HUGE)
    headers = [(b"host", b"a")]
    if upgrade:
        headers += [(b"connection", b"upgrade"), (b"upgrade", b"x")]
    target = b"a:80" if method == b"CONNECT" else b"/"
    conn.send(h11.Request(method=method, target=target, headers=headers))
    conn.send(h11.EndOfMessage())
    return _h11_message(conn, pieces, True)

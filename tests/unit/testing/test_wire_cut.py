"""A body that is cut: what came of it is told, whatever its framing."""

from __future__ import annotations

import socket

import pytest

from mtproxy.testing.wire import PeerClosed, Wire


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (b"content-length: 10\r\n\r\nabcd", b"abcd"),
        (b"transfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n5\r\nef", b"abcdef"),
        (b"transfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n5", b"abcd"),
        (b"transfer-encoding: chunked\r\n\r\n4\r\nabcd\r", b"abcd"),
        (b"transfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\nx: y", b"abcd"),
        (b"content-length: 10", b""),
    ],
)
def test_what_came_of_the_body(sent: bytes, body: bytes) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"HTTP/1.1 200 OK\r\n" + sent)
        there.shutdown(socket.SHUT_WR)
        with pytest.raises(PeerClosed) as caught:
            Wire(here, 10).read_response()
    assert caught.value.body == body

"""`show errors`: the last message that each proxy refused, in HAProxy's layout."""

from __future__ import annotations

import re

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import Wire

BAD_NAME = b"GET / HTTP/1.1\r\nhost: a\r\nx y: 1\r\nab\tc: \x80\x01\r\n\r\n"
DATE = r"\[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d\.\d{3}\]"


def refused(running: Program, data: bytes) -> int:
    """The client's port of a request that gets a 400."""
    wire = running.connect()
    wire.send(data)
    assert wire.read_response().status == 400
    port: int = wire.sock.getsockname()[1]
    return port


def report(running: Program, words: str = "", total: int = 1) -> str:
    """The answer without the lines about each program's own parser, once so many were captured."""

    def complete() -> str | None:
        text = running.cli(f"show errors {words}".strip())
        return text if f"] : {total}\n" in text else None

    text = wait_until(complete, f"{total} captured messages")
    return re.sub(r"^  H1 .*\n", "", text, flags=re.MULTILINE)


def test_a_refused_request(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    assert re.fullmatch(rf"Total events captured on {DATE} : 0\n\n", report(running, total=0))
    port = refused(running, BAD_NAME)
    text = report(running)
    assert re.fullmatch(
        rf"Total events captured on {DATE} : 1\n"
        " \n"
        rf"{DATE} frontend fe \(#2\): invalid request\n"
        rf"  backend <NONE> \(#-1\), server <NONE> \(#-1\), event #0, src 127\.0\.0\.1:{port}\n"
        r"  buffer starts at 0 \(including 0 out\), \d+ free,\n"
        r"  len 45, wraps at \d+, error at position 26\n"
        r"  \n"
        r"  00000  GET / HTTP/1\.1\\r\\n\n"
        r"  00016  host: a\\r\\n\n"
        r"  00025  x y: 1\\r\\n\n"
        r"  00033  ab\\tc: \\x80\\x01\\r\\n\n"
        r"  00043  \\r\\n\n\n",
        text,
    ), text


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (
            b"GET /" + b"a" * 100 + b"\x01 HTTP/1.1\r\nhost: a\r\n\r\n",
            ["  00000  GET /" + "a" * 65, "  00070+ " + "a" * 35 + r"\x01 HTTP/1.1\r\n"],
        ),
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32) + b"\r\n\r\n",
            [
                r"  00000  \x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03" + r"\x00" * 6,
                "  00017+ " + r"\x00" * 17,
                "  00034+ " + r"\x00" * 9 + r"\r\n",
            ],
        ),
        (b"GET /a\\b\x1bc HTTP/1.1\r\nhost: a\r\n\r\n", [r"  00000  GET /a\\b\ec HTTP/1.1\r\n"]),
    ],
    ids=["long", "binary", "escapes"],
)
def test_lines_of_a_message(proxy, origin: Origin, data: bytes, lines: list[str]) -> None:
    running = proxy(http(origin.port))
    refused(running, data)
    text = report(running)
    assert "\n".join(["  ", *lines, ""]) in text


def test_the_last_one_counts(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    for number in range(1, 4):
        refused(running, b"GET / HTTP/1.1\r\nno %d\r\n\r\n" % number)
    text = report(running, total=3)
    assert "event #2," in text
    assert "no 3" in text
    assert "no 2" not in text


def test_a_refused_response_and_filters(proxy, serve) -> None:
    def handler(wire: Wire) -> None:
        wire.read_request()
        wire.send(b"HTTP/1.1 200 OK\r\nbad header\r\nx: y\r\n\r\nbody")

    running = proxy(http(serve(handler).port) + "frontend other\n    bind fd@${other}\n")
    client = running.connect()
    assert client.request("GET / HTTP/1.1\nhost: a").status == 502
    port = client.sock.getsockname()[1]
    text = report(running)
    assert re.search(
        rf"^{DATE} backend be \(#3\): invalid response\n"
        rf"  frontend fe \(#2\), server s1 \(#1\), event #0, src 127\.0\.0\.1:{port}\n"
        r"  buffer .*\n"
        r"  len 41, wraps at \d+, error at position 20\n"
        r"  \n"
        r"  00000  HTTP/1\.1 200 OK\\r\\n\n"
        r"  00017  bad header\\r\\n\n",
        text,
        re.MULTILINE,
    ), text
    refused(running, BAD_NAME)
    both = report(running, total=2)
    assert both.index("invalid request") < both.index("invalid response")
    for words, request, response in [
        ("fe", True, True),  # it is the frontend of both
        ("be", False, True),
        ("3", False, True),
        ("-1", True, True),
        ("-1 request", True, False),
        ("fe response", False, True),
        ("be request", False, False),
        ("other", False, False),
    ]:
        text = report(running, words, total=2)
        found = ("invalid request" in text, "invalid response" in text)
        assert found == (request, response), words
    assert running.cli("show errors nope") == "No such proxy.\n\n"


def test_bad_chunks_that_came_with_the_head(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    refused(running, b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")
    text = report(running)
    assert "error at position 56\n" in text
    assert "  00056  zz\\r\\n\n" in text


@pytest.mark.only("mtproxy")
@pytest.mark.parametrize(
    ("lines", "reason", "position"),
    [
        (b"x y: 1\r\n", "bad character in a header name", 26),
        (b"content-length: 3\r\ncontent-length: 4\r\n", "different Content-Length headers", 44),
        (b"x: " + b"a" * 17000 + b"\r\n", "head too long", 15360),
    ],
)
def test_the_reason_in_words(
    proxy, origin: Origin, lines: bytes, reason: str, position: int
) -> None:
    running = proxy(http(origin.port))
    refused(running, b"GET / HTTP/1.1\r\nhost: a\r\n" + lines + b"\r\n")
    text = running.cli("show errors fe request")
    assert f"  H1 error: {reason}" in text
    assert f"error at position {position}\n" in text

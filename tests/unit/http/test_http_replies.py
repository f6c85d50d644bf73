import pytest

from mtproxy.http import replies
from mtproxy.http.cache import HeadCache
from mtproxy.http.h1_response import BODY_LENGTH, parse_response_head
from mtproxy.http.status import reason_phrase


def test_reply() -> None:
    body = (
        b"<html><body><h1>503 Service Unavailable</h1>\n"
        b"No server is available to handle this request.\n</body></html>\n"
    )
    assert replies.reply(503) == (
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 107\r\ncache-control: no-cache\r\n"
        b"content-type: text/html\r\nconnection: close\r\n\r\n" + body
    )
    assert replies.reply(503, b"") == replies.reply(503).replace(b"connection: close\r\n", b"")
    kept = replies.reply(503, replies.CONNECTION_KEEP_ALIVE_LINE)
    assert kept == replies.reply(503).replace(b"close", b"keep-alive")
    assert replies.reply(503, head_only=True) + body == replies.reply(503)


def test_early_reply() -> None:
    assert replies.early_reply(400) == (
        b"HTTP/1.1 400 Bad request\r\nContent-length: 90\r\nCache-Control: no-cache\r\n"
        b"Connection: close\r\nContent-Type: text/html\r\n\r\n"
        b"<html><body><h1>400 Bad request</h1>\nYour browser sent an invalid request.\n"
        b"</body></html>\n"
    )
    assert b"Connection" not in replies.early_reply(413)
    with pytest.raises(KeyError):
        replies.early_reply(503)


@pytest.mark.parametrize("status", replies.STATUSES)
def test_every_reply_is_a_good_response(status: int) -> None:
    data = [replies.reply(status)]
    if status in (400, 408, 413, 422):
        data.append(replies.early_reply(status))
    for message in data:
        end = message.index(b"\r\n\r\n") + 4
        head = parse_response_head(message[:end], b"GET", HeadCache())
        assert (head.status, head.body) == (status, BODY_LENGTH)
        assert message[end:] == replies.BODIES[status]
        assert head.content_length == len(replies.BODIES[status])
        assert replies.reason(status) == head.reason


def test_there_is_no_reply_for_other_codes() -> None:
    for call in (replies.reply, replies.reason):
        with pytest.raises(KeyError):
            call(418)


@pytest.mark.parametrize(
    ("status", "phrase"),
    [
        (200, b"OK"),
        (302, b"Moved Temporarily"),
        (299, b"Success"),
        (150, b"Informational"),
        (399, b"Redirection"),
        (444, b"Client Error"),
        (599, b"Server Error"),
        (600, b"Other"),
        (99, b"Other"),
    ],
)
def test_reason_phrase(status: int, phrase: bytes) -> None:
    assert reason_phrase(status) == phrase

"""The soak's client notices what it is there to notice."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from mtproxy.testing import soak_client
from mtproxy.testing.origin import Origin
from mtproxy.testing.payload import payload
from mtproxy.testing.server import Server
from mtproxy.testing.soak_client import Client, Shared, some_size
from mtproxy.testing.waiting import PATIENCE
from mtproxy.testing.wire import Wire


class Lines(Shared):
    """Keeps the output instead of printing it."""

    def __init__(self, requests: int) -> None:
        super().__init__(requests)
        self.lines: list[dict[str, object]] = []

    def write(self, **line: object) -> None:
        self.lines.append(line)


def run(
    server: Server,
    kind: Callable[[Client], None],
    monkeypatch: pytest.MonkeyPatch,
    deadline: float = PATIENCE,
) -> Lines:
    monkeypatch.setattr(soak_client, "_KINDS", ((kind, 1.0),))
    shared = Lines(3)
    Client("c", server.port, shared, random.Random(1), deadline).run()
    return shared


def answering(make: Callable[[str, int], bytes]) -> Server:
    """A server that answers /len/N with `make(id, N)`, then closes."""

    def handler(wire: Wire) -> None:
        head = wire.read_head()
        identity = (head.get("x-id") or b"").decode()
        wire.send(make(identity, int(head.target.rpartition(b"/")[2])))

    return Server(handler)


def answer(identity: str, body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"HTTP/1.1 200 OK\r\nconnection: close\r\nx-id: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        identity.encode(),
        size,
        body,
    )


def flipped(identity: str, size: int) -> bytes:
    body = bytearray(payload(identity, size))
    body[size // 2] ^= 1
    return answer(identity, bytes(body))


FATAL = {
    "a wrong byte": flipped,
    "another's answer": lambda _, size: answer("c-99", payload("c-99", size)),
    "a body too short": lambda i, size: answer(i, payload(i, size)[:-1]),
    "an unknown status": lambda *_: b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
    "no HTTP": lambda *_: b"nonsense\r\n\r\n",
    "a cut body with a wrong byte": lambda i, size: answer(i, flipped(i, size)[-size:], size + 1),
}


@pytest.mark.parametrize("make", FATAL.values(), ids=FATAL.keys())
def test_fatal(make: Callable[[str, int], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak_client, "some_size", lambda _: 1000)
    with answering(make) as server:
        shared = run(server, Client.get_length, monkeypatch)
    assert ["fatal" in line for line in shared.lines] == [True]
    assert shared.stop.is_set()


FAILED = {
    "the proxy's own 502": lambda *_: b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n",
    "closed": lambda *_: b"",
    "cut, but right so far": lambda i, size: answer(i, payload(i, size)[:-10], size),
}


@pytest.mark.parametrize("make", FAILED.values(), ids=FAILED.keys())
def test_permitted(make: Callable[[str, int], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak_client, "some_size", lambda _: 1000)
    with answering(make) as server:
        shared = run(server, Client.get_length, monkeypatch)
    assert ["failure" in line for line in shared.lines] == [True] * 3
    assert (shared.done, shared.failed) == (3, 3)


def test_a_hang_is_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    with Origin() as origin:
        monkeypatch.setattr(
            Client, "_head", lambda *_, **__: b"GET /stall HTTP/1.1\r\nhost: a\r\n\r\n"
        )
        shared = run(origin, Client.get_length, monkeypatch, 0.5)
    assert [line["fatal"] for line in shared.lines] == ["hung"]


#: what needs a proxy that gives an origin up
_UNENDED = {Client.stalled}


@pytest.mark.parametrize("kind", [k for k, _ in soak_client._KINDS if k not in _UNENDED])
def test_every_kind_of_request_works(
    kind: Callable[[Client], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Face to face with the origin nothing fails."""
    with Origin(record=False) as origin:
        shared = run(origin, kind, monkeypatch)
        assert origin.corrupt_uploads == 0
    assert shared.lines == []
    assert (shared.done, shared.failed) == (3, 0)


def test_a_whole_answer_where_none_should_be_is_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    with Origin() as origin:
        monkeypatch.setattr(
            Client, "_head", lambda *_, **__: b"GET /len/5 HTTP/1.1\r\nhost: a\r\n\r\n"
        )
        shared = run(origin, Client.broken, monkeypatch)
    assert {line["fatal"] for line in shared.lines} == {"Fatal"}


def test_sizes_reach_from_nothing_to_5_mb_and_are_mostly_small() -> None:
    rng = random.Random(1)
    sizes = sorted(some_size(rng) for _ in range(20_000))
    assert sizes[0] == 0
    assert 4_000_000 < sizes[-1] <= 5_000_000
    assert sizes[len(sizes) // 2] < 4096

"""Clients of the soak run: every body checked, every answer known to be the client's own.

A process of its own (`python -m mtproxy.testing.soak_client`), with a number of threads, each of
which is one client with one connection at a time and a random generator of its own, so that a seed
gives the same requests again. It writes JSON lines to standard output:

    {"done": 120, "failed": 3, "bytes": 123456, "faults": {"reset": 2}}    about once a second
    {"failure": "status 502", "begin": t0, "end": t1}      permitted while an origin is being hurt
    {"outcomes": ["w0-1-7 =200", ...]}                      see soak_ledger
    {"fatal": "wrong byte", "detail": ..., "id": ...}       never permitted

Times are of the monotonic clock, which all processes of the machine share. `Shared` is guarded by
its lock; everything else belongs to one thread.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import socket
import sys
import threading
import time
from collections.abc import Callable

from mtproxy.testing.payload import digest, payload
from mtproxy.testing.wire import Message, PeerClosed, Wire, WireError, connect

#: what the proxy itself says when an origin fails it
PERMITTED = (502, 503, 504)
MOST_BYTES = 5_000_000


class Fatal(Exception):
    """Something that no hurt origin excuses."""


class Failed(Exception):
    """The exchange was not completed, which a hurt origin excuses."""


class Shared:
    """The process's counters and its output."""

    def __init__(self, requests: int) -> None:
        self.lock = threading.Lock()
        self.left = requests
        self.done = 0
        self.failed = 0
        self.bytes = 0
        self.outcomes: list[str] = []
        self.faults: collections.Counter[str] = collections.Counter()
        self.stop = threading.Event()

    def take(self) -> int:
        """The number of a request that is still to be made; 0 when there is none."""
        with self.lock:
            if self.left <= 0 or self.stop.is_set():
                return 0
            self.left -= 1
            return self.left + 1

    def write(self, **line: object) -> None:
        """One line of output."""
        with self.lock:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    def progress(self) -> None:
        """The counters as a line."""
        with self.lock:
            line: dict[str, object] = {
                "done": self.done,
                "failed": self.failed,
                "bytes": self.bytes,
                "faults": self.faults.copy(),
            }
            outcomes, self.outcomes = self.outcomes, []
        if outcomes:
            self.write(outcomes=outcomes)
        self.write(**line)


def some_size(rng: random.Random) -> int:
    """0 bytes to 5 MB: mostly small, as bodies are."""
    draw = rng.random()
    if draw < 0.05:
        return 0
    if draw < 0.35:
        return rng.randrange(1, 100)
    if draw < 0.765:
        return rng.randrange(100, 4096)
    if draw < 0.965:
        return rng.randrange(4096, 65536)
    if draw < 0.995:
        return rng.randrange(65536, 524_288)
    return rng.randrange(524_288, MOST_BYTES + 1)


class Client:
    """One client: makes requests until none is left."""

    def __init__(
        self, name: str, port: int, shared: Shared, rng: random.Random, deadline: float
    ) -> None:
        self.name = name
        self.port = port
        self.shared = shared
        self.rng = rng
        self.deadline = deadline
        self.wire: Wire | None = None
        self.identity = ""
        self.moved = 0
        #: what became of the requests of this exchange, for the books
        self.outcomes: dict[str, str] = {}

    def run(self) -> None:
        """The thread."""
        kinds, weights = zip(*_KINDS, strict=True)
        while number := self.shared.take():
            kind = self.rng.choices(kinds, weights)[0]
            self.identity = f"{self.name}-{number}"
            self.moved = 0
            self.outcomes = {}
            begin = time.monotonic()
            try:
                kind(self)
            except Failed as failure:
                self._drop()
                self._count(failed=True)
                self.shared.write(failure=str(failure), begin=begin, end=time.monotonic())
                # A client that failed does not hammer: it looks again a little later.
                self.shared.stop.wait(0.05)
            except TimeoutError:
                self._fatal("hung", f"{kind.__name__}: no byte for {self.deadline:g} s")
                return
            except (Fatal, WireError) as error:
                self._fatal(type(error).__name__, f"{kind.__name__}: {error}")
                return
            else:
                self._count(failed=False)
            if (took := time.monotonic() - begin) > self.deadline:
                self._fatal("hung", f"{kind.__name__} took {took:.1f} s")
                return
        self._drop()

    def _count(self, *, failed: bool) -> None:
        with self.shared.lock:
            self.shared.done += 1
            self.shared.failed += failed
            self.shared.bytes += self.moved
            self.shared.outcomes += [f"{name} {word}" for name, word in self.outcomes.items()]

    def _fatal(self, what: str, detail: str) -> None:
        self._drop()
        self.shared.write(fatal=what, detail=detail, id=self.identity, at=time.monotonic())
        self.shared.stop.set()

    # -- connections

    def _drop(self) -> None:
        if self.wire is not None:
            self.wire.close()
            self.wire = None

    def _connection(self, *, fresh: bool = False) -> Wire:
        if fresh or self.rng.random() < 0.05:
            self._drop()
        if self.wire is None:
            self.wire = connect(("127.0.0.1", self.port), self.deadline)
        return self.wire

    # -- exchanges

    def _head(self, method: str, path: str, *lines: str, version: str = "1.1") -> bytes:
        self.outcomes[self.identity] = "?"
        text = "".join(f"{line}\r\n" for line in lines)
        head = (
            f"{method} {path} HTTP/{version}\r\nhost: soak\r\nx-id: {self.identity}\r\n{text}\r\n"
        )
        return head.encode()

    def _read(
        self, wire: Wire, identity: str, body: bytes, method: str = "GET", *, close: bool = False
    ) -> Message:
        """The answer, which has to be `identity`'s and to carry `body`."""
        try:
            answer = wire.read_response(method)
        except PeerClosed as closed:
            if closed.got or wire.buffer:
                self.outcomes[identity] = "!"
            # what came has to be right, even if not all came
            self._check_prefix(closed.body, body)
            raise Failed(f"closed: {closed}"[:120]) from closed
        except ConnectionError as error:
            raise Failed(f"connection: {error!r}") from error
        self.outcomes[identity] = f"={answer.status}"
        if answer.status in PERMITTED:
            raise Failed(f"status {answer.status}")
        if answer.status != 200:
            raise Fatal(f"status {answer.status}: {answer.head.raw[:300]!r}")
        got = answer.get("x-id")
        if got != identity.encode():
            raise Fatal(f"an answer to {got!r} came to {identity}")
        if method != "HEAD" and digest(answer.body) != digest(body):
            if answer.framing == "close" and len(answer.body) < len(body):
                self._check_prefix(answer.body, body)
                self.outcomes[identity] = f"~{answer.status}"
                raise Failed("cut short")
            raise Fatal(f"wrong bytes: {len(answer.body)} came, {len(body)} were right")
        self.moved += len(answer.body)
        if close or answer.framing == "close" or answer.head.has_token("connection", "close"):
            self._drop()
        return answer

    @staticmethod
    def _check_prefix(got: bytes, body: bytes) -> None:
        if not body.startswith(got):
            raise Fatal(f"wrong bytes among the first {len(got)}")

    def _send(self, wire: Wire, *parts: bytes) -> None:
        """A proxy that answers early and closes makes sending fail: its answer decides then."""
        try:
            for part in parts:
                wire.send(part)
                self.moved += len(part)
        except ConnectionError as error:
            try:
                status = wire.read_head().status
            except (WireError, ConnectionError):
                raise Failed(f"connection: {error!r}") from error
            self.outcomes[self.identity] = f"~{status}"
            if status in PERMITTED:
                raise Failed(f"status {status}") from error
            raise Fatal(f"status {status} before the request was sent") from error

    def _get(self, path: str, size: int, *, version: str = "1.1", method: str = "GET") -> None:
        wire = self._connection()
        close = version == "1.0" or self.rng.random() < 0.1
        lines = ["connection: close"] if close and version == "1.1" else []
        self._send(wire, self._head(method, path, *lines, version=version))
        self._read(wire, self.identity, payload(self.identity, size), method, close=close)

    def get_length(self) -> None:
        """GET, Content-Length."""
        size = some_size(self.rng)
        self._get(f"/len/{size}", size)

    def get_chunked(self) -> None:
        """GET, chunks of any size."""
        size = some_size(self.rng)
        self._get(
            f"/chunked/{size}/{self.rng.choice([100, 1000, 8192, 50_000]) + size // 200}", size
        )

    def get_trailers(self) -> None:
        """GET, chunks and trailers."""
        size = some_size(self.rng) % 100_000
        wire = self._connection()
        self._send(wire, self._head("GET", f"/trailers/{size}"))
        answer = self._read(wire, self.identity, payload(self.identity, size))
        if answer.trailers != [(b"x-first", b"1"), (b"x-second", b"two")]:
            raise Fatal(f"trailers {answer.trailers!r}")

    def get_until_close(self) -> None:
        """GET, the body ends with the connection."""
        size = some_size(self.rng)
        self._get(f"/close/{size}", size)

    def get_old(self) -> None:
        """HTTP/1.0."""
        size = some_size(self.rng)
        self._get(f"/len/{size}", size, version="1.0")

    def head_only(self) -> None:
        """HEAD."""
        self._get(f"/len/{some_size(self.rng)}", 0, method="HEAD")

    def upload(self) -> None:
        """A body up, a small one down."""
        up, down = some_size(self.rng), self.rng.randrange(2000)
        body = payload(self.identity + "up", up)
        self._exchange(f"/len/{down}", body, payload(self.identity, down))

    def echo(self) -> None:
        """The same body up and down."""
        body = payload(self.identity + "up", some_size(self.rng))
        self._exchange("/echo", body, body)

    def _exchange(self, path: str, up: bytes, down: bytes) -> None:
        wire = self._connection()
        lines = [f"x-digest: {digest(up)}"]
        if self.rng.random() < 0.5:
            head = self._head("POST", path, *lines, f"content-length: {len(up)}")
            self._send(wire, head + up[:1000], up[1000:])
        else:
            step = self.rng.choice([100, 3000, 20_000]) + len(up) // 100
            self._send(wire, self._head("POST", path, *lines, "transfer-encoding: chunked"))
            for start in range(0, len(up), step):
                piece = up[start : start + step]
                self._send(wire, b"%x\r\n%b\r\n" % (len(piece), piece))
            self._send(wire, b"0\r\n\r\n")
        self._read(wire, self.identity, down, "POST")

    def pipeline(self) -> None:
        """Several requests before the first answer."""
        base = self.identity
        sizes = [some_size(self.rng) % 50_000 for _ in range(self.rng.randrange(2, 6))]
        wire = self._connection()
        requests = b""
        for place, size in enumerate(sizes):
            self.identity = f"{base}.{place}"
            requests += self._head("GET", f"/len/{size}")
        self._send(wire, requests)
        for place, size in enumerate(sizes):
            identity = f"{base}.{place}"
            self._read(wire, identity, payload(identity, size))
            if self.wire is None and place + 1 < len(sizes):
                raise Failed("closed within a pipeline")

    def slow_reader(self) -> None:
        """Takes a large body slowly."""
        size = self.rng.randrange(100_000, 1_000_000)
        wire = self._connection(fresh=True)
        # Not less: below a loopback segment (64 KB) each window would cost the kernel's 200 ms.
        wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 131_072)
        self._send(wire, self._head("GET", f"/len/{size}"))
        for _ in range(10):
            if self.shared.stop.wait(0.05):
                break
            try:
                wire.fill(8192)
                self.outcomes[self.identity] = "!"
            except (PeerClosed, ConnectionError) as error:
                raise Failed(f"closed: {error}"[:120]) from error
        self._read(wire, self.identity, payload(self.identity, size))
        self._drop()

    def broken(self) -> None:
        """An answer that the origin breaks off: never whole, and right as far as it goes."""
        size = self.rng.randrange(1, 60_000)
        path = self.rng.choice(
            ["/reset", "/begun/reset", "/begun/close"]
            + [f"/{how}/{size}" for how in ("reset", "half", "cut")]
        )
        self._broken(path, payload(self.identity, size))

    def stalled(self) -> None:
        """An origin that stops within its body, or before it, until `timeout server`."""
        path, size = self.rng.choice([("/stall/0", 0), ("/stall/5000", 5000), ("/begun/stall", 0)])
        self._broken(path, payload(self.identity, size))

    def _broken(self, path: str, body: bytes) -> None:
        self._fault(path.strip("/").rstrip("0123456789").rstrip("/") or path)
        wire = self._connection(fresh=True)
        self._send(wire, self._head("GET", path))
        try:
            answer = wire.read_response("GET")
        except PeerClosed as closed:
            if closed.got or wire.buffer:
                self.outcomes[self.identity] = "!"
            if not body.startswith(closed.body):
                raise Fatal(f"wrong bytes in what {path} sent") from closed
        except ConnectionError:
            pass
        else:
            self.outcomes[self.identity] = f"={answer.status}"
            if answer.status not in PERMITTED:
                raise Fatal(f"a whole answer ({answer.status}) to {path}")
        self._drop()

    def slow_drip(self) -> None:
        """An origin that sends slowly."""
        self._fault("slow drip")
        size = self.rng.randrange(10, 20_000)
        wire = self._connection()
        self._send(wire, self._head("GET", f"/slow/{size}/10"))
        self._read(wire, self.identity, payload(self.identity, size))

    def abort_waiting(self) -> None:
        """Leaves while its request waits for a server or for the answer."""
        wire = self._connection()
        self._send(wire, self._head("GET", "/slow/100/50"))
        self._leave(wire, "waiting")

    def abort_download(self) -> None:
        """Leaves in the middle of an answer, or before it."""
        size = self.rng.randrange(MOST_BYTES)
        wire = self._connection()
        self._send(wire, self._head("GET", f"/len/{size}"))
        if self.rng.random() < 0.7:
            try:
                wire.fill(self.rng.randrange(1, 60_000))
                self.outcomes[self.identity] = "!"
            except (PeerClosed, ConnectionError) as error:
                raise Failed(f"closed: {error}"[:120]) from error
        self._leave(wire, "the answer")

    def abort_upload(self) -> None:
        """Leaves in the middle of its own body."""
        size = self.rng.randrange(1000, MOST_BYTES)
        wire = self._connection()
        part = payload(self.identity, self.rng.randrange(size))
        self._send(wire, self._head("POST", "/echo", f"content-length: {size}"), part)
        self._leave(wire, "its body")

    def abort_head(self) -> None:
        """Leaves in the middle of a head."""
        wire = self._connection(fresh=True)
        head = self._head("GET", "/len/5")
        self._send(wire, head[: self.rng.randrange(len(head) - 1)])
        self._leave(wire, "its head")

    def _fault(self, name: str) -> None:
        with self.shared.lock:
            self.shared.faults[name] += 1

    def abort_idle(self) -> None:
        """Leaves before a byte of its first request, or between two requests."""
        stage = "at once" if self.wire is None else "idle"
        self._leave(self._connection(), stage)

    def _leave(self, wire: Wire, stage: str) -> None:
        self._fault(f"left {stage}")
        if self.rng.random() < 0.5:
            wire.reset()
        self._drop()

    def tunnel(self) -> None:
        """An upgrade, and bytes echoed through it."""
        wire = self._connection(fresh=True)
        self._send(wire, self._head("GET", "/upgrade", "connection: upgrade", "upgrade: soak"))
        try:
            head = wire.read_head()
            self.outcomes[self.identity] = f"~{head.status}"
            if head.status in PERMITTED:
                raise Failed(f"status {head.status}")
            if head.status != 101:
                raise Fatal(f"status {head.status} to an upgrade")
            if head.get("x-id") != self.identity.encode():
                raise Fatal(f"an upgrade for {head.get('x-id')!r} came to {self.identity}")
            for turn in range(5):
                data = payload(f"{self.identity}{turn}", self.rng.randrange(1, 60_000))
                wire.send(data)
                if wire.read_exactly(len(data)) != data:
                    raise Fatal("wrong bytes in a tunnel")
                self.moved += 2 * len(data)
                if turn == 3 and self.rng.random() < 0.2:
                    self._leave(wire, "a tunnel")
                    return
        except (PeerClosed, ConnectionError) as error:
            raise Failed(f"closed: {error}"[:120]) from error
        self._drop()


#: what is done to answers, and when clients leave: each of them has to happen in a long run
FAULTS = (
    *("reset", "begun/reset", "begun/close", "half", "cut", "stall", "begun/stall", "slow drip"),
    *(f"left {stage}" for stage in ("at once", "its head", "its body", "waiting", "the answer")),
    *("left idle", "left a tunnel"),
)
_KINDS: tuple[tuple[Callable[[Client], None], float], ...] = (
    (Client.get_length, 40),
    (Client.get_chunked, 15),
    (Client.get_trailers, 3),
    (Client.get_until_close, 4),
    (Client.get_old, 2),
    (Client.head_only, 2),
    (Client.upload, 10),
    (Client.echo, 12),
    (Client.pipeline, 5),
    (Client.slow_reader, 0.5),
    (Client.slow_drip, 1),
    (Client.broken, 2),
    (Client.stalled, 0.02),
    (Client.abort_waiting, 1),
    (Client.abort_download, 2),
    (Client.abort_upload, 1.5),
    (Client.abort_head, 1),
    (Client.abort_idle, 0.5),
    (Client.tunnel, 1),
)


def main() -> None:
    """The process: see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m mtproxy.testing.soak_client")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--name", default="w1")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--deadline", type=float, default=60.0)
    options = parser.parse_args()
    shared = Shared(options.requests)
    threads = []
    for number in range(options.clients):
        name = f"{options.name}-{number}"
        rng = random.Random(f"{options.seed}-{name}")
        client = Client(name, options.port, shared, rng, options.deadline)
        threads.append(threading.Thread(target=client.run, name=name))
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(1.0)
            shared.progress()
    shared.progress()


if __name__ == "__main__":
    main()

"""Both directions at once: half-close, back-pressure, silence, and who is to blame for the end."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from mtproxy.base.clock import monotonic_ms
from mtproxy.base.settings import Timeouts
from mtproxy.net.connection import Connection
from mtproxy.sched.context import ThreadContext
from mtproxy.stream import pump as pump_module
from mtproxy.stream.pump import Pump
from mtproxy.stream.stream import Stop, Stream
from mtproxy.stream.tunnel import tunnel
from mtproxy.testing.payload import payload
from mtproxy.testing.pools import run_task
from mtproxy.testing.streams import make_front, with_stream
from mtproxy.testing.threads import playing
from mtproxy.testing.waiting import PATIENCE

RESET = b"\1\0\0\0\0\0\0\0"


@pytest.fixture
def server(ctx: ThreadContext, listener: socket.socket) -> Iterator[socket.socket]:
    """The server's end of a connection whose other end is `connected`."""
    with socket.create_connection(listener.getsockname()) as sock:
        sock.settimeout(PATIENCE)
        yield sock


@pytest.fixture
def connected(
    server: socket.socket, accepted: socket.socket, listener: socket.socket
) -> Iterator[socket.socket]:
    sock, _ = listener.accept()
    sock.setblocking(False)
    with sock:
        yield sock


@pytest.fixture
def run(
    ctx: ThreadContext, accepted: socket.socket, connected: socket.socket
) -> Callable[..., tuple[str, Pump, Pump]]:
    """`run(play, timeouts...)`: how a tunnel between the two ended ("--" or two letters)."""

    def start(
        play: Callable[[], object], client: Timeouts | None = None, server: Timeouts | None = None
    ) -> tuple[str, Pump, Pump]:
        async def body(stream: Stream) -> tuple[str, Pump, Pump]:
            stream.sconn = sconn = Connection(ctx, connected, stream.task)
            up = Pump(stream.conn, sconn, 16384)
            down = Pump(sconn, stream.conn, 16384)
            state, status = "--", 0
            try:
                await tunnel(stream, up, down)
            except Stop as stop:
                state, status = stop.state, stop.status
            finally:
                up.close()
                down.close()
            assert status == 0, "nothing is told to anybody"
            return state, up, down

        front = make_front(
            ctx,
            front={"timeouts": client or Timeouts()},
            back={"timeouts": server or Timeouts()},
        )
        with playing(play):
            return run_task(ctx, with_stream(ctx, front, accepted, body))

    return start


type Run = Callable[..., tuple[str, Pump, Pump]]


def read_all(sock: socket.socket) -> bytes:
    data = bytearray()
    while piece := sock.recv(65536):
        data += piece
    return bytes(data)


def test_half_close_is_kept(run: Run, client: socket.socket, server: socket.socket) -> None:
    """Each side's end is passed on when all before it was, and the other side goes on."""
    heard = []

    def play() -> None:
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        heard.append(read_all(server))
        server.sendall(b"answer")
        server.shutdown(socket.SHUT_WR)
        heard.append(read_all(client))

    state, up, down = run(play)
    assert heard == [b"question", b"answer"]
    assert state == "--"
    assert (up.received, down.sent) == (8, 6)


@pytest.mark.parametrize("splice", [True, False], ids=["spliced", "copied"])
def test_bulk_both_ways_at_once(
    run: Run,
    client: socket.socket,
    server: socket.socket,
    splice: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not splice:
        monkeypatch.setattr(pump_module, "take_pipe", lambda _ctx: None)
    size = 4_000_000
    to_server, to_client = payload("up", size), payload("down", size)
    heard: dict[str, bytes] = {}

    def send(sock: socket.socket, data: bytes) -> None:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)

    def hear(name: str, sock: socket.socket) -> None:
        heard[name] = read_all(sock)

    def play() -> None:
        with (
            playing(lambda: send(client, to_server)),
            playing(lambda: send(server, to_client)),
            playing(lambda: hear("server", server)),
        ):
            hear("client", client)

    state, up, down = run(play)
    assert state == "--"
    assert heard["server"] == to_server
    assert heard["client"] == to_client
    assert (up.received, up.sent, down.received, down.sent) == (size,) * 4


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    sock.close()


@pytest.mark.parametrize(("culprit", "state"), [("client", "CD"), ("server", "SD")])
def test_who_resets_is_to_blame(
    run: Run, client: socket.socket, server: socket.socket, culprit: str, state: str
) -> None:
    def play() -> None:
        client.sendall(b"x")
        assert server.recv(1) == b"x"
        reset(client if culprit == "client" else server)

    assert run(play)[0] == state


#: ms; LONG is more than any pause of a busy machine
SHORT, LONG = 60, 30_000


@pytest.mark.parametrize(
    ("client_times", "server_times", "state"),
    [
        (Timeouts(client=SHORT), Timeouts(server=LONG), "cD"),
        (Timeouts(client=LONG), Timeouts(server=SHORT), "sD"),
        (Timeouts(client=LONG), Timeouts(server=LONG, tunnel=SHORT), "cD"),
    ],
)
def test_silence(run: Run, client_times: Timeouts, server_times: Timeouts, state: str) -> None:
    started = monotonic_ms()
    assert run(lambda: None, client_times, server_times)[0] == state
    assert SHORT <= monotonic_ms() - started < LONG


def test_activity_of_a_side_puts_its_silence_off(
    run: Run, client: socket.socket, server: socket.socket
) -> None:
    """Bytes from the client count for the server too: it is the one who takes them."""
    limit, pause, steps = 1500, 400, 5

    def play() -> None:
        client.settimeout(pause / 1000)
        for _ in range(steps):
            client.sendall(b"x")
            assert server.recv(1) == b"x"
            with pytest.raises(TimeoutError):
                client.recv(1)

    started = monotonic_ms()
    state, up, _ = run(play, Timeouts(client=limit), Timeouts(server=limit))
    assert state in ("cD", "sD")
    assert up.received == steps
    assert monotonic_ms() - started >= (steps - 1) * pause + limit


@pytest.mark.parametrize("ended", ["client", "server"])
def test_the_fin_timeouts_hold_once_the_other_direction_has_ended(
    run: Run, client: socket.socket, server: socket.socket, ended: str
) -> None:
    """A server that keeps its connection after the client's end has `timeout server-fin` left."""
    sock = client if ended == "client" else server
    started = monotonic_ms()
    state, up, down = run(
        lambda: sock.shutdown(socket.SHUT_WR),
        Timeouts(client=LONG, client_fin=SHORT),
        Timeouts(server=LONG, server_fin=SHORT),
    )
    assert state == ("sD" if ended == "client" else "cD")
    assert (up.done, down.done) == (ended == "client", ended == "server")
    assert monotonic_ms() - started < LONG


def test_a_reader_that_takes_nothing_is_silent(
    run: Run, client: socket.socket, server: socket.socket
) -> None:
    """The server has ended, what it sent is still to be taken: the client's time runs."""

    def play() -> None:
        server.setblocking(True)
        server.settimeout(0.5)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            server.sendall(bytes(30_000_000))
        except OSError:  # as much as fits in, and then the end
            pass

    state, _, down = run(play, Timeouts(client=SHORT), Timeouts(server=LONG))
    assert state == "cD"
    assert down.blocked_on_sink or down.sent < 30_000_000

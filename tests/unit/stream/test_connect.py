"""Server connections: idle ones that are fit for use, new ones, retries and where they go."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.clock import monotonic_ms
from mtproxy.base.server_settings import ServerSettings
from mtproxy.base.settings import Timeouts
from mtproxy.net.connection import IN, OUT, Connection
from mtproxy.net.sockets import SockAddr
from mtproxy.net.source import Outer
from mtproxy.proxy.server import Server
from mtproxy.proxy.transitions import set_maint
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.tasklet import Task
from mtproxy.stream import connect as connect_module
from mtproxy.stream.connect import (
    ServerMark,
    close_ended,
    connect,
    give_idle,
    is_quiet,
    purge_idle,
    shed_idle,
    take_idle,
)
from mtproxy.stream.stream import Stop, Stream
from mtproxy.testing.pools import poll, run_task
from mtproxy.testing.proxies import server_settings
from mtproxy.testing.streams import make_front, with_stream

# --- idle connections


class Farm:
    """One server's side on a thread, and the far ends of its connections."""

    def __init__(self, ctx: ThreadContext) -> None:
        self.ctx = ctx
        front = make_front(ctx, [server_settings(1)])
        assert front.route.backend is not None
        self.srv: Server = front.route.backend.servers[0]
        self.task = Task(ctx, lambda _value: None, "stream")
        self.far_ends: list[socket.socket] = []

    def connection(self, now: int = 0, *, idle: bool = True) -> Connection:
        """A connection after its first request, given back at `now`."""
        near, far = socket.socketpair()
        near.setblocking(False)
        self.far_ends.append(far)
        conn = Connection(self.ctx, near, self.task, ready=OUT)
        conn.mark = ServerMark(self.srv)
        if idle:
            give_idle(conn, now)
        return conn

    def close(self) -> None:
        for far in self.far_ends:
            far.close()


@pytest.fixture
def farm(ctx: ThreadContext) -> Iterator[Farm]:
    farm = Farm(ctx)
    yield farm
    farm.close()


def test_the_last_one_used_is_used_first(farm: Farm) -> None:
    first, second = farm.connection(), farm.connection()
    task = Task(farm.ctx, lambda _value: None, "another")
    assert take_idle(task, farm.srv) is second
    assert second.tasklet is task
    assert take_idle(task, farm.srv) is first
    assert take_idle(task, farm.srv) is None


def hang_up(far: socket.socket) -> None:
    far.close()


def half_close(far: socket.socket) -> None:
    far.shutdown(socket.SHUT_WR)


def speak_unasked(far: socket.socket) -> None:
    far.send(b"HTTP/1.1 408 Request Time-out\r\n\r\n")


@pytest.mark.parametrize("event", [hang_up, half_close, speak_unasked])
def test_what_happens_to_an_idle_connection_closes_it(
    farm: Farm, event: Callable[[socket.socket], None]
) -> None:
    conn, other = farm.connection(), farm.connection()
    poll(farm.ctx)  # that they can be written to
    event(farm.far_ends[0])
    assert poll(farm.ctx, 5) == [conn]
    assert conn.tasklet is farm.srv.watch, "the poller wakes the watch"
    close_ended(farm.srv)
    assert conn.closed
    assert list(farm.srv.idle) == [other]
    assert not other.closed


@pytest.mark.parametrize("event", [hang_up, speak_unasked])
def test_one_that_has_just_ended_is_not_taken(
    farm: Farm, event: Callable[[socket.socket], None]
) -> None:
    """The event came in this turn, and the watch has not run yet."""
    older, newer = farm.connection(), farm.connection()
    event(farm.far_ends[1])
    poll(farm.ctx, 5)
    assert take_idle(farm.task, farm.srv) is older
    assert newer.closed


def test_an_event_without_bytes_is_no_reason_to_close(farm: Farm) -> None:
    """What came in two pieces was read as one; the second event comes afterwards."""
    conn = farm.connection()
    conn.ready |= IN
    assert is_quiet(conn)
    assert not conn.ready & IN
    close_ended(farm.srv)
    assert not conn.closed


@pytest.mark.parametrize("event", [hang_up, speak_unasked])
def test_one_that_ended_with_its_response_is_not_kept(
    farm: Farm, event: Callable[[socket.socket], None]
) -> None:
    conn = farm.connection(idle=False)
    event(farm.far_ends[0])
    poll(farm.ctx, 5)
    give_idle(conn, 0)
    assert conn.closed
    assert not farm.srv.idle


def test_those_from_before_a_change_of_the_server_are_closed_soon(farm: Farm) -> None:
    old = farm.connection()
    busy = farm.connection(idle=False)
    farm.srv.shared.epoch += 1
    purge_idle(farm.srv, 0)
    assert old.closed
    give_idle(busy, 0)
    assert busy.closed
    new = farm.connection()
    assert take_idle(farm.task, farm.srv) is new


def test_half_of_them_go_when_descriptors_are_wanted(farm: Farm) -> None:
    conns = [farm.connection() for _ in range(3)]
    assert shed_idle(farm.ctx)
    assert [conn.closed for conn in conns] == [True, True, False]
    assert shed_idle(farm.ctx)
    assert conns[2].closed
    assert not shed_idle(farm.ctx)


# --- new connections


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


@pytest.fixture
def dead_port(ctx: ThreadContext) -> Iterator[int]:
    """A port that is taken, but nobody listens on it."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield port_of(sock)


def port_of(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


type Outcome = tuple[Connection | str, Stream]


def run(
    ctx: ThreadContext,
    sock: socket.socket,
    servers: list[ServerSettings],
    then: Callable[[Stream, Connection], None] = lambda _stream, _conn: None,
    before: Callable[[Stream], None] = lambda _stream: None,
    **back: Any,
) -> dict[str, Any]:
    """Connect once; what became of it: `state` "ok" or the letters of the end, and the counters."""

    async def body(stream: Stream) -> dict[str, Any]:
        before(stream)
        be = stream.be
        assert be is not None
        state = "ok"
        status = 0
        try:
            stream.sconn = conn = await connect(stream)
            then(stream, conn)
        except Stop as stop:
            state, status = stop.state, stop.status
        return {
            "state": state,
            "status": status,
            "server": stream.server,
            "tries": stream.retries,
            "redispatched": stream.redispatched,
            "t_c": stream.t_c,
            **{
                name: [getattr(s.counters, name) for s in be.servers]
                for name in ("connect", "failed_conns", "retries", "redispatches")
            },
            "sessions": [s.counters.conn_cur for s in be.servers],
            "cum_sess": [s.counters.cum_sess for s in be.servers],
            "sessions_so_far": be.sessions_so_far(),
        }

    back.setdefault("timeouts", Timeouts(connect=30))
    front = make_front(ctx, servers, back=back)
    outcome = run_task(ctx, with_stream(ctx, front, sock, body))
    assert front.route.backend is not None
    for server in front.route.backend.servers:
        assert server.counters.conn_cur == 0, "a session that was not given back"
    assert front.route.backend.counters.conn_cur == 0
    return outcome


def test_a_server_that_answers(ctx: ThreadContext, accepted: socket.socket) -> None:
    with listening() as sock:

        def then(stream: Stream, conn: Connection) -> None:
            assert stream.srv is not None
            assert conn.mark.server is stream.srv
            assert (stream.server_ip, stream.server_port) == sock.getsockname()
            assert conn.tasklet is stream.task
            assert conn.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)

        servers = [server_settings(1, port_of(sock))]
        outcome = run(ctx, accepted, servers, then, options=frozenset({"srvtcpka"}))
    assert outcome["state"] == "ok"
    assert (outcome["connect"], outcome["failed_conns"], outcome["retries"]) == ([1], [0], [0])
    assert outcome["t_c"] >= 0


def test_a_dead_server_is_tried_again_after_a_pause(
    ctx: ThreadContext, accepted: socket.socket, dead_port: int
) -> None:
    started = monotonic_ms()
    outcome = run(ctx, accepted, [server_settings(1, dead_port)], retries=2)
    assert (outcome["state"], outcome["status"]) == ("SC", 503)
    assert outcome["tries"] == 2
    assert (outcome["connect"], outcome["failed_conns"], outcome["retries"]) == ([3], [1], [2])
    assert (outcome["cum_sess"], outcome["sessions_so_far"]) == ([3], 1), "one session, three tries"
    assert monotonic_ms() - started >= 60, "the connect timeout, here less than a second, twice"


def test_without_retries_the_first_refusal_counts(
    ctx: ThreadContext, accepted: socket.socket, dead_port: int
) -> None:
    outcome = run(ctx, accepted, [server_settings(1, dead_port)], retries=0)
    assert (outcome["state"], outcome["tries"], outcome["retries"]) == ("SC", 0, [0])


@pytest.mark.parametrize("redispatch", [-2, -1, 1, 2, 3])
def test_several_active_servers_are_tried_without_a_pause(
    ctx: ThreadContext,
    accepted: socket.socket,
    dead_port: int,
    redispatch: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever interval the option names, as HAProxy does with its round robin."""
    monkeypatch.setattr(connect_module, "TURN_AROUND", 30_000)
    with listening() as sock:
        servers = [server_settings(1, dead_port), server_settings(2, port_of(sock))]
        started = monotonic_ms()
        back = {"timeouts": Timeouts(connect=30_000), "redispatch": redispatch, "retries": 3}
        outcome = run(ctx, accepted, servers, **back)
    assert monotonic_ms() - started < 30_000
    assert (outcome["state"], outcome["tries"]) == ("ok", 1)
    assert (outcome["server"], outcome["redispatched"]) == ("s2", True)
    assert (outcome["redispatches"], outcome["retries"]) == ([1, 0], [0, 0])
    assert (outcome["connect"], outcome["sessions"]) == ([1, 1], [0, 1])
    assert (outcome["cum_sess"], outcome["sessions_so_far"]) == ([1, 1], 1)


@pytest.mark.parametrize(
    ("redispatch", "retries", "expected"),
    [
        (1, 3, [2, 3, 4]),
        (2, 5, [1, 2, 2, 3, 3]),
        (3, 5, [1, 1, 2, 2, 2]),
        (-1, 4, [1, 1, 1, 2]),  # the last one
        (-2, 5, [1, 1, 1, 2, 2]),  # the one before
        (-4, 5, [1, 2, 2, 3, 3]),  # every second: the same as 2 of 5
        (-6, 5, [1, 1, 1, 1, 1]),
        (0, 3, [1, 1, 1]),
    ],
)
def test_the_interval_counts_where_the_pauses_are(
    ctx: ThreadContext,
    accepted: socket.socket,
    dead_port: int,
    redispatch: int,
    retries: int,
    expected: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Backup servers. The expected numbers are what HAProxy 2.6 did with the same configuration."""
    tried: list[str] = []
    original = connect_module._open

    def note(
        stream: Stream, srv: Server, family: int, where: SockAddr, outer: Outer | None
    ) -> Connection:
        tried.append(srv.name)
        return original(stream, srv, family, where, outer)

    monkeypatch.setattr(connect_module, "_open", note)
    outcome = run(
        ctx,
        accepted,
        [server_settings(i, dead_port, backup=True) for i in range(1, 5)],
        options=frozenset({"allbackups"}),
        timeouts=Timeouts(connect=3),
        redispatch=redispatch,
        retries=retries,
    )
    assert tried == ["s1", *(f"s{number}" for number in expected)]
    assert (outcome["state"], outcome["tries"]) == ("SC", retries)
    assert outcome["redispatched"] == (expected[-1] > 1)
    assert sum(outcome["redispatches"]) == expected[-1] - 1
    assert sum(outcome["retries"]) == retries - sum(outcome["redispatches"])
    assert sum(outcome["failed_conns"]) == 1


def test_a_server_that_has_gone_down_is_left(
    ctx: ThreadContext, accepted: socket.socket, dead_port: int
) -> None:
    """Also without `option redispatch`."""
    with listening() as sock:
        servers = [server_settings(1, dead_port), server_settings(2, port_of(sock), backup=True)]

        def before(stream: Stream) -> None:
            assert stream.srv is not None
            set_maint(stream.srv.shared, ctx)

        outcome = run(ctx, accepted, servers, before=before, retries=1)
    assert (outcome["state"], outcome["server"], outcome["tries"]) == ("ok", "s2", 1)


def test_redispatch_with_nowhere_to_go(
    ctx: ThreadContext, accepted: socket.socket, dead_port: int
) -> None:
    outcome = run(ctx, accepted, [server_settings(1, dead_port)], redispatch=-1, retries=1)
    assert (outcome["state"], outcome["tries"], outcome["redispatched"]) == ("SC", 1, False)
    assert outcome["redispatches"] == [0]
    assert (outcome["cum_sess"], outcome["sessions_so_far"]) == ([2], 1), "one session, not two"


def test_a_server_that_does_not_answer(ctx: ThreadContext, accepted: socket.socket) -> None:
    """Its queue is full: the kernel drops our SYN."""
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(listening())
        sock.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(sock.getsockname())
        started = monotonic_ms()
        outcome = run(ctx, accepted, [server_settings(1, port_of(sock))], retries=1)
        assert (outcome["state"], outcome["status"], outcome["tries"]) == ("sC", 503, 1)
        assert monotonic_ms() - started >= 60


@pytest.mark.parametrize(
    ("number", "state"),
    [(errno.EADDRNOTAVAIL, "SC"), (errno.ENOBUFS, "RC"), (errno.ENETUNREACH, "SC")],
)
def test_whose_fault_it_is(
    ctx: ThreadContext,
    accepted: socket.socket,
    number: int,
    state: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(connect_module, "open_connection", refuse)
    outcome = run(ctx, accepted, [server_settings(1)], retries=0)
    assert (outcome["state"], outcome["status"]) == (state, 503)


def test_a_descriptor_is_made_free(
    ctx: ThreadContext, accepted: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle connections of this thread give way, and it costs no retry."""
    original = connect_module.open_connection
    shed = []

    def open_connection(*args: Any) -> Connection:
        if not shed:
            raise OSError(errno.EMFILE, "Too many open files")
        return original(*args)

    def make_room(_ctx: ThreadContext) -> bool:
        shed.append(True)
        return True

    monkeypatch.setattr(connect_module, "open_connection", open_connection)
    ctx.shed = make_room
    with listening() as sock:
        outcome = run(ctx, accepted, [server_settings(1, port_of(sock))], retries=0)
    assert (outcome["state"], outcome["tries"], shed) == ("ok", 0, [True])


def test_without_any_descriptor_it_is_our_fault(
    ctx: ThreadContext, accepted: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(connect_module, "open_connection", refuse)
    outcome = run(ctx, accepted, [server_settings(1)], retries=0)
    assert (outcome["state"], outcome["status"]) == ("RC", 503)


@pytest.mark.parametrize("abort", [True, False])
def test_a_client_that_leaves_meanwhile(
    ctx: ThreadContext,
    client: socket.socket,
    accepted: socket.socket,
    dead_port: int,
    abort: bool,
) -> None:
    client.close()
    outcome = run(
        ctx,
        accepted,
        [server_settings(1, dead_port)],
        before=lambda _stream: poll(ctx, 5),  # type: ignore[arg-type, return-value]
        retries=1,
        options=frozenset({"abortonclose"} if abort else ()),
    )
    assert (outcome["state"], outcome["tries"]) == (("CC", 0) if abort else ("SC", 1))


@pytest.mark.parametrize(("port", "offset"), [(0, None), (0, 0), (None, 0)])
def test_the_port_of_the_client_is_the_servers(
    ctx: ThreadContext,
    accepted: socket.socket,
    listener: socket.socket,
    port: int | None,
    offset: int | None,
) -> None:
    """`server s1 127.0.0.1` and `127.0.0.1:+0`: where the client connected to."""
    address = Address(AddressKind.IPV4, "127.0.0.1", port or 0, port_offset=offset)
    servers = [replace(server_settings(1), address=address)]
    outcome = run(ctx, accepted, servers)
    assert outcome["state"] == "ok"
    with listener.accept()[0] as reached:
        assert reached.getsockname() == listener.getsockname()

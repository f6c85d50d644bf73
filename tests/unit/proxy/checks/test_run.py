"""Scripts on real sockets with mock time: deadlines, bytes in pieces, what is left behind."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.cli.args import parse_args
from mtproxy.config.load import load
from mtproxy.proxy.backend import Backend, BackendShared
from mtproxy.proxy.check import Check
from mtproxy.proxy.checks.script import PLAIN, Script
from mtproxy.proxy.server import ServerState
from mtproxy.rules.build import Build, RuleShared
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.loop import run_some
from mtproxy.sched.pool import Pool
from mtproxy.testing.proxies import Messages
from mtproxy.testing.waiting import wait_until

INTER = 700
BEGIN = 1000


@pytest.fixture
def ctx() -> Iterator[ThreadContext]:
    context = Pool(1).contexts[0]
    context.now = BEGIN
    yield context
    assert context.fdtab == {}, "a check left its connection behind"
    assert not len(context.timers), "a check left its timer behind"
    assert not context.tasklets, "a check left its coroutine behind"
    context.epoll.close()
    os.close(context.shared.event_fd)


class Bed:
    """A server that the test plays itself, and its check."""

    def __init__(self, ctx: ThreadContext, tmp_path: Path, *lines: str, more: str = "") -> None:
        self.ctx = ctx
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(30)
        path = tmp_path / "cfg"
        text = "\n ".join(lines)
        port = self.listener.getsockname()[1]
        path.write_text(
            f"""
backend be
 timeout server 1s
 {more or "timeout connect 5s"}
 {text}
 server s 127.0.0.1:{port} check inter {INTER} rise 1 fall 1
listen l
 bind 127.0.0.1:1
"""
        )
        cmdline = parse_args(["-f", str(path)])
        settings, diagnostics = load(cmdline.paths, cmdline, environ={})
        assert settings is not None, [item.text() for item in diagnostics]
        proxy = settings.proxy("be", backend=True)
        assert proxy is not None
        shared = BackendShared(proxy, 0, Messages())
        Backend(shared, 0)
        self.server: ServerState = shared.servers[0]
        build = Build(RuleShared(settings), proxy, ctx, None)
        script = Script(proxy.check_script or PLAIN, build)
        ctx.room = SimpleNamespace(check_scripts={"be": script}, backends={})
        self.check = Check(self.server, 0)

    def start(self) -> socket.socket:
        """Begin a check; the server's end of its connection."""
        self.check.run(self.ctx)
        self.turn()
        accepted, _ = self.listener.accept()
        accepted.settimeout(30)
        return accepted

    def close(self) -> None:
        self.listener.close()

    def turn(self, now: int | None = None) -> None:
        ctx = self.ctx
        if now is not None:
            ctx.now = now
        for fd, bits in ctx.epoll.poll(0):
            owner = ctx.fdtab[fd]
            owner.ready |= bits
            owner.tasklet.wake()
        ctx.timers.expire_due(ctx.now)
        run_some(ctx, ctx.normal, 100)

    def until_over(self) -> tuple[str, str]:
        def over() -> bool:
            self.turn()
            return not self.server.check.in_progress

        wait_until(over, "the end of the check")
        return self.result

    def settle(self) -> None:
        """Turns until the check has seen what was sent last."""
        for _ in range(20):
            for fd, bits in self.ctx.epoll.poll(0.01):
                owner = self.ctx.fdtab[fd]
                owner.ready |= bits
                owner.tasklet.wake()
            run_some(self.ctx, self.ctx.normal, 100)

    @property
    def result(self) -> tuple[str, str]:
        check = self.server.check
        return check.status.code, check.info


type Make = Callable[..., Bed]


@pytest.fixture
def make(ctx: ThreadContext, tmp_path: Path) -> Iterator[Make]:
    """`make(*lines, more=...)` gives a Bed."""
    with ExitStack() as stack:

        def made(*lines: str, more: str = "") -> Bed:
            bed = Bed(ctx, tmp_path, *lines, more=more)
            stack.callback(bed.close)
            return bed

        yield made


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("timeout connect 5s", INTER),
        ("timeout connect 300", INTER),
        ("timeout check 100", 100),
        ("timeout check 5s\n timeout connect 5s", 5000),
    ],
)
def test_the_time_for_an_answer(make: Make, more: str, expected: int) -> None:
    bed = make("option tcp-check", "tcp-check expect string x", more=more)
    with bed.start():
        bed.settle()
        bed.turn(BEGIN + expected - 1)
        assert bed.server.check.in_progress
        bed.turn(BEGIN + expected)
        assert bed.result == ("L7TOUT", " at step 1 of tcp-check (expect string 'x')")
        assert bed.server.check.duration == expected
        # the next check comes an interval after the end of this one
        assert bed.check.expire == BEGIN + expected + INTER


def test_a_match_may_come_in_pieces(make: Make) -> None:
    bed = make("option tcp-check", "tcp-check expect string abc")
    with bed.start() as server:
        for piece in (b"xa", b"b"):
            server.send(piece)
            bed.settle()
            assert bed.server.check.in_progress
        server.send(b"cd")
        assert bed.until_over() == ("L7OK", "(tcp-check)")


def test_min_recv_makes_a_mismatch_final(make: Make) -> None:
    bed = make("option tcp-check", "tcp-check expect string abc min-recv 5")
    with bed.start() as server:
        server.send(b"1234")
        bed.settle()
        assert bed.server.check.in_progress
        server.send(b"5")
        assert bed.until_over() == ("L7RSP", "TCPCHK did not match content 'abc' at step 1")


def test_a_negated_step_is_asked_again_with_each_piece(make: Make) -> None:
    """Until the positive step behind it has matched, a bad word may still come."""
    bed = make(
        "option tcp-check",
        "tcp-check expect ! string bad min-recv 1",
        "tcp-check expect string good",
    )
    with bed.start() as server:
        server.send(b"so ")
        bed.settle()
        server.send(b"bad, good")
        assert bed.until_over() == ("L7RSP", "TCPCHK matched unwanted content 'bad' at step 1")


def test_a_full_buffer_is_the_end(make: Make) -> None:
    bed = make("option tcp-check", "tcp-check expect string abc")
    with bed.start() as server:
        server.sendall(b"x" * 16384)
        assert bed.until_over() == ("L7RSP", "TCPCHK did not match content 'abc' at step 1")


def test_a_request_that_does_not_fit(make: Make) -> None:
    bed = make("option tcp-check", f"tcp-check send {'x' * 16384}")
    bed.check.run(bed.ctx)
    info = "tcp-check send : string too large (16384) for buffer size (16384) at step 1"
    assert bed.until_over() == ("L7RSP", info)


def test_an_answer_in_pieces(make: Make) -> None:
    bed = make("option httpchk", "http-check expect string hello")
    with bed.start() as server:
        bed.settle()
        assert server.recv(1000) == b"OPTIONS / HTTP/1.0\r\n\r\n"
        for piece in (b"HTTP/1.1 200 OK\r\nContent-", b"Length: 5\r\n\r\nhe", b"l"):
            server.send(piece)
            bed.settle()
            assert bed.server.check.in_progress
        server.send(b"lo")
        assert bed.until_over() == ("L7OK", "")
        assert bed.server.check.code == 200


def test_answers_that_were_there_before(make: Make) -> None:
    """What is remembered of an answer does not change with what comes of it later."""
    bed = make("option httpchk", "http-check expect string hello")
    answers = [(b"hello", "L7OK"), (b"heLLo", "L7RSP"), (b"hello", "L7OK"), (b"heLLo", "L7RSP")]
    for body, code in answers:
        with bed.start() as server:
            server.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + body)
            assert bed.until_over()[0] == code


@pytest.mark.parametrize(("words", "clean"), [("", False), (" linger", True)])
def test_how_a_connection_ends(make: Make, words: str, clean: bool) -> None:
    bed = make("option tcp-check", f"tcp-check connect{words}", "tcp-check send x")
    with bed.start() as server:
        assert bed.until_over() == ("L7OK", "(tcp-check)")
        if clean:
            assert server.recv(10) == b"x"
            assert server.recv(10) == b""
        else:
            with pytest.raises(ConnectionResetError):
                assert server.recv(10) == b"x" and server.recv(10)


def test_a_server_that_closed_is_closed(make: Make) -> None:
    bed = make("option tcp-check", "tcp-check send x", "tcp-check expect string y")
    with bed.start() as server:
        bed.settle()
        server.send(b"y")
        server.shutdown(socket.SHUT_WR)
        assert bed.until_over() == ("L7OK", "(tcp-check)")
        assert server.recv(10) == b"x"
        assert server.recv(10) == b""


def test_the_address_may_change(make: Make) -> None:
    bed = make("option tcp-check", "tcp-check connect", "tcp-check expect string a")
    other = socket.create_server(("127.0.0.1", 0))  # closed in the other's place
    with bed.start() as server:
        server.send(b"a")
        bed.until_over()
    bed.server.address = Address(AddressKind.IPV4, "127.0.0.1", other.getsockname()[1])
    bed.listener.close()
    bed.listener = other
    other.settimeout(30)
    with bed.start() as server:
        server.send(b"a")
        assert bed.until_over()[0] == "L7OK"


def test_a_fault_of_the_engine_does_not_end_the_checks(
    make: Make, ctx: ThreadContext, capsys: pytest.CaptureFixture[str]
) -> None:
    bed = make("option httpchk")
    ctx.room.check_scripts["be"].steps[-1].examine = lambda _run, _last: 1 // 0
    with bed.start() as server:
        server.send(b"HTTP/1.1 200 OK\r\n\r\n")
        assert bed.until_over() == ("INI", "")
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert ctx.activity.errors == 1
    assert bed.check.expire == BEGIN + INTER

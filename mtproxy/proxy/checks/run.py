"""One run of a scripted check: a coroutine that goes through the steps, one connection after the
other, on the thread that collected the check from the wait queue.

As in HAProxy: what came stays until the next send or connect, so that several `expect` look at the
same bytes; an `expect` that does not match waits for more unless `min-recv` says how much is
enough; each connect has `inter` to succeed and to finish the script in (with `timeout check`: the
smaller of `inter` and `timeout connect`, and from then on `timeout check`). A connection that the
server has closed is closed, any other reset, unless `linger` is asked for.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING, Any, Final, cast

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.net import connection as net
from mtproxy.net import socks4
from mtproxy.net.sockets import sockaddr
from mtproxy.net.source import open_socket
from mtproxy.proxy.checks.expect import WAIT, Expectation
from mtproxy.proxy.checks.http import Answer, Asked, told
from mtproxy.proxy.checks.outcome import (
    Outcome,
    local_failure,
    number_of,
    place_of,
    text_of,
)
from mtproxy.proxy.checks.script import Acting, Connection, Requesting, Sending
from mtproxy.proxy.checks.state import state_text
from mtproxy.proxy.checks.view import CheckView
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.sourcing import note_trouble
from mtproxy.sched.tasklet import Task, park

if TYPE_CHECKING:
    from mtproxy.base.checkscript import Step
    from mtproxy.proxy.check import Check
    from mtproxy.proxy.checks.http import RequestMaker
    from mtproxy.proxy.checks.script import Running, Script
    from mtproxy.rules.view import View
    from mtproxy.sched.context import ThreadContext

#: a connection that is not there yet
UNDER_WAY: Final = (errno.EALREADY, errno.EINPROGRESS, errno.EAGAIN)
_PATHS: Final = (AddressKind.UNIX, AddressKind.ABNS)


class _Ended(Exception):  # no error: the check has its outcome
    """The check is over before its last step."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class Run:
    """The state of one run. Owner thread only.

    What `expect` steps look at: `data` (all bytes since the last send), `answer` (HTTP), `code`
    (what the application answered), `may_stop` (a 404 is taken as "no new sessions").
    """

    __slots__ = (
        "_asked",
        "_connection",
        "_ended",
        "_error",
        "_linger",
        "_size",
        "_step",
        "_view",
        "answer",
        "check",
        "code",
        "ctx",
        "data",
        "found",
        "may_stop",
        "script",
        "server",
        "task",
    )

    #: set by whoever starts the coroutine
    task: Task

    def __init__(self, check: Check, script: Script, ctx: ThreadContext) -> None:
        self.check = check
        self.script = script
        self.ctx = ctx
        self.server = check.server
        self._connection: net.Connection | None = None
        self._linger = False
        #: the server has said all it had to say; the errno of its connection
        self._ended = False
        self._error = 0
        #: bytes that came since the last send
        self._size = 0
        self._step: Running = script.steps[0]
        self._view: CheckView | None = None
        #: whose request an answer of HTTP is waited for
        self._asked: RequestMaker | None = None
        self.data = b""
        self.answer: Answer | None = None
        self.code = 0
        #: what a protocol's own function told of the server
        self.found = b""
        self.may_stop = script.disable_on_404 and self.server.running

    def seen(self) -> View:
        """The run as expressions see it."""
        if self._view is None:
            self._view = CheckView(self.ctx, self.server)
        view = self._view
        answer = self.answer
        if answer is not None:
            if answer.started and view.answer is not answer:
                view.answered(answer)
        else:
            view.received(self.data)
        return cast("View", view)

    async def outcome(self) -> Outcome:
        """Run the script. Leaves no connection behind."""
        try:
            return await self._all()
        except _Ended as ended:
            return ended.outcome
        finally:
            self._drop()

    async def _all(self) -> Outcome:
        steps = self.script.steps
        position, must_read = 0, True
        acted: Running = steps[0]
        while position < len(steps):
            step = steps[position]
            self.code = 0
            kind = type(step)
            if kind is Expectation:
                assert isinstance(step, Expectation)
                acted = self._step = step
                if must_read:
                    await self._receive(step)
                    must_read = False
                verdict = step.examine(self, self._ended or self._error != 0 or self._full())
                if verdict is WAIT:
                    position, must_read = self.script.heads[position], True
                    continue
                if isinstance(verdict, Outcome):
                    return verdict
            elif kind is Acting:
                assert isinstance(step, Acting)
                step.act(self.seen())
            else:
                acted = self._step = step
                must_read = True
                if kind is Requesting:
                    assert isinstance(step, Requesting)
                    await self._request(step)
                elif kind is Sending:
                    assert isinstance(step, Sending)
                    await self._send_step(step)
                else:
                    assert isinstance(step, Connection)
                    await self._connect(step)
            position += 1
        return self._passed(acted)

    def _passed(self, last: Running) -> Outcome:
        """Every step was as it should be."""
        if isinstance(last, Expectation):
            if self.may_stop and self.code == 404 and self.answer is not None:
                return Outcome(CheckStatus.L7OKC, "", self.code)
            if self.found:
                return Outcome(last.ok_status, text_of(self.found), self.code)
            return last.success(self)
        if isinstance(last, Connection):
            return Outcome(CheckStatus.L4OK, "" if last.step.implicit else "(tcp-check)")
        return Outcome(CheckStatus.L7OK, "(tcp-check)")

    # --- failures

    def _place(self) -> bytes:
        return place_of(self._step.step) if self.script.tcp else b""

    def _broken(self, number: int, status: CheckStatus = CheckStatus.SOCKERR) -> _Ended:
        """The connection has failed."""
        return _Ended(Outcome(status, text_of(os.strerror(number).encode() + self._place())))

    def _late(self, status: CheckStatus) -> _Ended:
        return _Ended(Outcome(status, text_of(self._place())))

    # --- connect

    async def _connect(self, step: Connection) -> None:
        self._drop()
        self._forget()
        self._linger = step.step.linger
        check, ctx, task = self.check, self.ctx, self.task
        settings = check.settings
        address, port = self._destination(step)
        proxy = self._socks4(step)
        family, where = sockaddr(proxy or address, proxy.port if proxy else port)
        try:
            connection = self._open(family, where, quiet=step.quiet and proxy is None)
        except OSError as refused:
            note_trouble(self.server.backend, ctx, refused, family)
            place = self._place().decode("utf-8", "surrogateescape")
            raise _Ended(local_failure(refused, family, place)) from None
        task.set_expire(ctx.now + check.connect_timeout)
        # on this machine a connection is there as soon as it was asked for: that saves a turn
        error = connection.sock.connect_ex(where)
        if error == errno.EISCONN:
            error = 0
        elif error in UNDER_WAY:
            while (error := connection.connect_error()) == errno.EINPROGRESS:
                if ctx.now >= task.expire:
                    raise self._late(CheckStatus.L4TOUT)
                await park()
        if error:
            raise self._broken(error, CheckStatus.L4CON)
        if proxy is not None:
            await self._ask_proxy(connection, address, port)
        if step.step.send_proxy or (step.step.default and settings.send_proxy is not None):
            try:
                check.greet(connection.sock, forced=step.step.send_proxy)
            except OSError as failed:
                raise self._broken(failed.errno or errno.EIO) from None
        if check.check_timeout is not None:
            task.set_expire(ctx.now + check.check_timeout)

    def _destination(self, step: Connection) -> tuple[Address, int]:
        """The step's own address and port before the check's, and those before the server's."""
        written = step.step
        address = written.address or self.server.check_address or self.server.address
        port = written.port
        if not port and step.port_of is not None:
            port = step.port_of(self.seen()) or 0
        if not port and written.address is not None:
            port = written.address.port
        if not port:
            port = self.server.check_port
        if not port and self.server.check_address is not None:
            port = self.server.check_address.port
        return address, port or self.server.address.port

    def _socks4(self, step: Connection) -> Address | None:
        """The proxy that this connection goes through; None: it goes straight."""
        written = step.step
        if written.via_socks4 or (written.default and self.check.settings.via_socks4):
            return self.server.settings.socks4
        return None

    def _open(self, family: int, where: Any, *, quiet: bool) -> net.Connection:
        """Begin to connect. Raises OSError where the kernel refuses at once."""
        ctx, source = self.ctx, self.check.source
        try:
            sock = open_socket(source, family)
        except OSError as e:
            # for want of a descriptor no server is called dead: idle connections give theirs
            if e.errno not in (errno.EMFILE, errno.ENFILE) or not ctx.shed(ctx):
                raise
            sock = open_socket(source, family)
        try:
            if family != socket.AF_UNIX:
                if self.script.talks:
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if quiet:
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            if source is not None:
                source.bind(sock)
            error = sock.connect_ex(where)
            if error and error != errno.EINPROGRESS:
                raise OSError(error, os.strerror(error))
            self._connection = connection = net.Connection(ctx, sock, self.task, ready=0)
        except OSError:
            sock.close()
            raise
        return connection

    async def _ask_proxy(self, connection: net.Connection, address: Address, port: int) -> None:
        """SOCKS4: have the proxy connect, and wait until it has."""
        request = None if address.kind in _PATHS else socks4.request(address.host, port)
        if request is None:
            raise self._refused(socks4.WRITE_ERROR)
        try:
            connection.send(request)
        except OSError:
            raise self._refused(socks4.WRITE_ERROR) from None
        reply = b""
        while len(reply) < socks4.REPLY_SIZE:
            try:
                more = connection.recv(socks4.REPLY_SIZE - len(reply))
            except BlockingIOError:
                connection.ready &= ~net.IN
                await self._wait(net.READABLE, CheckStatus.L7TOUT)
                continue
            except OSError:
                raise self._refused(socks4.READ_ERROR) from None
            if not more:
                raise self._refused(socks4.READ_ERROR)
            reply += more
        if not socks4.granted(reply):
            raise self._refused(socks4.DENIED)

    def _refused(self, text: str) -> _Ended:
        return _Ended(Outcome(CheckStatus.SOCKERR, text_of(text.encode() + self._place())))

    async def _wait(self, ready: int, status: CheckStatus) -> None:
        """Until the connection is ready, or the time is over."""
        connection, task, ctx = self._connection, self.task, self.ctx
        assert connection is not None
        while not connection.ready & ready:
            if ctx.now >= task.expire:
                raise self._late(status)
            await park()

    # --- send

    async def _send_step(self, step: Sending) -> None:
        self._forget()
        data = step.fixed
        if data is None:
            data = step.make(self.seen())
            if data is None:
                text = "tcp-check send : failed to build log-format string at step"
                raise _Ended(Outcome(CheckStatus.L7RSP, f"{text} {number_of(step.step)}"))
        await self._send(data, step.step)

    async def _request(self, step: Requesting) -> None:
        maker = step.maker
        data = maker.fixed
        if data is None:
            state = b""
            if self.script.send_state:
                state = state_text(self.server, self.script.node)
            data = maker.make(self.seen(), state)
        if self._view is not None:
            self._view.forget()
        self._forget()
        self._asked = maker
        await self._send(data, step.step)
        self.answer = Answer(maker.asked)

    async def _send(self, data: bytes, step: Step) -> None:
        limit = self.script.limit
        if len(data) >= limit:
            text = (
                f"tcp-check send : string too large ({len(data)}) for buffer size ({limit})"
                f" at step {number_of(step)}"
            )
            raise _Ended(Outcome(CheckStatus.L7RSP, text))
        connection = self._connection
        assert connection is not None
        while data:
            try:
                sent = connection.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                raise self._broken(error.errno or errno.EIO) from None
            data = data[sent:]
            if data:
                connection.ready &= ~net.OUT
                await self._wait(net.OUT | net.ERR | net.HUP, CheckStatus.L7TOUT)

    # --- receive

    def _full(self) -> bool:
        return self.answer is None and len(self.data) >= self.script.limit

    async def _receive(self, step: Expectation) -> None:
        """Until there is something new to look at: bytes, or that there will be no more."""
        while not self._read():
            connection, task = self._connection, self.task
            assert connection is not None
            if self.ctx.now >= task.expire:
                raise self._late(step.timeout_status)
            await park()
        if self._size:
            return
        if self._error:
            raise self._broken(self._error)
        if self._ended and self.answer is None:
            text = f"TCPCHK got an empty response at step {number_of(step.step)}"
            if step.step.comment:
                text += f" comment: '{step.step.comment}'"
            raise _Ended(Outcome(step.error_status or CheckStatus.L7RSP, text_of(text.encode())))

    def _read(self) -> bool:
        """Take what is there. Whether there is anything to look at."""
        if self.script.http and self.answer is None:
            # `expect` without a request: as HAProxy, wait for an answer to nothing
            self.answer = Answer(Asked(told(b"GET", ()), self.script.limit))
        connection, answer = self._connection, self.answer
        assert connection is not None
        if self._ended or self._error or (answer is not None and answer.complete):
            return True
        news = False
        while connection.ready & net.READABLE:
            room = self.script.limit if answer is not None else self.script.limit - len(self.data)
            if room <= 0:
                return True
            try:
                data = connection.recv(room)
            except BlockingIOError:
                connection.ready &= ~net.READABLE
                break
            except OSError as error:
                self._error = error.errno or errno.EIO
                if answer is not None and self._size:
                    answer.end()
                return True
            news = True
            if not data:
                self._ended = True
                if answer is not None:
                    answer.end()
                return True
            self._size += len(data)
            if answer is None:
                self.data += data
            else:
                self.answer = answer = self._answer(answer, data)
                if answer.complete or answer.failed:
                    break
            if len(data) < room and not connection.ready & net.ENDED:
                connection.ready &= ~net.IN
                break
        return news

    def _answer(self, answer: Answer, data: bytes) -> Answer:
        """The answer after `data`."""
        asked = self._asked
        if asked is None or self._size != len(data):
            answer.feed(data)
            return answer
        known = asked.known.get(data)
        if known is not None:
            return known
        answer.feed(data)
        if answer.complete:
            asked.keep(data, answer)
        return answer

    # --- the connection

    def _forget(self) -> None:
        """What came does not count any more."""
        self.data = b""
        self.answer = None
        self._size = 0

    def _drop(self) -> None:
        """Be done with the connection."""
        connection = self._connection
        if connection is None:
            return
        self._connection = None
        if self._linger or self._ended or _at_end(connection):
            connection.close()
        else:
            connection.reset()
        self._ended = False
        self._error = 0


def _at_end(connection: net.Connection) -> bool:
    """Whether the server has closed its side; what it sent is thrown away."""
    if not connection.ready & net.READABLE:
        return False
    try:
        while connection.recv(65536):
            pass
    except OSError:
        return False
    return True

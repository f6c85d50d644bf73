"""HTTP in health checks: the bytes of a request, and h11 that reads the answer.

h11 writes HTTP/1.1 alone, so requests are made here; it is told of each, because the answer depends
on its method. A connection carries one request. An interim answer (1xx but 101) is passed over, as
RFC 9110 asks; HAProxy 2.6 takes it for the answer. Pure; an Answer belongs to the check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import h11

from mtproxy.base.checkscript import HttpSendStep
from mtproxy.base.ruleset import Format

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.view import View

#: methods whose requests say nothing of a body that they have not
_BODILESS: Final = frozenset({b"OPTIONS", b"GET", b"HEAD", b"DELETE"})
_NO_BODY: Final = h11.EndOfMessage()
_START: Final = b"HTTP/1."
#: answers that a step remembers, and how long they may be
KNOWN_MOST: Final = 64
KNOWN_BYTES: Final = 2048


class Asked:
    """A request as h11 knows it: what its answer is read with.

    Making an h11 connection and telling it the request takes as long as reading an answer. It is
    always the same, so it is done once; each answer gets a copy of the connection. A copy shares
    what h11 never changes in place; a test feeds copies side by side.
    """

    __slots__ = ("_buffer", "_connection", "_limit", "_state", "whole")

    def __init__(self, request: h11.Request, limit: int, *, whole: bool = True) -> None:
        """`limit`: bytes of a head, and of a body that is kept. Not `whole`: a head is all."""
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=limit)
        connection.send(request)
        connection.send(_NO_BODY)
        self._connection = dict(vars(connection))
        self._state = dict(vars(connection._cstate))
        self._buffer = type(connection._receive_buffer)
        self._limit = limit
        self.whole = whole

    @property
    def limit(self) -> int:
        return self._limit

    def connection(self) -> h11.Connection:
        """One that waits for the answer."""
        old = self._connection
        connection = object.__new__(h11.Connection)
        state = object.__new__(type(old["_cstate"]))
        vars(state).update(self._state)
        state.states = dict(self._state["states"])
        state.pending_switch_proposals = set(self._state["pending_switch_proposals"])
        vars(connection).update(old)
        connection._cstate = state
        connection._receive_buffer = self._buffer()
        return connection


class Answer:
    """One answer while it comes in. `started`: there is a head; `complete`: nothing more comes, or
    is looked at; `failed`: this is no HTTP.
    """

    __slots__ = (
        "_asked",
        "_connection",
        "_seen",
        "body",
        "complete",
        "failed",
        "headers",
        "reason",
        "started",
        "status",
        "version",
    )

    def __init__(self, asked: Asked) -> None:
        #: made when it is needed: most answers are known (RequestMaker.known)
        self._connection: h11.Connection | None = None
        self._asked = asked
        self._seen = b""
        self.body = bytearray()
        self.started = False
        self.complete = False
        self.failed = False
        self.status = 0
        self.reason = b""
        self.version = b""
        self.headers: Iterable[tuple[bytes, bytes]] = ()

    def feed(self, data: bytes) -> None:
        """More bytes."""
        if not self.started and len(self._seen) < len(_START):
            # what cannot become an answer is not waited for
            self._seen = seen = self._seen + data[: len(_START)]
            if not _START.startswith(seen[: len(_START)]):
                self.failed = True
                return
        self._take(data)

    def end(self) -> None:
        """The server has said all. A body that is cut short is as good as its head."""
        if self.complete or self.failed:
            return
        self._take(b"")
        if self.started:
            self.failed = False
            self.complete = True
        elif not self.complete:
            self.failed = True

    def _take(self, data: bytes) -> None:
        connection = self._connection
        if connection is None:
            self._connection = connection = self._asked.connection()
        try:
            connection.receive_data(data)
            while True:
                event = connection.next_event()
                if type(event) is h11.Response:
                    self._begin(event)
                    if not self._asked.whole:
                        self.complete = True
                        return
                elif type(event) is h11.Data:
                    self.body += event.data
                    if len(self.body) >= self._asked.limit:
                        del self.body[self._asked.limit :]
                        self.complete = True
                        return
                elif type(event) is h11.InformationalResponse:
                    if event.status_code == 101:
                        # the answer to an upgrade: what follows is no HTTP
                        self._begin(event)
                        self.complete = True
                        return
                elif type(event) is h11.EndOfMessage:
                    self.complete = True
                    return
                else:
                    return  # NEED_DATA, PAUSED, ConnectionClosed
        except h11.RemoteProtocolError:
            self.failed = True

    def _begin(self, event: h11.Response | h11.InformationalResponse) -> None:
        self.started = True
        self.status = event.status_code
        self.reason = bytes(event.reason)
        self.version = bytes(event.http_version)
        self.headers = event.headers


def told(method: bytes, headers: Iterable[tuple[bytes, bytes]]) -> h11.Request:
    """The request as far as its answer depends on it."""
    kept = [(name, value) for name, value in headers if name in (b"connection", b"upgrade")]
    return h11.Request(method=method, target=b"/", headers=[(b"host", b"-"), *kept])


def _version(text: bytes) -> tuple[bytes, bool]:
    """As it is sent, and whether it is 1.1 or more."""
    if not text:
        return b"HTTP/1.0", False
    recent = len(text) == 8 and (text[5:6] > b"1" or (text[5:6] == b"1" and text[7:] >= b"1"))
    return (b"HTTP/1.1", True) if recent else (text, False)


type State = Callable[[], bytes]


class RequestMaker:
    """Makes one step's requests. `fixed`: all are these bytes; `asked`: what h11 knows of them.

    `known`: whole answers by their bytes. Servers of a backend mostly say the same, at least within
    a second, so h11 reads few of them. Whoever looks one up must not change it.
    """

    __slots__ = (
        "_body",
        "_headers",
        "_method",
        "_state",
        "_uri",
        "_version",
        "asked",
        "fixed",
        "known",
    )

    def __init__(
        self, step: HttpSendStep, build: Build, limit: int, *, send_state: bool, whole: bool
    ) -> None:
        """`limit`, `whole`: see Asked."""
        self._method = step.method or b"OPTIONS"
        self._version = _version(step.version)
        self._uri = _maker(step.uri or b"/", build)
        self._body = _maker(step.body, build)
        self._headers = [(name, _maker(value, build)) for name, value in step.headers]
        self._state = send_state
        parts = [self._uri, self._body, *[value for _, value in self._headers]]
        self.fixed: bytes | None = None
        self.known: dict[bytes, Answer] = {}
        # what a format makes is not known here; that it asks for an upgrade is
        values = [
            (name, value if isinstance(value, bytes) else b"upgrade")
            for name, value in self._headers
        ]
        self.asked = Asked(told(self._method, values), limit, whole=whole)
        if not send_state and all(isinstance(part, bytes) for part in parts):
            self.fixed = self.make(None, b"")

    def keep(self, data: bytes, answer: Answer) -> None:
        """Remember a complete answer that came as `data`."""
        answer._connection = None  # it has done its work, and is much to keep
        if len(data) <= KNOWN_BYTES:
            if len(self.known) >= KNOWN_MOST:
                self.known.clear()
            self.known[data] = answer

    def make(self, view: View | None, state: bytes) -> bytes:
        """The request; `state` is how the server is seen here, where that is told."""
        version, recent = self._version
        uri = _text(self._uri, view) or b"/"
        lines = [b"%b %b %b" % (self._method, uri, version)]
        close = recent
        for name, maker in self._headers:
            value = _text(maker, view)
            if value:
                lines.append(b"%b: %b" % (name, value))
                if name == b"connection":
                    close = False
        if self._state:
            lines.append(b"x-haproxy-server-state: " + state)
        body = _text(self._body, view)
        if body or self._method not in _BODILESS:
            lines.append(b"content-length: %d" % len(body))
        if close:
            lines.append(b"connection: close")
        return b"\r\n".join([*lines, b"", body])


type _Maker = bytes | Callable[[View], bytes]


def _maker(value: bytes | Format, build: Build) -> _Maker:
    if isinstance(value, bytes):
        return value
    return build.format(value) if value.constant is None else value.constant


def _text(maker: _Maker, view: View | None) -> bytes:
    if isinstance(maker, bytes):
        return maker
    assert view is not None
    return maker(view)

"""Replies that are made here rather than by a server. Built once per thread, for its streams.

`ErrorReply` is what the proxies have for a status: the backend's own (`errorfile`, `http-error`,
...), else the frontend's, else the built-in one. `build_reply` makes a `Reply` of what
`rules.replyspec` read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mtproxy.base.ruleset import ReplyKind, ReplySpec, StoredMessage
from mtproxy.http import replies
from mtproxy.http.edit import fits_a_line, size
from mtproxy.http.headers import CONNECTION_CLOSE, Header, connection_flags, make_header
from mtproxy.http.status import reason_phrase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtproxy.rules.build import Build
    from mtproxy.rules.view import View

#: what a buffer spends on itself, on a start line without its words, on the ends of head and body
_OVERHEAD = 40 + 28 + 8 + 9 + 8


class Message:
    """A whole response: status, reason, all header fields but Connection, and the body.

    `headers` is a list that nobody else has: rules for responses change it. Its Content-Length is
    that of `body`; the stream leaves the body out where the request was HEAD. `logged` is the
    status that logs tell, which need not be that of an error file. `close`: the connection ends
    with it. `silent`: nothing is sent, the connection just ends. `version` is 10 or 11. `pieces`:
    the body is made while it is sent, in pieces that each cost little time (an empty one just lets
    others go on); `headers` then tell no length.
    """

    __slots__ = (
        "body",
        "close",
        "headers",
        "logged",
        "pieces",
        "reason",
        "silent",
        "status",
        "version",
    )

    def __init__(self, status: int, reason: bytes, headers: list[Header], body: bytes) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.body = body
        self.logged = status
        self.close = False
        self.silent = False
        self.version = 11
        self.pieces: Iterator[bytes] | None = None


class Reply:
    """Makes the response for one stream.

    `blames`: it tells the client of an error of its own although no rule has denied the request
    (`auth`), which stick tables count.
    """

    __slots__ = ()
    blames = False

    def message(self, view: View) -> Message | None:
        """The response to send; None where it cannot be made (the stream sends 500 then)."""
        raise NotImplementedError


class BuiltIn(Reply):
    """The built-in reply of a status."""

    __slots__ = ("status",)

    def __init__(self, status: int) -> None:
        self.status = status

    def message(self, _view: View) -> Message:
        return built_in(self.status)


def built_in(status: int) -> Message:
    """The built-in reply of a status. Raises KeyError for one that has none."""
    message = Message(
        status, replies.reason(status), list(replies.HEADERS[status]), replies.BODIES[status]
    )
    # the texts of these two announce the end of the connection
    message.close = status in (400, 408)
    return message


class ErrorReply(Reply):
    """What the stream's proxies have for a status that has a built-in reply."""

    __slots__ = ("status",)

    def __init__(self, status: int) -> None:
        self.status = status

    def message(self, view: View) -> Message | None:
        for owner in (view.be, view.fe):
            if owner is not None:
                reply: Reply | None = owner.errors.get(self.status)
                if reply is not None:
                    return reply.message(view)
        return built_in(self.status)


class StoredReply(Reply):
    """A message that was read at load."""

    __slots__ = ("headers", "logged", "stored")

    def __init__(self, stored: StoredMessage, logged: int) -> None:
        self.stored = stored
        self.logged = logged
        self.headers = [make_header(name, value) for name, value in stored.headers]

    def message(self, _view: View) -> Message:
        stored = self.stored
        message = Message(stored.status, stored.reason, self.headers.copy(), stored.body)
        message.logged = self.logged
        message.close = stored.close
        message.silent = stored.silent
        message.version = stored.version
        return message


def is_silent(reply: Reply) -> bool:
    """Whether it is an empty error file: the connection just ends."""
    return isinstance(reply, StoredReply) and reply.stored.silent


class PlainReply(Reply):
    """Status, header fields and a body, some of which depend on the stream."""

    __slots__ = ("body_of", "content_type", "fields", "reason", "room", "status", "values")

    def __init__(self, spec: ReplySpec, build: Build, bufsize: int) -> None:
        self.status = spec.status
        self.reason = reason_phrase(spec.status)
        self.room = bufsize - _OVERHEAD
        self.values = [(name, build.format(fmt)) for name, fmt in spec.headers]
        self.content_type: Header | None = None
        if spec.content_type is not None:
            self.content_type = make_header(b"content-type", spec.content_type)
        self.body_of: Callable[[View], bytes]
        if spec.format is not None:
            self.body_of = build.format(spec.format)
        else:
            body = spec.body
            self.body_of = lambda _view: body

    def message(self, view: View) -> Message | None:
        body = self.body_of(view)
        headers: list[Header] = []
        close = False
        for name, value_of in self.values:
            value = value_of(view)
            if not value:
                continue
            if not fits_a_line(value):
                return None
            if name == b"connection" and connection_flags(value) & CONNECTION_CLOSE:
                close = True
            headers.append(make_header(name, value))
        status = self.status
        if status != 204:
            headers.append(make_header(b"content-length", b"%d" % len(body)))
        if body and self.content_type is not None:
            headers.append(self.content_type)
        if size(headers) + len(self.reason) + len(body) > self.room:
            return None
        message = Message(status, self.reason, headers, body)
        message.close = close
        return message


def build_reply(spec: ReplySpec, build: Build) -> Reply:
    """This thread's reply."""
    settings = build.shared.settings
    if spec.kind is ReplyKind.DEFAULT:
        return ErrorReply(spec.status)
    stored = spec.stored
    if spec.kind is ReplyKind.SECTION:
        stored = settings.http_errors[spec.section].get(spec.status)
    if stored is not None:
        return StoredReply(stored, spec.status)
    return PlainReply(spec, build, int(settings.global_.tune.get("tune.bufsize", 16384)))


def build_errors(specs: Mapping[int, ReplySpec], build: Build) -> dict[int, Reply]:
    """This thread's replies in place of the built-in ones of a proxy, by status."""
    return {status: build_reply(spec, build) for status, spec in specs.items()}

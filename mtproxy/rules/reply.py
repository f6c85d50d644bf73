"""Replies that are made here rather than by a server. Built once per thread, for its streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.http import replies
from mtproxy.http.headers import Header

if TYPE_CHECKING:
    from mtproxy.rules.view import View


class Message:
    """A whole response: status, reason, all header fields but Connection, and the body.

    `headers` is a list that nobody else has: rules for responses change it. Its Content-Length is
    that of `body`; the stream leaves the body out where the request was HEAD.
    """

    __slots__ = ("body", "headers", "reason", "status")

    def __init__(self, status: int, reason: bytes, headers: list[Header], body: bytes) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.body = body


class Reply:
    """Makes the response for one stream."""

    __slots__ = ()

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
    return Message(
        status, replies.reason(status), list(replies.HEADERS[status]), replies.BODIES[status]
    )

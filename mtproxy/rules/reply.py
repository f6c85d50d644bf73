"""Replies that are made here rather than by a server. Built once per thread, for its streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.http.headers import Header

if TYPE_CHECKING:
    from mtproxy.rules.view import View


class Message:
    """A whole response: status, reason, header lines without Content-Length, and the body.

    `raw`: bytes to be sent as they are (an `errorfile`), parsed into the other fields all the same.
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

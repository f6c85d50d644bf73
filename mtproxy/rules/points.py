"""Where expressions are evaluated, and what is known there (manual 7.3, 8.2.6).

A `Fetch` says what it `needs`; a place (`Point`) says what it `has`: a fetch whose needs are not
met there is refused when the configuration is read, with the words of `missing`. Constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import Final


class Need(IntFlag):
    """What a fetch reads. Used at load only."""

    NOTHING = 0
    #: the client's connection: addresses, ports, listener (layer 4) and its session (layer 5)
    CLIENT = 1
    #: bytes of the request or of the response, before HTTP is understood
    REQ_BYTES = 2
    RES_BYTES = 4
    #: the request's head (volatile: not any more when the response is there), its body
    REQ_HEAD = 8
    REQ_BODY = 16
    #: the response's head and body
    RES_HEAD = 32
    RES_BODY = 64
    #: what is kept of a request until its end: captures, method, URI, status
    TXN = 128
    #: the server and its connection
    SERVER = 256
    #: only known at the end: sizes, timers
    FINAL = 512


_WORDS: Final = {
    Need.CLIENT: "client address",
    Need.REQ_BYTES: "request buffer",
    Need.RES_BYTES: "response buffer",
    Need.REQ_HEAD: "HTTP request headers",
    Need.REQ_BODY: "HTTP request body",
    Need.RES_HEAD: "HTTP response headers",
    Need.RES_BODY: "HTTP response body",
    Need.TXN: "HTTP transaction",
    Need.SERVER: "server connection",
    Need.FINAL: "session statistics",
}


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a stream's life; `name` is the rule set or the keyword."""

    name: str
    has: Need

    def missing(self, needs: Need) -> str | None:
        """What a fetch with these needs cannot have here, in words; None if it has all.

        Needs joined by `|` are alternatives: a fetch that reads either head needs one of them.
        """
        if not needs or needs & self.has:
            return None
        return next(words for need, words in _WORDS.items() if need & needs)


_CLIENT = Need.CLIENT
_REQUEST = _CLIENT | Need.REQ_BYTES | Need.REQ_HEAD | Need.REQ_BODY | Need.TXN
_RESPONSE = _CLIENT | Need.RES_BYTES | Need.RES_HEAD | Need.RES_BODY | Need.TXN | Need.SERVER

TCP_CONNECTION: Final = Point("tcp-request connection", _CLIENT)
TCP_SESSION: Final = Point("tcp-request session", _CLIENT)
TCP_CONTENT: Final = Point("tcp-request content", _REQUEST)
TCP_RESPONSE: Final = Point("tcp-response content", _RESPONSE)
HTTP_REQUEST: Final = Point("http-request", _REQUEST)
HTTP_RESPONSE: Final = Point("http-response", _RESPONSE)
HTTP_AFTER_RESPONSE: Final = Point("http-after-response", _RESPONSE)
USE_BACKEND: Final = Point("use_backend", _REQUEST)
USE_SERVER: Final = Point("use-server", _REQUEST)
STICK_REQUEST: Final = Point("stick", _REQUEST)
STICK_RESPONSE: Final = Point("stick store-response", _RESPONSE)
LOG: Final = Point("log-format", _CLIENT | Need.TXN | Need.SERVER | Need.FINAL)
UNIQUE_ID: Final = Point("unique-id-format", _REQUEST)
HTTP_ERROR: Final = Point("http-error", _CLIENT | Need.TXN | Need.REQ_HEAD)
CHECK: Final = Point("http-check", Need.NOTHING)
#: outside of any stream: global `set-var`, the runtime socket
GLOBAL: Final = Point("global", Need.NOTHING)

#: rule sets that a proxy may have, by name
RULE_SETS: Final[dict[str, Point]] = {
    point.name: point
    for point in (
        TCP_CONNECTION,
        TCP_SESSION,
        TCP_CONTENT,
        TCP_RESPONSE,
        HTTP_REQUEST,
        HTTP_RESPONSE,
        HTTP_AFTER_RESPONSE,
    )
}

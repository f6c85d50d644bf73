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
    #: the client's connection: addresses, ports
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
    #: what is kept of a request until its end: captures, method, URI
    TXN = 128
    #: the server and its connection
    SERVER = 256
    #: only known at the end: sizes, timers
    FINAL = 512
    #: a running process: queues, numbers of sessions
    RUNNING = 1024
    #: the session that was made of a connection: TLS
    SESSION = 2048
    #: the frontend that accepted, and its listener
    FRONT = 4096
    #: the backend that was chosen
    BACK = 8192
    #: what is kept of a response until its end: captures, status
    RES_TXN = 16384


_WORDS: Final = {
    Need.RUNNING: "internal state",
    Need.FRONT: "frontend",
    Need.CLIENT: "client address",
    Need.SESSION: "client-side connection",
    Need.REQ_BYTES: "request buffer",
    Need.REQ_HEAD: "HTTP request headers",
    Need.TXN: "HTTP request",
    Need.REQ_BODY: "HTTP request body",
    Need.BACK: "backend",
    Need.SERVER: "server",
    Need.RES_BYTES: "response buffer",
    Need.RES_HEAD: "HTTP response headers",
    Need.RES_TXN: "HTTP response",
    Need.RES_BODY: "HTTP response body",
    Need.FINAL: "session statistics",
}


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a stream's life; `name` is the rule set or the keyword.

    `has` is what there is in a frontend, `back` in a backend (None: the same). `title` is how
    HAProxy calls the place in its messages.
    """

    name: str
    has: Need
    back: Need | None = None
    title: str = ""

    def missing(self, needs: Need, kind: str = "listen") -> str | None:
        """What a fetch with these needs cannot have here, in words; None if it has all.

        Needs joined by `|` are alternatives: a fetch that reads either head needs one of them.
        `kind` is that of the section; what is neither frontend nor backend alone has both.
        """
        has = self.has if self.back is None or kind == "frontend" else self.back
        if kind not in ("frontend", "backend"):
            has |= self.has
        if not needs or needs & has:
            return None
        return next(words for need, words in _WORDS.items() if need & needs)

    def described(self, kind: str) -> str:
        """The place in words: "frontend http-response header rule"."""
        side = "backend" if kind == "backend" else "frontend"
        return f"{side} {self.title or self.name + ' rule'}"


_CONNECTION = Need.RUNNING | Need.CLIENT | Need.FRONT
_SESSION = _CONNECTION | Need.SESSION
_REQUEST = _SESSION | Need.REQ_BYTES | Need.REQ_HEAD | Need.REQ_BODY | Need.TXN
_IN_BACKEND = _REQUEST | Need.BACK
_RESPONSE = (
    _SESSION
    | Need.TXN
    | Need.BACK
    | Need.SERVER
    | Need.RES_BYTES
    | Need.RES_HEAD
    | Need.RES_BODY
    | Need.RES_TXN
)

TCP_CONNECTION: Final = Point("tcp-request connection", _CONNECTION)
TCP_SESSION: Final = Point("tcp-request session", _SESSION)
TCP_CONTENT: Final = Point("tcp-request content", _REQUEST, _IN_BACKEND)
TCP_RESPONSE: Final = Point("tcp-response content", _RESPONSE)
HTTP_REQUEST: Final = Point("http-request", _REQUEST, _IN_BACKEND, "http-request header rule")
HTTP_RESPONSE: Final = Point("http-response", _RESPONSE, None, "http-response header rule")
HTTP_AFTER_RESPONSE: Final = Point(
    "http-after-response", _RESPONSE, None, "http-response header rule"
)
USE_BACKEND: Final = Point("use_backend", _REQUEST, _IN_BACKEND, "use-backend rule")
USE_SERVER: Final = Point(
    "use-server", _REQUEST, _IN_BACKEND, "use-server, balance or stick-match rule"
)
STICK_REQUEST: Final = Point(
    "stick", _REQUEST, _IN_BACKEND, "use-server, balance or stick-match rule"
)
STICK_RESPONSE: Final = Point("stick store-response", _RESPONSE, None, "stick-store rule")
LOG: Final = Point(
    "log-format",
    _SESSION | Need.TXN | Need.BACK | Need.SERVER | Need.RES_TXN | Need.FINAL,
    None,
    "logs",
)
UNIQUE_ID: Final = Point("unique-id-format", _REQUEST)
#: used for both directions: what a reply may read is only known when it is made
HTTP_ERROR: Final = Point("http-error", _REQUEST | _RESPONSE)
CHECK: Final = Point(
    "http-check",
    Need.RUNNING
    | Need.CLIENT
    | Need.BACK
    | Need.SERVER
    | Need.RES_BYTES
    | Need.RES_HEAD
    | Need.RES_BODY
    | Need.RES_TXN,
)
#: global `set-var`: nothing runs yet
GLOBAL: Final = Point("global", Need.NOTHING)
#: the runtime socket, outside of any stream
RUNTIME: Final = Point("cli", Need.RUNNING)
#: `monitor fail`, which HAProxy does not check
MONITOR: Final = Point("monitor fail", _REQUEST | _RESPONSE)

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

"""The built-in replies, byte for byte as a HAProxy client sees them (HAProxy manual, `errorfile`).

Two shapes exist. A reply that takes the place of a response (`reply`) has lower-cased names and
ends with what its connection needs; a reply to a client whose request could not be parsed or did
not come in time (`early_reply`) is a fixed text that always closes. Constants and pure functions:
any thread.
"""

from __future__ import annotations

from typing import Final

from mtproxy.http.headers import Header, make_header

# status: (reason, text of the page)
_PAGES: Final[dict[int, tuple[bytes, bytes]]] = {
    200: (b"OK", b"Service ready."),
    400: (b"Bad request", b"Your browser sent an invalid request."),
    401: (b"Unauthorized", b"You need a valid user and password to access this content."),
    403: (b"Forbidden", b"Request forbidden by administrative rules."),
    404: (b"Not Found", b"The resource could not be found."),
    405: (
        b"Method Not Allowed",
        b"A request was made of a resource using a request method not supported by that resource",
    ),
    407: (b"Unauthorized", b"You need a valid user and password to access this content."),
    408: (b"Request Time-out", b"Your browser didn't send a complete request in time."),
    410: (b"Gone", b"The resource is no longer available and will not be available again."),
    413: (b"Payload Too Large", b"The request entity exceeds the maximum allowed."),
    421: (b"Misdirected Request", b"Request sent to a non-authoritative server."),
    422: (b"Unprocessable Content", b"The server cannot process the contained instructions."),
    425: (b"Too Early", b"Your browser sent early data."),
    429: (
        b"Too Many Requests",
        b"You have sent too many requests in a given amount of time.",
    ),
    500: (b"Internal Server Error", b"An internal server error occurred."),
    501: (
        b"Not Implemented",
        b".The server does not support the functionality required to fulfill the request.",
    ),
    502: (b"Bad Gateway", b"The server returned an invalid or incomplete response."),
    503: (b"Service Unavailable", b"No server is available to handle this request."),
    504: (b"Gateway Time-out", b"The server didn't respond in time."),
}


def _page(status: int) -> bytes:
    reason, text = _PAGES[status]
    return b"<html><body><h1>%d %s</h1>\n%s\n</body></html>\n" % (status, reason, text)


#: status codes that have a built-in reply
STATUSES: Final = tuple(_PAGES)
BODIES: Final[dict[int, bytes]] = {status: _page(status) for status in _PAGES}
HEADERS: Final[dict[int, tuple[Header, ...]]] = {
    status: (
        make_header(b"content-length", str(len(body)).encode()),
        make_header(b"cache-control", b"no-cache"),
        make_header(b"content-type", b"text/html"),
    )
    for status, body in BODIES.items()
}
_HEADS: Final[dict[int, bytes]] = {
    status: b"HTTP/1.1 %d %s\r\n" % (status, _PAGES[status][0])
    + b"".join([header[2] for header in headers])
    for status, headers in HEADERS.items()
}


def _early(status: int) -> bytes:
    body = BODIES[status]
    # HAProxy's texts differ in whether they announce the close
    close = b"Connection: close\r\n" if status in (400, 408) else b""
    return (
        b"HTTP/1.1 %d %b\r\nContent-length: %d\r\nCache-Control: no-cache\r\n"
        b"%bContent-Type: text/html\r\n\r\n%b" % (status, _PAGES[status][0], len(body), close, body)
    )


_EARLY: Final[dict[int, bytes]] = {status: _early(status) for status in (400, 408, 413, 422)}

CONNECTION_CLOSE_LINE: Final = b"connection: close\r\n"
CONNECTION_KEEP_ALIVE_LINE: Final = b"connection: keep-alive\r\n"

#: the interim response that lets a client send its body (RFC 9110 section 15.2.1)
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


def reason(status: int) -> bytes:
    """The reason phrase of a built-in reply. Raises KeyError for a status that has none."""
    return _PAGES[status][0]


def reply(
    status: int, connection: bytes = CONNECTION_CLOSE_LINE, *, head_only: bool = False
) -> bytes:
    """The built-in reply in place of a response.

    `connection` is the header line that the client's connection needs: CONNECTION_CLOSE_LINE, b""
    (1.1 kept alive) or CONNECTION_KEEP_ALIVE_LINE (1.0 kept alive). `head_only` answers a HEAD
    request. Raises KeyError for a status that has no built-in reply.
    """
    head = _HEADS[status] + connection + b"\r\n"
    return head if head_only else head + BODIES[status]


def early_reply(status: int) -> bytes:
    """The fixed text for a request that could not be parsed or did not come in time.

    `status` is 400, 408, 413 or 422 (KeyError for others). The connection is closed after it,
    whatever the request said.
    """
    return _EARLY[status]

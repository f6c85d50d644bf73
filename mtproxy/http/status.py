"""Reason phrases as HAProxy 2.6 writes them when it makes a status line of its own.

For `http-request return`, redirects and set-status; the built-in error pages have phrases of
their own (`replies`). Constants and a pure function: any thread.
"""

from __future__ import annotations

from typing import Final

REASONS: Final[dict[int, bytes]] = {
    100: b"Continue",
    101: b"Switching Protocols",
    200: b"OK",
    201: b"Created",
    202: b"Accepted",
    203: b"Non-Authoritative Information",
    204: b"No Content",
    205: b"Reset Content",
    206: b"Partial Content",
    207: b"Multi-Status",
    210: b"Content Different",
    226: b"IM Used",
    300: b"Multiple Choices",
    301: b"Moved Permanently",
    302: b"Moved Temporarily",
    303: b"See Other",
    304: b"Not Modified",
    305: b"Use Proxy",
    307: b"Temporary Redirect",
    308: b"Permanent Redirect",
    310: b"Too many Redirects",
    400: b"Bad Request",
    401: b"Unauthorized",
    402: b"Payment Required",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    406: b"Not Acceptable",
    407: b"Proxy Authentication Required",
    408: b"Request Time-out",
    409: b"Conflict",
    410: b"Gone",
    411: b"Length Required",
    412: b"Precondition Failed",
    413: b"Request Entity Too Large",
    414: b"Request-URI Too Long",
    415: b"Unsupported Media Type",
    416: b"Requested range unsatisfiable",
    417: b"Expectation failed",
    418: b"I'm a teapot",
    421: b"Misdirected Request",
    422: b"Unprocessable Content",
    423: b"Locked",
    424: b"Method failure",
    425: b"Too Early",
    426: b"Upgrade Required",
    428: b"Precondition Required",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    449: b"Retry With",
    450: b"Blocked by Windows Parental Controls",
    451: b"Unavailable For Legal Reasons",
    456: b"Unrecoverable Error",
    499: b"client has closed connection",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    502: b"Bad Gateway or Proxy Error",
    503: b"Service Unavailable",
    504: b"Gateway Time-out",
    505: b"HTTP Version not supported",
    506: b"Variant also negotiate",
    507: b"Insufficient storage",
    508: b"Loop detected",
    509: b"Bandwidth Limit Exceeded",
    510: b"Not extended",
    511: b"Network authentication required",
    520: b"Web server is returning an unknown error",
}

_CLASSES: Final = (
    b"Other",
    b"Informational",
    b"Success",
    b"Redirection",
    b"Client Error",
    b"Server Error",
)


def reason_phrase(status: int) -> bytes:
    """The phrase of a status code; one that has none gets that of its class."""
    phrase = REASONS.get(status)
    if phrase is None:
        phrase = _CLASSES[status // 100 if 100 <= status < 600 else 0]
    return phrase

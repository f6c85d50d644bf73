"""Request targets: their four forms (RFC 9112 section 3.2) and the authority's agreement with Host.

Pure functions, any thread.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mtproxy.http.errors import BadMessage
from mtproxy.http.headers import K_HOST, make_header

if TYPE_CHECKING:
    from mtproxy.http.h1_request import RequestHead

ORIGIN: Final = 0
ABSOLUTE: Final = 1
AUTHORITY: Final = 2
ASTERISK: Final = 3

_ABSOLUTE = re.compile(rb"([A-Za-z][A-Za-z0-9+.\-]*)://([^/?]*)(.*)")
_AUTHORITY = re.compile(rb"[^/?@:\[\]]*:[0-9]+|\[[0-9A-Fa-f:.]+\]:[0-9]+")
_DEFAULT_PORTS: Final = {b"http": b"80", b"https": b"443"}


def target_form(method: bytes, target: bytes) -> int:
    """ORIGIN, ABSOLUTE, AUTHORITY or ASTERISK. Raises BadMessage when the method does not allow it."""
    if method == b"CONNECT":
        if _AUTHORITY.fullmatch(target) is None:
            raise BadMessage(400, "CONNECT needs host:port", 8)
        return AUTHORITY
    if target.startswith(b"/"):
        return ORIGIN
    if target == b"*":
        return ASTERISK
    if _ABSOLUTE.fullmatch(target) is not None:
        return ABSOLUTE
    raise BadMessage(400, "bad request target", len(method) + 1)


def split_port(authority: bytes) -> tuple[bytes, bytes | None]:
    """`(host, port)` of host[:port]; the port is None when there is no colon, and may be empty."""
    colon = authority.rfind(b":")
    if colon < 0 or authority.rfind(b"]") > colon:
        return authority, None
    return authority[:colon], authority[colon + 1 :]


def check_authority(head: RequestHead, form: int) -> None:
    """Compare the target's authority with Host, and drop default ports as HAProxy does.

    Raises BadMessage (400) when they name different places (RFC 9112 section 3.2.2).
    """
    if form == AUTHORITY:
        authority, prefix, rest = head.target, b"", b""
        host, port = split_port(authority)
        default = port if port in (b"80", b"443") else None
    else:
        match = _ABSOLUTE.fullmatch(head.target)
        if match is None:
            raise BadMessage(400, "bad request target", len(head.method) + 1)
        scheme, authority, rest = match.groups()
        prefix = scheme + b"://"
        user, at, authority = authority.rpartition(b"@")
        prefix += user + at
        host, port = split_port(authority)
        default = _DEFAULT_PORTS.get(scheme.lower())
    normal = port is not None and (port == b"" or port == default)
    if head.host is not None:
        other, other_port = split_port(head.host)
        if other.lower() != host.lower():
            raise BadMessage(400, "Host differs from the request target")
        mine = None if normal else port
        theirs = None if other_port is None or other_port in (b"", default) else other_port
        if mine != theirs:
            raise BadMessage(400, "port of Host differs from the request target")
    if not normal:
        return
    if form == ABSOLUTE:
        head.target = prefix + host + rest
    if head.host is not None and (form == ABSOLUTE or split_port(head.host)[1]):
        bare = split_port(head.host)[0]
        if bare != head.host:
            head.host = bare
            head.headers = [
                make_header(b"host", bare) if h[3] == K_HOST else h for h in head.headers
            ]

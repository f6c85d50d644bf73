"""Request targets: their four forms (RFC 9112 section 3.2) and the authority's agreement with Host.

Pure functions, any thread.
"""

from __future__ import annotations

import re
from typing import Final

from mtproxy.http.errors import BadMessage

ORIGIN: Final = 0
ABSOLUTE: Final = 1
AUTHORITY: Final = 2
ASTERISK: Final = 3

_NAME: Final = rb"[A-Za-z0-9\-._~%!$&'()*+,;="
_HOST: Final = rb"(?:" + _NAME + rb"]*|\[" + _NAME + rb":]+\])"
# scheme, user information with its @, host, colon and port, the path; a query without a path is a
# URI, but HAProxy takes it for a part of the authority and refuses it
_match_absolute = re.compile(
    rb"([A-Za-z][A-Za-z0-9+.\-]*)://((?:" + _NAME + rb":]*@)?)(" + _HOST + rb")(:[0-9]*)?(/.*)?"
).fullmatch
_match_authority = re.compile(rb"(" + _HOST + rb")(:[0-9]+)").fullmatch
# scheme and authority in whatever a rule may have made
_match_start = re.compile(rb"[A-Za-z][A-Za-z0-9+.\-]*://([^/]*)").match
_DEFAULT_PORTS: Final = {b"http": b":80", b"https": b":443"}


def target_form(method: bytes, target: bytes) -> int:
    """ORIGIN, ABSOLUTE, AUTHORITY or ASTERISK. Raises BadMessage if the method forbids it."""
    if method == b"CONNECT":
        if _match_authority(target) is None:
            raise BadMessage(400, "CONNECT needs host:port", len(method) + 1)
        return AUTHORITY
    if target.startswith(b"/"):
        return ORIGIN
    if target == b"*" and method == b"OPTIONS":
        return ASTERISK
    if _match_absolute(target) is not None:
        return ABSOLUTE
    raise BadMessage(400, "bad request target", len(method) + 1)


def split_port(host: bytes) -> tuple[bytes, bytes]:
    """`(name, port)` of a Host value; the port keeps its colon and is b"" when there is none."""
    colon = host.rfind(b":")
    if colon <= host.rfind(b"]"):
        return host, b""
    return host[:colon], host[colon:]


def path_and_query(target: bytes) -> bytes | None:
    """What a target says of the resource alone, from the path's first slash on.

    None where there is no path: `*`, an authority, an absolute URI that ends with its authority.
    """
    if target[:1] == b"/":
        return target
    _, mark, rest = target.partition(b"://")
    slash = rest.find(b"/") if mark else -1
    return rest[slash:] if slash >= 0 else None


def agree(target: bytes, form: int, host: bytes | None) -> tuple[bytes, bytes | None]:
    """Check that the authority in a target names what Host names; returns both as they go on.

    `form` is ABSOLUTE or AUTHORITY. A default port in the target is dropped from both (RFC 3986
    section 6.2.3), except from CONNECT's target, where a port is required. Raises BadMessage
    (400) when they differ (RFC 9112 section 3.2.2; HAProxy does the same).
    """
    if form == ABSOLUTE:
        match = _match_absolute(target)
        assert match is not None
        scheme, user, name, port, rest = match.groups(b"")
        default = _DEFAULT_PORTS.get(scheme.lower(), b":")
        short = b"%b://%b%b%b" % (scheme, user, name, rest)
    else:
        match = _match_authority(target)
        assert match is not None
        name, port = match.groups()
        default = port if port in (b":80", b":443") else b":"
        short = target
    redundant = port in (b":", default)
    if host is not None:
        host_name, host_port = split_port(host)
        if host_name.lower() != name.lower():
            raise BadMessage(400, "Host differs from the request target")
        host_redundant = host_port in (b":", default)
        if (b"" if redundant else port) != (b"" if host_redundant else host_port):
            raise BadMessage(400, "the port in Host differs from the request target")
        if redundant and form == ABSOLUTE:
            host = name
        elif redundant and host_port == default:
            host = host_name
    return short if redundant else target, host


def split_target(target: bytes) -> tuple[bytes, bytes | None]:
    """What stands before the path of a target, and its path with the query; None: it has none.

    As HAProxy reads it where rules speak of paths: only "*" and what has no scheme or nothing
    behind its authority is without a path.
    """
    if target[:1] == b"/":
        return b"", target
    match = None if target[:1] == b"*" else _match_start(target)
    if match is None or match.end() == len(target):
        return target, None
    return target[: match.end()], target[match.end() :]


def with_authority(method: bytes, target: bytes, host: bytes) -> bytes:
    """An absolute target, or CONNECT's, with another authority; other targets as they are."""
    if method == b"CONNECT":
        return host
    match = _match_start(target)
    if match is None:
        return target
    user = match[1].rfind(b"@") + 1
    return b"%b%b%b" % (target[: match.start(1) + user], host, target[match.end() :])


def authority_of(method: bytes, target: bytes) -> bytes | None:
    """The authority in a target, without user information; None: it has none."""
    if method == b"CONNECT":
        return target
    match = None if target[:1] in (b"/", b"*", b"") else _match_start(target)
    return None if match is None else match[1][match[1].rfind(b"@") + 1 :]

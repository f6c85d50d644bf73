"""TLS hello messages in raw bytes: SNI, ALPN, version, extensions (manual 7.3.5: req.ssl_*).

The layout is that of RFC 8446 section 4.1.2 and RFC 5246 section 7.4.1.2; extensions: RFC 6066
section 3 (server name), RFC 7301 (ALPN), RFC 8422 (curves), RFC 5077 (session ticket). Only the
first record is looked at, and all of the message has to be there: until then fetches say
"may change".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.payload import more_may_come, request_bytes
from mtproxy.rules.points import Need
from mtproxy.rules.tables import Fetch
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Every
    from mtproxy.rules.view import View

_HANDSHAKE: Final = 0x16
#: types of TLS records, and what early drafts used
_RECORD_TYPES: Final = frozenset({0x14, 0x15, 0x16, 0x17, 0xFF})
#: the smallest ClientHello that has room for extensions
_HELLO_MIN: Final = 2 + 32 + 1 + 2 + 2 + 1 + 1 + 2 + 2
_RECORD_MAX: Final = (1 << 14) + 2048

_SERVER_NAME: Final = 0
_CURVES: Final = 10
_ALPN: Final = 16
_SESSION_TICKET: Final = 35


class _NotTls(Exception):
    """The bytes are no TLS hello."""


def _u16(data: bytes, at: int) -> int:
    return data[at] << 8 | data[at + 1]


def _u24(data: bytes, at: int) -> int:
    return data[at] << 16 | data[at + 1] << 8 | data[at + 2]


def _extensions(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and content of each extension of a ClientHello, in their order.

    Raises EOFError (need more) and _NotTls, the latter also when it comes to an extension that does
    not fit.
    """
    if not data:
        raise EOFError
    if data[0] != _HANDSHAKE:
        raise _NotTls
    if len(data) > 1 and data[1] < 3:
        raise _NotTls
    if len(data) < 5:
        raise EOFError
    if _u16(data, 3) < 4 + _HELLO_MIN:
        raise _NotTls
    if len(data) > 5 and data[5] != 1:
        raise _NotTls
    if len(data) < 9:
        raise EOFError
    length = _u24(data, 6)
    if length < _HELLO_MIN:
        raise _NotTls
    hello = data[9 : 9 + length]
    if len(hello) < length:
        raise EOFError
    if hello[0] < 3 or hello[1] < 1:
        raise _NotTls
    session = hello[34]
    if session > 32:
        raise _NotTls
    at = 35 + session
    at = _skip(hello, at, 2, 2)  # cipher suites
    at = _skip(hello, at, 1, 1)  # compression methods
    if at + 2 > length:
        raise _NotTls
    end = at + 2 + _u16(hello, at)
    if end > length:
        raise _NotTls
    at += 2
    while at + 4 <= end:
        kind, size = _u16(hello, at), _u16(hello, at + 2)
        at += 4
        if at + size > end:
            raise _NotTls
        yield kind, hello[at : at + size]
        at += size


def _skip(hello: bytes, at: int, width: int, least: int) -> int:
    """Where the list at `at`, whose length has `width` bytes, ends. Raises _NotTls."""
    if at + width > len(hello):
        raise _NotTls
    length = int.from_bytes(hello[at : at + width])
    end = at + width + length
    if length < least or end > len(hello):
        raise _NotTls
    return end


def _extension(view: View, wanted: int) -> bytes | None:
    """The content of the first extension of a type; None where there is none (yet)."""
    try:
        for kind, content in _extensions(request_bytes(view)):
            if kind == wanted:
                return content
    except EOFError:
        more_may_come(view)
    except _NotTls:
        pass
    return None


def _sni(view: View) -> bytes | None:
    content = _extension(view, _SERVER_NAME)
    if content is None or len(content) < 5 or content[2] != 0:
        return None
    if not 4 <= _u16(content, 0) <= len(content) - 2:
        return None
    end = 5 + _u16(content, 3)
    return None if end > len(content) else content[5:end]


def _protocols(view: View) -> list[bytes]:
    """The protocols that the client offers, in its order."""
    content = _extension(view, _ALPN)
    found: list[bytes] = []
    if content is not None and len(content) >= 3:
        at = 2
        while at < len(content):
            end = at + 1 + content[at]
            if end > len(content):
                break
            found.append(content[at + 1 : end])
            at = end
    return found


def _alpn(view: View) -> bytes | None:
    found = _protocols(view)
    return found[0] if found else None


def _every_alpn(_args: tuple[Any, ...], _build: Build) -> Every:
    return _protocols


def _ec_ext(view: View) -> bool | None:
    return None if _extension(view, _CURVES) is None else True


def _st_ext(view: View) -> int | None:
    try:
        for kind, content in _extensions(request_bytes(view)):
            if kind == _SESSION_TICKET:
                return 2 if content else 1
    except EOFError:
        more_may_come(view)
        return None
    except _NotTls:
        return None
    return 0


# --- any version, either direction


def _hello_type(source: Callable[[View], bytes]) -> Callable[[View], int | None]:
    def hello_type(view: View) -> int | None:
        data = source(view)
        if data and data[0] not in _RECORD_TYPES:
            return None
        if len(data) < 9:
            more_may_come(view)
            return None
        if data[1] < 3 or _u16(data, 3) < 4:
            return None
        if len(data) < 9 + _u24(data, 6):
            more_may_come(view)
            return None
        return data[5]

    return hello_type


def _ssl_ver(view: View) -> int | None:
    data = request_bytes(view)
    try:
        return _record_version(data) if data[:1] and data[0] in _RECORD_TYPES else _v2_version(data)
    except EOFError:
        more_may_come(view)
    except _NotTls:
        pass
    return None


def _record_version(data: bytes) -> int:
    """The version that a ClientHello asks for, which is not that of its record."""
    if len(data) < 11:
        raise EOFError
    length = _u16(data, 3)
    if data[1] < 3 or not 6 <= length <= _RECORD_MAX:
        raise _NotTls
    if len(data) < 5 + length:
        raise EOFError
    return data[9] << 16 | data[10]


def _v2_version(data: bytes) -> int:
    """The version that a ClientHello of SSLv2's form asks for (RFC 5246 appendix E.2)."""
    if len(data) < 3:
        raise EOFError
    if data[0] & 0x80:
        record, padding, at = _u16(data, 0) & 0x7FFF, 0, 2
    else:
        record, padding, at = _u16(data, 0) & 0x3FFF, data[2], 3
    hello = data[at:]
    if hello and hello[0] != 1:
        raise _NotTls
    if len(hello) < 9:
        raise EOFError
    ciphers, session, challenge = _u16(hello, 3), _u16(hello, 5), _u16(hello, 7)
    if ciphers % 3 or session not in (0, 16) or not 16 <= challenge <= 32:
        raise _NotTls
    body = ciphers + session + challenge
    if record != 9 + body:
        raise _NotTls
    if len(hello) < 9 + body + padding:
        raise EOFError
    return hello[1] << 16 | hello[2]


_REQUEST = Need.REQ_BYTES
_req_hello = _hello_type(request_bytes)
_res_hello = _hello_type(lambda view: view.txn.res_payload)

FETCHES: tuple[Fetch, ...] = (
    *(Fetch(n, Type.STR, _REQUEST, call=_sni) for n in ("req.ssl_sni", "req_ssl_sni")),
    Fetch("req.ssl_alpn", Type.STR, _REQUEST, call=_alpn, every=_every_alpn),
    Fetch("req.ssl_ec_ext", Type.BOOL, _REQUEST, call=_ec_ext),
    Fetch("req.ssl_st_ext", Type.SINT, _REQUEST, call=_st_ext),
    *(
        Fetch(n, Type.SINT, _REQUEST, call=_req_hello)
        for n in ("req.ssl_hello_type", "req_ssl_hello_type")
    ),
    *(
        Fetch(n, Type.SINT, Need.RES_BYTES, call=_res_hello)
        for n in ("res.ssl_hello_type", "rep_ssl_hello_type")
    ),
    *(Fetch(n, Type.SINT, _REQUEST, call=_ssl_ver) for n in ("req.ssl_ver", "req_ssl_ver")),
)

"""Request line and URI (manual 7.3.6: method, path, url, base, urlp, ...).

The target of a request has a path if it begins with a slash, or with a scheme and an authority
that a slash follows. Functions belong to the thread that made them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mtproxy.http.fields import lines_of, parts_of
from mtproxy.http.uri import path_and_query
from mtproxy.rules.fetches.heads import acl_keywords, no_values, request_of, source_bytes, to_number
from mtproxy.rules.points import Need
from mtproxy.rules.tables import ArgKind, Fetch, optional
from mtproxy.rules.types import Binary, Ip4, Type, Value, parse_ip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mtproxy.http.h1_request import RequestHead
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate, Every
    from mtproxy.rules.view import View


# --- the request line


#: methods that HAProxy knows by number
_KNOWN_METHODS = frozenset(
    (b"OPTIONS", b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"TRACE", b"CONNECT")
)


def _method(view: View) -> bytes | None:
    """What came: `set-method` changes what is sent, and as in HAProxy no condition sees it, unless
    an unknown method was changed.
    """
    head = request_of(view)
    if head is None:
        return None
    first = view.txn.first_method
    return first if first is not None and first in _KNOWN_METHODS else head.method


def _version(view: View) -> bytes | None:
    head = request_of(view)
    return None if head is None else b"1.%d" % (head.version - 10)


def _is_http(view: View) -> bool | None:
    if view.response is not None or view.status > 0:
        # too late to tell
        return None
    return True if request_of(view) is not None else None


def _first_request(view: View) -> bool | None:
    """Whether this is the first request of its connection."""
    return None if request_of(view) is None else view.first


def _url(view: View) -> bytes | None:
    head = view.request or request_of(view)
    return None if head is None else head.target


def _path(view: View) -> bytes | None:
    head = view.request or request_of(view)
    if head is None:
        return None
    target: bytes | None = head.target
    if target[:1] != b"/":  # type: ignore[index]
        target = path_and_query(target)  # type: ignore[arg-type]
        if target is None:
            return None
    return target.partition(b"?")[0]  # type: ignore[union-attr]


def _pathq(view: View) -> bytes | None:
    head = view.request or request_of(view)
    return None if head is None else path_and_query(head.target)


def _query(view: View) -> bytes | None:
    head = view.request or request_of(view)
    if head is None:
        return None
    _, mark, query = head.target.partition(b"?")
    return query if mark else None


# --- host and path


def _host(head: RequestHead) -> bytes:
    """The first value of the first Host; empty if there is none."""
    values = parts_of(head, b"host")
    return values[0] if values else b""


def _base(view: View) -> bytes | None:
    head = request_of(view)
    if head is None:
        return None
    target = path_and_query(head.target)
    if target is None:
        return _host(head) or None
    return _host(head) + target.partition(b"?")[0]


def _baseq(view: View) -> bytes | None:
    head = request_of(view)
    if head is None:
        return None
    return _host(head) + (path_and_query(head.target) or b"") or None


def sdbm_avalanche(text: bytes) -> int:
    """The sdbm hash with all bits mixed: the `sdbm(1)` of HAProxy's converters, 32 bits."""
    number = 0
    for byte in text:
        number = byte + (number << 6) + (number << 16) - number & 0xFFFFFFFF
    # the full avalanche of Bob Jenkins (burtleburtle.net/bob/hash/integer.html)
    number = number + 0x7ED55D16 + (number << 12) & 0xFFFFFFFF
    number = number ^ 0xC761C23C ^ (number >> 19)
    number = number + 0x165667B1 + (number << 5) & 0xFFFFFFFF
    number = (number + 0xD3A2646C ^ number << 9) & 0xFFFFFFFF
    number = number + 0xFD7046C5 + (number << 3) & 0xFFFFFFFF
    number = number ^ 0xB55A4F09 ^ (number >> 16)
    return number * 3221225473 & 0xFFFFFFFF


def _base32(view: View) -> int | None:
    head = request_of(view)
    if head is None:
        return None
    path = (path_and_query(head.target) or b"").partition(b"?")[0]
    return sdbm_avalanche(_host(head) + path)


def _url32(view: View) -> int | None:
    head = request_of(view)
    if head is None:
        return None
    # unlike all others, with the whole line
    host = lines_of(head, b"host")
    return sdbm_avalanche((host[0] if host else b"") + (path_and_query(head.target) or b""))


def _with_source(number_of: Evaluate) -> Evaluate:
    def joined(view: View) -> Binary | None:
        number = number_of(view)
        if number is None:
            return None
        return Binary(int(number).to_bytes(4) + source_bytes(view))

    return joined


# --- the authority of an absolute target

_PORTS: Final = {b"http": 80, b"https": 443}


def _authority(view: View) -> tuple[Ip4, int] | None:
    """Address and port of a target that names an IPv4 address."""
    head = request_of(view)
    if head is None:
        return None
    scheme, mark, rest = head.target.partition(b"://")
    default = _PORTS.get(scheme.lower())
    if not mark or default is None:
        return None
    host, colon, port = rest.partition(b"/")[0].partition(b":")
    address = parse_ip(host.decode("latin-1"))
    if type(address) is not Ip4:
        return None
    return address, to_number(port) if colon else default


def _url_ip(view: View) -> Ip4 | None:
    found = _authority(view)
    return None if found is None else found[0]


def _url_port(view: View) -> int | None:
    found = _authority(view)
    return None if found is None else found[1]


# --- parameters


def find_parameters(text: bytes, name: bytes, delimiter: bytes = b"&") -> Iterator[bytes]:
    """The values of all parameters of that name in a query; of all, if it is empty.

    Parameters end before "&", ";" and `delimiter`, values begin behind the first "=": what has
    none is no parameter. Nothing is decoded.
    """
    text = text.replace(b";", b"&")
    if delimiter not in b"&;":
        text = text.replace(delimiter, b"&")
    start = name + b"="
    for part in text.split(b"&"):
        if name:
            if part.startswith(start):
                yield part[len(start) :]
        else:
            _, equals, value = part.partition(b"=")
            if equals:
                yield value


def _parameters(args: tuple[Any, ...]) -> Every:
    name: bytes = args[0] or b""
    if args[1] == b"":
        # a query that begins nowhere
        return no_values
    delimiter: bytes = (args[1] or b"?")[:1]

    def every(view: View) -> Iterable[bytes]:
        head = view.request or request_of(view)
        if head is None:
            return ()
        _, mark, query = head.target.partition(delimiter)
        return find_parameters(query, name, delimiter) if mark else ()

    return every


def _every_parameter(args: tuple[Any, ...], _build: Build) -> Every:
    return _parameters(args)


def _parameter(args: tuple[Any, ...], _build: Build) -> Evaluate:
    every = _parameters(args)
    if args[0] and args[1] is None:
        return _first_parameter(args[0], every)

    def first(view: View) -> Value | None:
        for value in every(view):
            return value
        return None

    return first


def _first_parameter(name: bytes, every: Every) -> Evaluate:
    """The first parameter of a name, found without splitting the query where "&" alone does."""
    start = name + b"="
    later = b"&" + start
    size = len(start)

    def first(view: View) -> bytes | None:
        head = view.request or request_of(view)
        if head is None:
            return None
        query = head.target.partition(b"?")[2]
        if b";" in query or b"?" in query:
            for value in every(view):
                return value  # type: ignore[return-value]
            return None
        if query.startswith(start):
            return query[size:].partition(b"&")[0]
        found = query.find(later)
        return None if found < 0 else query[found + size + 1 :].partition(b"&")[0]

    return first


def _every_number(args: tuple[Any, ...], _build: Build) -> Every:
    every = _parameters(args)
    return lambda view: map(to_number, every(view))  # type: ignore[arg-type]


def _number(args: tuple[Any, ...], build: Build) -> Evaluate:
    first = _parameter(args, build)

    def number(view: View) -> int | None:
        value = first(view)
        return None if value is None else to_number(value)  # type: ignore[arg-type]

    return number


_PARAMETER: Final = optional(ArgKind.STR, ArgKind.STR)
_HEAD: Final = Need.REQ_HEAD
_KEPT: Final = Need.TXN

FETCHES: tuple[Fetch, ...] = (
    Fetch("method", Type.METH, _KEPT, call=_method, match="meth"),
    Fetch("req.ver", Type.STR, _HEAD, call=_version),
    Fetch("req_ver", Type.STR, _HEAD, call=_version),
    Fetch("req.proto_http", Type.BOOL, _KEPT, call=_is_http),
    Fetch("req_proto_http", Type.BOOL, _KEPT, call=_is_http),
    Fetch("http_first_req", Type.BOOL, _KEPT, call=_first_request),
    Fetch("url", Type.STR, _HEAD, call=_url),
    *acl_keywords(("url",), Type.STR, _HEAD, call=_url),
    Fetch("path", Type.STR, _HEAD, call=_path),
    *acl_keywords(("path",), Type.STR, _HEAD, call=_path),
    Fetch("pathq", Type.STR, _HEAD, call=_pathq),
    Fetch("query", Type.STR, _HEAD, call=_query),
    Fetch("base", Type.STR, _HEAD, call=_base),
    *acl_keywords(("base",), Type.STR, _HEAD, call=_base),
    Fetch("baseq", Type.STR, _HEAD, call=_baseq),
    Fetch("base32", Type.SINT, _HEAD, call=_base32),
    Fetch("base32+src", Type.BIN, _HEAD, call=_with_source(_base32)),
    Fetch("url32", Type.SINT, _HEAD, call=_url32),
    Fetch("url32+src", Type.BIN, _HEAD, call=_with_source(_url32)),
    Fetch("url_ip", Type.IPV4, _HEAD, call=_url_ip),
    Fetch("url_port", Type.SINT, _HEAD, call=_url_port),
    Fetch("urlp", Type.STR, _HEAD, make=_parameter, every=_every_parameter, args=_PARAMETER),
    Fetch("url_param", Type.STR, _HEAD, make=_parameter, every=_every_parameter, args=_PARAMETER),
    Fetch("urlp_val", Type.SINT, _HEAD, make=_number, every=_every_number, args=_PARAMETER),
    *acl_keywords(
        ("urlp",), Type.STR, _HEAD, make=_parameter, every=_every_parameter, args=_PARAMETER
    ),
)

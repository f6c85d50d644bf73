"""Bytes before HTTP: payload, length, RDP cookies, distcc, `wait_end` (manual 7.3.5)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.payload import looked_at, more_may_come, request_bytes, response_bytes
from mtproxy.rules.points import Need
from mtproxy.rules.tables import Arg, ArgKind, Fetch, optional, required
from mtproxy.rules.types import Binary, Type

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.http.headers import Header
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate
    from mtproxy.rules.view import View

    #: which of the stream's bytes a fetch reads
    type Bytes = Callable[[View], bytes]

DEFAULT_BUFSIZE = 16384
_REQUEST = Need.REQ_BYTES
_RESPONSE = Need.RES_BYTES
_EITHER = Need.REQ_BYTES | Need.RES_BYTES


def _bufsize(build: Build) -> int:
    """What a buffer holds at most: nothing beyond it ever matches."""
    return int(build.shared.settings.global_.tune.get("tune.bufsize", DEFAULT_BUFSIZE))


# --- length and parts

#: a start line without words, with its version of 8 bytes, and the end of the head
_HTTP_START: Final = 20 + 8 + 1


def _http_len(start: int, headers: list[Header]) -> int:
    """What a head takes in HAProxy, which keeps its words without what stands between them.

    `start` are the bytes of the start line but for its version.
    """
    return _HTTP_START + start + sum([len(one[0]) + len(one[1]) for one in headers])


def _req_len(view: View) -> int:
    view.may_change = not view.txn.payload_final
    txn = view.txn
    if not txn.payload and view.request is not None:
        head = view.request
        start = len(head.method) + len(head.target)
        return _http_len(start, head.headers) + len(txn.body or b"")
    return len(txn.payload)


def _res_len(view: View) -> int:
    view.may_change = not view.txn.payload_final
    txn = view.txn
    if not txn.res_payload and view.response is not None:
        head = view.response
        return _http_len(3 + len(head.reason), head.headers) + len(view.response_body())
    return len(txn.res_payload)


def _payload(source: Bytes) -> Callable[[tuple[Any, ...], Build], Evaluate]:
    def make(args: tuple[Any, ...], build: Build) -> Evaluate:
        offset, length = args
        end = offset + length
        if offset < 0 or length < 0 or end > _bufsize(build):
            return lambda _view: None

        def part(view: View) -> Binary | None:
            data = source(view)
            if end > len(data):
                more_may_come(view)
                return None
            if length:
                return Binary(data[offset:end])
            more_may_come(view)
            return Binary(data[offset:])

        return part

    return make


def _payload_lv(source: Bytes) -> Callable[[tuple[Any, ...], Build], Evaluate]:
    def make(args: tuple[Any, ...], build: Build) -> Evaluate:
        offset, size, where = args
        end = offset + size
        text = None if where is None else where.decode("latin-1")
        if text is None:
            begin = end
        elif text[0] in "+-":
            begin = end + int(text)
        else:
            begin = int(text)
        limit = _bufsize(build)

        def part(view: View) -> Binary | None:
            data = source(view)
            if end > len(data):
                more_may_come(view)
                return None
            length = int.from_bytes(data[offset:end])
            if not length or begin + length > limit:
                return None  # never
            if begin + length > len(data):
                more_may_come(view)
                return None
            return Binary(data[begin : begin + length])

        return part

    return make


def _check_payload_lv(args: tuple[Any, ...]) -> str | None:
    offset, size, where = args
    if offset < 0:
        return "the offset must not be negative"
    if size <= 0:
        return "payload length must be > 0"
    if where is None:
        return None
    text = where.decode("latin-1")
    if re.fullmatch(r"[+-]?[0-9]+", text) is None:
        return "payload offset2 is not a number"
    if text[0] == "-" and offset + size + int(text) < 0:
        return "payload offset2 is too negative"
    return None


# --- RDP: a TPKT of 4 bytes, an X.224 request of 7, then "Cookie: NAME=VALUE" in one line


def _rdp_value(data: bytes, name: bytes | None) -> bytes | None:
    """The first cookie's value; an empty one counts as there. Raises EOFError: need more."""
    head = data[11:18]
    if len(head) < 7 or len(data) <= 18:
        raise EOFError
    if head.lower() != b"cookie:":
        return None
    rest = data[18:].lstrip(b" ")
    if name is not None:
        if len(rest) <= len(name):
            raise EOFError
        if rest[len(name)] != ord("=") or rest[: len(name)].lower() != name:
            return None
    line, crlf, _ = rest.partition(b"\r\n")
    found, equals, value = line.partition(b"=")
    if not equals and not crlf:
        raise EOFError
    if not equals or b"\n" in found or b"\r" in found:
        return None
    if not crlf:
        bare = value.find(b"\r")
        if 0 <= bare < len(value) - 1:
            return None  # a CR without its LF
        raise EOFError
    return None if b"\r" in value else value


def _rdp_cookie(args: tuple[Any, ...], _build: Build) -> Evaluate:
    name = args[0].lower() if args[0] else None

    def value(view: View) -> bytes | None:
        try:
            return _rdp_value(request_bytes(view), name)
        except EOFError:
            more_may_come(view)
            return None

    return value


def _rdp_cookie_cnt(args: tuple[Any, ...], _build: Build) -> Evaluate:
    name = args[0].lower() if args[0] else None

    def count(view: View) -> int | None:
        try:
            return int(_rdp_value(request_bytes(view), name) is not None)
        except EOFError:
            if view.request is not None:
                return 0  # HTTP is no RDP
            more_may_come(view)
            return None

    return count


# --- distcc: tokens of four letters with eight hexadecimal digits, some with a body behind them

_BODILESS = frozenset({b"ARGC", b"DIST", b"DONE", b"NFIL", b"STAT"})


def _distcc(data: bytes, wanted: bytes, occurrence: int | None) -> tuple[int, int]:
    """The parameter of a token and where its body begins.

    Raises EOFError (need more) and LookupError (this is no distcc, or has no such token).
    """
    at = seen = 0
    while True:
        token, digits = data[at : at + 4], data[at + 4 : at + 12]
        if len(digits) < 8:
            raise EOFError
        if re.fullmatch(rb"[0-9a-fA-F]{8}", digits) is None:
            raise LookupError
        parameter = int(digits, 16)
        at += 12
        if token == wanted:
            seen += 1
            if not occurrence or seen == occurrence:
                return parameter, at
        if token not in _BODILESS:
            at += parameter


def _distcc_param(args: tuple[Any, ...], _build: Build) -> Evaluate:
    token, occurrence = args

    def parameter(view: View) -> int | None:
        try:
            return _distcc(looked_at(view), token, occurrence)[0]
        except EOFError:
            more_may_come(view)
        except LookupError:
            pass
        return None

    return parameter


def _distcc_body(args: tuple[Any, ...], _build: Build) -> Evaluate:
    token, occurrence = args
    bodiless = token in _BODILESS

    def body(view: View) -> Binary | None:
        data = looked_at(view)
        try:
            length, at = _distcc(data, token, occurrence)
        except EOFError:
            more_may_come(view)
            return None
        except LookupError:
            return None
        if bodiless:
            length = 0
        if at + length > len(data):
            more_may_come(view)
            return None
        return Binary(data[at : at + length])

    return body


def _check_token(args: tuple[Any, ...]) -> str | None:
    return None if len(args[0]) == 4 else "token name must be exactly 4 characters"


# --- time


def _wait_end(view: View) -> bool | None:
    if view.txn.payload_final:
        return True
    view.may_change = True
    return None


_PART = required(ArgKind.SINT, ArgKind.SINT)
_LV = (*required(ArgKind.SINT, ArgKind.SINT), Arg(ArgKind.STR, optional=True))
_NAME = optional(ArgKind.STR)
_TOKEN = (*required(ArgKind.STR), *optional(ArgKind.SINT))

FETCHES: tuple[Fetch, ...] = (
    *(Fetch(name, Type.SINT, _REQUEST, call=_req_len) for name in ("req.len", "req_len")),
    Fetch("res.len", Type.SINT, _RESPONSE, call=_res_len),
    Fetch("req.payload", Type.BIN, _REQUEST, make=_payload(request_bytes), args=_PART),
    Fetch("res.payload", Type.BIN, _RESPONSE, make=_payload(response_bytes), args=_PART),
    Fetch("payload", Type.BIN, _EITHER, make=_payload(looked_at), args=_PART),
    *(
        Fetch(name, Type.BIN, need, make=_payload_lv(source), args=_LV, check=_check_payload_lv)
        for name, need, source in (
            ("req.payload_lv", _REQUEST, request_bytes),
            ("res.payload_lv", _RESPONSE, response_bytes),
            ("payload_lv", _EITHER, looked_at),
        )
    ),
    *(
        Fetch(name, Type.STR, _REQUEST, make=_rdp_cookie, args=_NAME, acl_only=acl_only)
        for name, acl_only in (
            ("req.rdp_cookie", False),
            ("rdp_cookie", False),
            ("req_rdp_cookie", True),
        )
    ),
    *(
        Fetch(name, Type.SINT, _REQUEST, make=_rdp_cookie_cnt, args=_NAME, acl_only=acl_only)
        for name, acl_only in (
            ("req.rdp_cookie_cnt", False),
            ("rdp_cookie_cnt", False),
            ("req_rdp_cookie_cnt", True),
        )
    ),
    Fetch("distcc_param", Type.SINT, _EITHER, make=_distcc_param, args=_TOKEN, check=_check_token),
    Fetch("distcc_body", Type.BIN, _EITHER, make=_distcc_body, args=_TOKEN, check=_check_token),
    Fetch("wait_end", Type.BOOL, Need.RUNNING, call=_wait_end),
)

"""Addresses, ports, listeners and what the kernel knows of connections (manual 7.3.3)."""

from __future__ import annotations

import errno
import socket
import struct
from typing import TYPE_CHECKING, Any

from mtproxy.rules.endpoints import destination_of, numbers, source_of, tlv
from mtproxy.rules.points import Need
from mtproxy.rules.tables import ArgKind, Fetch, optional, required
from mtproxy.rules.types import Ip4, Ip6, Type, ip_text, parse_ip

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.rules.build import Build
    from mtproxy.rules.endpoints import Endpoint
    from mtproxy.rules.tables import Evaluate
    from mtproxy.rules.view import View

_CLIENT = Need.CLIENT
_SERVER = Need.SERVER


# --- addresses


def _address(text_of: Callable[[View], str | None]) -> Callable[[tuple[Any, ...], Build], Evaluate]:
    """A fetch of an address; UNIX sockets have none."""

    def make(_args: tuple[Any, ...], _build: Build) -> Evaluate:
        number = numbers()

        def value(view: View) -> Ip4 | Ip6 | None:
            text = text_of(view)
            return None if text is None else number(text)

        return value

    return make


def _src(_args: tuple[Any, ...], _build: Build) -> Evaluate:
    number = numbers()
    return lambda view: number(view.client_ip)


def _port(end_of: Callable[[View], Endpoint]) -> Evaluate:
    def value(view: View) -> int | None:
        ip, port = end_of(view)
        return port or None if ip != "unix" else None

    return value


def _current_source(view: View) -> Endpoint:
    return view.client_ip, view.client_port


def _current_destination(view: View) -> Endpoint:
    return view.dst_ip, view.dst_port


def _is_local(end_of: Callable[[View], Endpoint]) -> Evaluate:
    def value(view: View) -> bool | None:
        return address_is_local(end_of(view)[0])

    return value


def address_is_local(text: str) -> bool | None:
    """Whether an address is one of this machine: whether a socket can be bound to it.

    UNIX sockets are local. None where the kernel gives no answer.
    """
    if text == "unix":
        return True
    address = parse_ip(text.partition("%")[0])
    if address is None:
        return None
    family = socket.AF_INET if type(address) is Ip4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((ip_text(address).decode(), 0))
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EINVAL):
            return False
        return None
    return True


# --- the listener


def _so_id(view: View) -> int:
    number: int = view.listener.id
    return number


def _so_name(view: View) -> bytes | None:
    name: bytes | None = view.listener.name
    return name


def _dst_conn(_args: tuple[Any, ...], build: Build) -> Evaluate:
    if build.room is not None:
        build.room.count_listeners = True

    def value(view: View) -> int | None:
        loads = view.listener.loads
        return None if loads is None else sum([one.conn_cur for one in loads])

    return value


# --- what the kernel measures: fields of struct tcp_info (linux/tcp.h), 32 bits each

_UNACKED, _SACKED, _LOST, _RETRANS, _FACKETS = 24, 28, 32, 36, 40
_RTT, _RTTVAR, _REORDERING = 68, 72, 88
_INFO_SIZE = 104
_read_u32 = struct.Struct("=I").unpack_from


def _tcp_info(view: View, offset: int) -> int | None:
    conn = view.conn
    if conn is None or conn.closed:
        return None
    try:
        info = conn.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_SIZE)
    except OSError:
        return None  # no TCP
    if len(info) < offset + 4:
        return None
    found: int = _read_u32(info, offset)[0]
    return found


def _counter(offset: int) -> Callable[[tuple[Any, ...], Build], Evaluate]:
    return lambda _args, _build: lambda view: _tcp_info(view, offset)


def _duration(offset: int) -> Callable[[tuple[Any, ...], Build], Evaluate]:
    def make(args: tuple[Any, ...], _build: Build) -> Evaluate:
        if args[0] == b"us":
            return lambda view: _tcp_info(view, offset)

        def value(view: View) -> int | None:
            found = _tcp_info(view, offset)
            return None if found is None else (found + 500) // 1000

        return value

    return make


def _check_unit(args: tuple[Any, ...]) -> str | None:
    unit = args[0]
    if unit in (None, b"us", b"ms"):
        return None
    return f"expects 'us' or 'ms', got '{unit.decode('utf-8', 'replace')}'"


# --- the PROXY header


def _received_header(view: View) -> bool | None:
    kept = view.endpoints
    if kept is None:
        return False
    if kept.header_due:
        view.may_change = True
        return None
    return kept.tlvs is not None


def _tlv(kind: int) -> Evaluate:
    return lambda view: tlv(view, kind)


# --- the protocol and errors of a connection


def _error(view: View) -> int:
    kept = view.endpoints
    return 0 if kept is None else kept.failure[0]


def _error_text(view: View) -> bytes:
    kept = view.endpoints
    return b"Success" if kept is None else kept.failure[1].encode()


def _no_error(_view: View) -> int:
    return 0


def _no_error_text(_view: View) -> bytes:
    return b"Success"


def _nothing(_view: View) -> None:
    return None


def _fc_http_major(_args: tuple[Any, ...], build: Build) -> Evaluate:
    return _one if build.proxy.mode == "http" else _nothing


def _bc_http_major(_args: tuple[Any, ...], build: Build) -> Evaluate:
    return _if_connected(_one) if build.proxy.mode == "http" else _nothing


def _one(_view: View) -> int:
    return 1


def _if_connected(value_of: Evaluate) -> Evaluate:
    return lambda view: None if view.t_c < 0 else value_of(view)


# --- the server


def _bc_src_text(view: View) -> str | None:
    return view.backend_src_ip


def _bc_src_port(view: View) -> int | None:
    return view.backend_src_port or None


def _bc_dst_text(view: View) -> str | None:
    return view.server_ip


def _bc_dst_port(view: View) -> int | None:
    return view.server_port or None if view.server_ip not in (None, "unix") else None


_UNIT = optional(ArgKind.STR)
# types of TLVs (proxy-protocol.txt, 2.2)
_AUTHORITY, _UNIQUE_ID = 0x02, 0x05
_TLV_NAMES = {
    b"ALPN": 0x01,
    b"AUTHORITY": _AUTHORITY,
    b"CRC32C": 0x03,
    b"NOOP": 0x04,
    b"UNIQUE_ID": _UNIQUE_ID,
    b"SSL": 0x20,
    b"NETNS": 0x30,
}


def _tlv_type(text: bytes) -> int | None:
    """The number of a TLV's type, by name or as a decimal or hexadecimal number up to 255."""
    number = _TLV_NAMES.get(text)
    if number is None:
        try:
            number = int(text, 16 if text[:2] in (b"0x", b"0X") else 10)
        except ValueError:
            return None
    return number if 0 <= number <= 0xFF else None


def _check_tlv(args: tuple[Any, ...]) -> str | None:
    if _tlv_type(args[0]) is None:
        return f"expects a type of TLV, 0 to 255, got '{args[0].decode('utf-8', 'replace')}'"
    return None


def _any_tlv(args: tuple[Any, ...], _build: Build) -> Evaluate:
    kind = _tlv_type(args[0])
    assert kind is not None
    return _tlv(kind)


FETCHES: tuple[Fetch, ...] = (
    Fetch("src", Type.ADDR, _CLIENT, make=_src),
    Fetch("src_port", Type.SINT, _CLIENT, call=_port(_current_source)),
    Fetch("src_is_local", Type.BOOL, _CLIENT, call=_is_local(_current_source)),
    Fetch("dst", Type.ADDR, _CLIENT, make=_address(lambda view: view.dst_ip)),
    Fetch("dst_port", Type.SINT, _CLIENT, call=_port(_current_destination)),
    Fetch("dst_is_local", Type.BOOL, _CLIENT, call=_is_local(_current_destination)),
    Fetch("fc_src", Type.ADDR, _CLIENT, make=_address(lambda view: source_of(view)[0])),
    Fetch("fc_src_port", Type.SINT, _CLIENT, call=_port(source_of)),
    Fetch("fc_src_is_local", Type.BOOL, _CLIENT, call=_is_local(source_of)),
    Fetch("fc_dst", Type.ADDR, _CLIENT, make=_address(lambda view: destination_of(view)[0])),
    Fetch("fc_dst_port", Type.SINT, _CLIENT, call=_port(destination_of)),
    Fetch("fc_dst_is_local", Type.BOOL, _CLIENT, call=_is_local(destination_of)),
    Fetch("dst_conn", Type.SINT, _CLIENT, make=_dst_conn),
    Fetch("so_id", Type.SINT, _CLIENT, call=_so_id),
    Fetch("so_name", Type.STR, _CLIENT, call=_so_name),
    *(
        Fetch(name, Type.SINT, _CLIENT, make=_duration(offset), args=_UNIT, check=_check_unit)
        for name, offset in (("fc_rtt", _RTT), ("fc_rttvar", _RTTVAR))
    ),
    # HAProxy takes an argument here, and ignores it
    *(
        Fetch(name, Type.SINT, _CLIENT, make=_counter(at), args=_UNIT)
        for name, at in (
            ("fc_unacked", _UNACKED),
            ("fc_sacked", _SACKED),
            ("fc_lost", _LOST),
            ("fc_retrans", _RETRANS),
            ("fc_fackets", _FACKETS),
            ("fc_reordering", _REORDERING),
        )
    ),
    Fetch("fc_http_major", Type.SINT, _CLIENT, make=_fc_http_major),
    Fetch("fc_err", Type.SINT, _CLIENT, call=_error),
    Fetch("fc_err_str", Type.STR, _CLIENT, call=_error_text),
    Fetch("fc_rcvd_proxy", Type.BOOL, _CLIENT, call=_received_header),
    Fetch("fc_pp_authority", Type.STR, _CLIENT, call=_tlv(_AUTHORITY)),
    Fetch("fc_pp_unique_id", Type.STR, _CLIENT, call=_tlv(_UNIQUE_ID)),
    # of HAProxy 2.9
    Fetch(
        "fc_pp_tlv",
        Type.STR,
        _CLIENT,
        make=_any_tlv,
        args=required(ArgKind.STR),
        check=_check_tlv,
    ),
    Fetch("bc_src", Type.ADDR, _SERVER, make=_address(_bc_src_text)),
    Fetch("bc_src_port", Type.SINT, _SERVER, call=_bc_src_port),
    Fetch("bc_dst", Type.ADDR, _SERVER, make=_address(_bc_dst_text)),
    Fetch("bc_dst_port", Type.SINT, _SERVER, call=_bc_dst_port),
    Fetch("bc_http_major", Type.SINT, _SERVER, make=_bc_http_major),
    Fetch("bc_err", Type.SINT, _SERVER, call=_if_connected(_no_error)),
    Fetch("bc_err_str", Type.STR, _SERVER, call=_if_connected(_no_error_text)),
)

"""Changes of connections: set-src, set-dst and their ports, set-mark, set-tos, set-nice,
set-priority-class and set-priority-offset (manual 4.2).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from mtproxy.base.ruleset import Expression
from mtproxy.rules.endpoints import destination_change, source_change, text_of
from mtproxy.rules.tables import Action
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.endpoints import Change
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act
    from mtproxy.rules.view import View

_REQUEST = frozenset(
    {"tcp-request connection", "tcp-request session", "tcp-request content", "http-request"}
)
_RESPONSE = frozenset({"tcp-response content", "http-response"})
_QUEUE = frozenset({"tcp-request content", "http-request"})

# numbers of linux/in6.h and asm-generic/socket.h that the socket module does not name everywhere
_SO_MARK = 36
_IPV6_TCLASS = 67
_V4_MAPPED = "::ffff:"
_NICE_MAX = 1024
_CLASS_MAX = 2047
_OFFSET_MAX = 524287


# --- addresses

#: where an endpoint is now: address and port
type _Now = Callable[[View], tuple[str, int]]
type _Builder = Callable[[tuple[str, Expression], Build], Act]


def _parse_address(reader: RuleReader) -> tuple[str, Expression]:
    return reader.point.name, reader.expression(Type.ADDR)


def _parse_port(reader: RuleReader) -> tuple[str, Expression]:
    return reader.point.name, reader.expression(Type.SINT)


def _source_of(view: View) -> tuple[str, int]:
    return view.client_ip, view.client_port


def _destination_of(view: View) -> tuple[str, int]:
    return view.dst_ip, view.dst_port


def _set_address(change_of: Callable[[str], Change], now: _Now) -> _Builder:
    """`set-src`, `set-dst`: `change_of` a rule set changes the endpoint that `now` tells."""

    def build_it(args: tuple[str, Expression], build: Build) -> Act:
        change = change_of(args[0])
        value_of = build.expression(args[1], Type.ADDR)

        def set_address(view: View) -> None:
            address = value_of(view)
            if address is not None:
                ip, port = now(view)
                # a UNIX socket has no port that could be kept
                change(view, text_of(address), 0 if ip == "unix" else port)  # type: ignore[arg-type]

        return set_address

    return build_it


def _set_port(change_of: Callable[[str], Change], now: _Now) -> _Builder:
    """`set-src-port`, `set-dst-port`, as `_set_address`."""

    def build_it(args: tuple[str, Expression], build: Build) -> Act:
        change = change_of(args[0])
        value_of = build.expression(args[1], Type.SINT)

        def set_port(view: View) -> None:
            port = value_of(view)
            if port is not None:
                ip = now(view)[0]
                change(view, "0.0.0.0" if ip == "unix" else ip, int(port) & 0xFFFF)

        return set_port

    return build_it


# --- marks on packets


def _parse_number(reader: RuleReader) -> int:
    """Decimal, hexadecimal (0x) or octal (0), as strtoul reads it."""
    text = reader.value("exactly 1 argument (integer/hex value)")
    digits = text.lower()
    try:
        if digits.startswith("0") and digits.isdigit():
            return int(digits, 8) & 0xFFFFFFFF
        return int(digits, 0) & 0xFFFFFFFF
    except ValueError:
        raise reader.error(f"'{text}' is no integer or hexadecimal value", text) from None


def _build_mark(mark: int, _build: Build) -> Act:
    def set_mark(view: View) -> None:
        _set(view.conn.sock, socket.SOL_SOCKET, _SO_MARK, mark)

    return set_mark


def _build_tos(tos: int, _build: Build) -> Act:
    def set_tos(view: View) -> None:
        sock: socket.socket = view.conn.sock
        if sock.family == socket.AF_INET:
            _set(sock, socket.IPPROTO_IP, socket.IP_TOS, tos)
        elif sock.family == socket.AF_INET6:
            if view.client_ip.startswith(_V4_MAPPED):
                _set(sock, socket.IPPROTO_IP, socket.IP_TOS, tos)
            else:
                _set(sock, socket.IPPROTO_IPV6, _IPV6_TCLASS, tos)

    return set_tos


def _set(sock: socket.socket, level: int, name: int, value: int) -> None:
    """Set an option of a connection that works without it, too."""
    try:
        sock.setsockopt(level, name, value)
    except OSError:
        # not permitted (SO_MARK needs CAP_NET_ADMIN), or the connection is gone: as in HAProxy the
        # packets go without
        pass


# --- scheduling


def _parse_nice(reader: RuleReader) -> int:
    return max(-_NICE_MAX, min(_NICE_MAX, reader.integer()))


def _build_nice(nice: int, _build: Build) -> Act:
    def set_nice(view: View) -> None:
        view.txn.nice = nice

    return set_nice


def _parse_priority(reader: RuleReader) -> Expression:
    return reader.expression(Type.SINT)


def _build_class(expression: Expression, build: Build) -> Act:
    value_of = build.expression(expression, Type.SINT)

    def set_class(view: View) -> None:
        value = value_of(view)
        if value is not None:
            view.txn.priority_class = max(-_CLASS_MAX, min(_CLASS_MAX, int(value)))

    return set_class


def _build_offset(expression: Expression, build: Build) -> Act:
    value_of = build.expression(expression, Type.SINT)

    def set_offset(view: View) -> None:
        value = value_of(view)
        if value is not None:
            view.txn.priority_offset = max(-_OFFSET_MAX, min(_OFFSET_MAX, int(value)))

    return set_offset


ACTIONS: tuple[Action, ...] = (
    Action("set-src", _REQUEST, _parse_address, _set_address(source_change, _source_of)),
    Action("set-src-port", _REQUEST, _parse_port, _set_port(source_change, _source_of)),
    Action("set-dst", _REQUEST, _parse_address, _set_address(destination_change, _destination_of)),
    Action("set-dst-port", _REQUEST, _parse_port, _set_port(destination_change, _destination_of)),
    Action("set-mark", _REQUEST | _RESPONSE, _parse_number, _build_mark),
    Action("set-tos", _REQUEST | _RESPONSE, _parse_number, _build_tos),
    Action("set-nice", _QUEUE | _RESPONSE, _parse_nice, _build_nice),
    Action("set-priority-class", _QUEUE, _parse_priority, _build_class),
    Action("set-priority-offset", _QUEUE, _parse_priority, _build_offset),
    Action("attach-srv", frozenset({"tcp-request session"}), later="connections opened by servers"),
)

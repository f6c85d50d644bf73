"""Addresses, listeners and TCP_INFO, as fetches of a connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.base.ruleset import NOWHERE
from mtproxy.proxy.counters import FrontendCounters
from mtproxy.rules import points, registry
from mtproxy.rules.acl import parse_condition
from mtproxy.rules.endpoints import (
    destination_of,
    expect_header,
    forget_changes,
    note_header,
    numbers,
    source_of,
)
from mtproxy.rules.expression import build_expression, parse_expression
from mtproxy.rules.fetches.layer4 import address_is_local
from mtproxy.rules.reader import RuleReader
from mtproxy.rules.transaction import Transaction
from mtproxy.rules.types import Ip4, Ip6, Value, parse_ip


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        with client, accepted:
            yield client, accepted


def make_view(sock: socket.socket | None = None, **fields: Any) -> Any:
    view: dict[str, Any] = {
        "client_ip": "192.0.2.1",
        "client_port": 4711,
        "dst_text": ("198.51.100.2", 80),
        "endpoints": None,
        "listener": SimpleNamespace(id=7, name=b"web", loads=None),
        "conn": SimpleNamespace(sock=sock, closed=False) if sock is not None else None,
        "sconn": None,
        "server_ip": None,
        "server_port": 0,
        "backend_src_ip": None,
        "backend_src_port": 0,
        "t_c": -1,
        "srv": None,
        "txn": Transaction(),
    }
    view |= fields

    class View(SimpleNamespace):
        @property
        def dst_ip(self) -> str:
            return self.dst_text[0]

        @property
        def dst_port(self) -> int:
            return self.dst_text[1]

    return View(**view)


def reader(*words: str, point: points.Point = points.LOG) -> RuleReader:
    return RuleReader(words, NOWHERE, point, title="test")


BUILD: Any = SimpleNamespace(proxy=SimpleNamespace(mode="http"), room=None, shared=None)


def value(text: str, view: Any, build: Any = BUILD) -> Value | None:
    return build_expression(parse_expression(reader(text)), build)(view)


def apply(point: points.Point, rule: str, view: Any) -> None:
    words = tuple(rule.split(" "))
    words_reader = reader(*words[1:], point=point)
    entry = registry.ACTIONS[words[0]]
    assert point.name in entry.sets
    assert entry.parse is not None
    assert entry.build is not None
    args = entry.parse(words_reader)
    assert parse_condition(words_reader) is None
    build: Any = SimpleNamespace(
        expression=lambda expression, to: build_expression(expression, BUILD, to)
    )
    assert entry.build(args, build)(view) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("src", Ip4(0xC0000201)),
        ("src_port", 4711),
        ("dst", Ip4(0xC6336402)),
        ("dst_port", 80),
        ("fc_src", Ip4(0xC0000201)),
        ("fc_src_port", 4711),
        ("fc_dst", Ip4(0xC6336402)),
        ("fc_dst_port", 80),
        ("so_id", 7),
        ("so_name", b"web"),
        ("src_is_local", False),
        ("fc_dst_is_local", False),
        ("dst_conn", None),
        ("fc_rtt", None),
        ("fc_err", 0),
        ("fc_err_str", b"Success"),
        ("fc_rcvd_proxy", False),
        ("fc_pp_authority", None),
        ("fc_pp_unique_id", None),
        ("fc_pp_tlv(AUTHORITY)", None),
        ("fc_http_major", 1),
        ("bc_http_major", None),
        ("bc_src", None),
        ("bc_src_port", None),
        ("bc_dst", None),
        ("bc_dst_port", None),
        ("bc_err", None),
        ("ssl_fc", False),
        ("ssl_bc", False),
    ],
)
def test_a_client(text: str, expected: Value | None) -> None:
    found = value(text, make_view())
    assert found == expected
    assert type(found) is type(expected)


def test_unix_sockets_have_no_address() -> None:
    view = make_view(client_ip="unix", client_port=3, dst_text=("unix", 3))
    for text in ("src", "src_port", "dst", "dst_port", "fc_src", "fc_dst_port"):
        assert value(text, view) is None
    assert value("src_is_local", view) is True


def test_ipv6() -> None:
    view = make_view(client_ip="fe80::1%eth0", dst_text=("::1", 443))
    assert value("src", view) == parse_ip("fe80::1")
    assert type(value("dst", view)) is Ip6
    assert address_is_local("127.0.0.1") is True
    assert address_is_local("198.51.100.77") is False


def test_a_server() -> None:
    view = make_view(
        t_c=3,
        server_ip="10.0.0.1",
        server_port=8080,
        backend_src_ip="10.0.0.9",
        backend_src_port=40000,
        srv=SimpleNamespace(name="s1", settings=SimpleNamespace(id=12)),
    )
    names = ("bc_dst", "bc_dst_port", "bc_src", "bc_src_port", "srv_id", "srv_name", "bc_err")
    found = [value(name, view) for name in names]
    assert found == [parse_ip("10.0.0.1"), 8080, parse_ip("10.0.0.9"), 40000, 12, b"s1", 0]
    assert value("bc_err_str", view) == b"Success"
    assert value("bc_http_major", view) == 1
    tcp: Any = SimpleNamespace(proxy=SimpleNamespace(mode="tcp"))
    assert value("bc_http_major", view, tcp) is None
    assert value("fc_http_major", view, tcp) is None


def test_tcp_info(pair: tuple[socket.socket, socket.socket]) -> None:
    view = make_view(pair[1])
    rtt = value("fc_rtt(us)", view)
    assert isinstance(rtt, int)
    assert rtt > 0
    assert value("fc_rtt", view) == value("fc_rtt(ms)", view) == (rtt + 500) // 1000
    for name in ("rttvar", "unacked", "sacked", "lost", "retrans", "fackets", "reordering"):
        found = value(f"fc_{name}", view)
        assert isinstance(found, int)
        assert 0 <= found < 1_000_000
    view.conn.closed = True
    assert value("fc_rtt", view) is None
    one, other = socket.socketpair()
    with one, other:
        assert value("fc_rtt", make_view(one)) is None
    with pytest.raises(ConfigError, match="expects 'us' or 'ms', got 's'"):
        value("fc_rtt(s)", view)


def test_connections_of_a_listener() -> None:
    """They are counted only where a rule asks, on all threads."""
    room = SimpleNamespace(count_listeners=False)
    build: Any = SimpleNamespace(proxy=None, room=room)
    loads = [FrontendCounters(), FrontendCounters()]
    loads[0].conn_cur, loads[1].conn_cur = 5, -2
    view = make_view(listener=SimpleNamespace(id=1, name=None, loads=loads))
    assert value("dst_conn", view, build) == 3
    assert room.count_listeners
    assert value("so_name", view, build) is None


def test_numbers_are_remembered_within_bounds() -> None:
    number = numbers()
    assert number("10.0.0.1") is number("10.0.0.1")
    for last in range(5000):
        assert number(f"10.1.{last >> 8}.{last & 255}") == 0x0A010000 + last
    assert number("nonsense") is None


# --- what rules change


def test_a_transaction_changes_addresses_for_itself() -> None:
    view = make_view()
    apply(points.HTTP_REQUEST, "set-src str(203.0.113.5)", view)
    apply(points.HTTP_REQUEST, "set-src-port int(70000)", view)
    apply(points.TCP_CONTENT, "set-dst str(::5)", view)
    apply(points.TCP_CONTENT, "set-dst-port int(81)", view)
    assert (view.client_ip, view.client_port) == ("203.0.113.5", 4464)
    assert view.dst_text == ("::5", 81)
    assert source_of(view) == ("192.0.2.1", 4711)
    assert destination_of(view) == ("198.51.100.2", 80)
    forget_changes(view)
    assert (view.client_ip, view.client_port) == ("192.0.2.1", 4711)
    assert view.dst_text == ("198.51.100.2", 80)


def test_a_session_changes_addresses_for_its_transactions() -> None:
    view = make_view()
    apply(points.TCP_SESSION, "set-src str(203.0.113.5)", view)
    apply(points.TCP_SESSION, "set-dst-port int(81)", view)
    apply(points.HTTP_REQUEST, "set-src str(203.0.113.6)", view)
    apply(points.HTTP_REQUEST, "set-dst str(203.0.113.7)", view)
    assert source_of(view) == ("192.0.2.1", 4711)
    assert destination_of(view) == ("198.51.100.2", 80)
    forget_changes(view)
    assert (view.client_ip, view.client_port) == ("203.0.113.5", 4711)
    assert view.dst_text == ("198.51.100.2", 81)


def test_a_connection_changes_its_own_addresses() -> None:
    view = make_view()
    apply(points.TCP_CONNECTION, "set-src str(203.0.113.5)", view)
    apply(points.TCP_CONNECTION, "set-dst str(203.0.113.7)", view)
    assert source_of(view) == ("203.0.113.5", 4711)
    assert destination_of(view) == ("203.0.113.7", 80)
    assert view.endpoints is None


def test_unix_sockets_get_addresses() -> None:
    view = make_view(client_ip="unix", client_port=3, dst_text=("unix", 3))
    apply(points.HTTP_REQUEST, "set-src-port int(99)", view)
    apply(points.HTTP_REQUEST, "set-dst str(192.0.2.9)", view)
    assert (view.client_ip, view.client_port) == ("0.0.0.0", 99)
    assert view.dst_text == ("192.0.2.9", 0)


def test_a_value_that_is_no_address_changes_nothing() -> None:
    view = make_view()
    apply(points.HTTP_REQUEST, "set-src str(nonsense)", view)
    assert view.client_ip == "192.0.2.1"
    assert view.endpoints is None


def test_marks_and_priorities(pair: tuple[socket.socket, socket.socket]) -> None:
    view = make_view(pair[1])
    apply(points.HTTP_REQUEST, "set-tos 0x10", view)
    assert pair[1].getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 0x10
    apply(points.TCP_RESPONSE, "set-tos 32", view)
    assert pair[1].getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 32
    # without the right to it, packets go without a mark
    apply(points.TCP_CONTENT, "set-mark 7", view)
    apply(points.HTTP_REQUEST, "set-nice -5000", view)
    apply(points.HTTP_REQUEST, "set-priority-class int(99999)", view)
    apply(points.TCP_CONTENT, "set-priority-offset int(-99999999)", view)
    txn = view.txn
    assert (txn.nice, txn.priority_class, txn.priority_offset) == (-1024, 2047, -524287)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("set-tos 0xzz", "no integer or hexadecimal value"),
        ("set-tos", "expects exactly 1 argument"),
        ("set-nice much", "not an integer"),
        ("set-src", "a sample fetch"),
    ],
)
def test_errors(rule: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        apply(points.HTTP_REQUEST, rule, make_view())


# --- the PROXY header


def test_a_header_that_is_waited_for() -> None:
    view = make_view(may_change=False)
    expect_header(view)
    assert value("fc_rcvd_proxy", view) is None
    assert view.may_change


def test_a_header_without_addresses() -> None:
    view = make_view()
    expect_header(view)
    note_header(view, None, None, ())
    assert value("fc_rcvd_proxy", view) is True
    assert value("fc_pp_authority", view) is None
    assert (value("src", view), value("dst_port", view)) == (Ip4(0xC0000201), 80)


def test_the_addresses_of_a_header_are_those_of_the_session() -> None:
    view = make_view()
    note_header(view, ("203.0.113.9", 1000), ("2001:db8::1", 443), ())
    for _ in range(2):
        assert (value("src", view), value("src_port", view)) == (Ip4(0xCB007109), 1000)
        assert (value("dst", view), value("dst_port", view)) == (parse_ip("2001:db8::1"), 443)
        assert (value("fc_src", view), value("fc_src_port", view)) == (Ip4(0xC0000201), 4711)
        assert (value("fc_dst", view), value("fc_dst_port", view)) == (Ip4(0xC6336402), 80)
        view.client_ip, view.dst_text = "192.0.2.77", ("192.0.2.78", 1)  # rules of a request
        forget_changes(view)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fc_pp_authority", b"a2"),
        ("fc_pp_unique_id", b"id"),
        ("fc_pp_tlv(2)", b"a2"),
        ("fc_pp_tlv(0x05)", b"id"),
        ("fc_pp_tlv(UNIQUE_ID)", b"id"),
        ("fc_pp_tlv(0xE0)", b"own"),
        ("fc_pp_tlv(0xE1)", None),
    ],
)
def test_tlvs(text: str, expected: Value | None) -> None:
    """The last one of a type counts."""
    view = make_view()
    note_header(view, None, None, ((2, b"a1"), (2, b"a2"), (5, b"id"), (0xE0, b"own")))
    assert value(text, view) == expected


@pytest.mark.parametrize("word", ["256", "-1", "0x100", "AUTH", "x"])
def test_no_type_of_tlv(word: str) -> None:
    with pytest.raises(ConfigError, match="expects a type of TLV, 0 to 255"):
        value(f"fc_pp_tlv({word})", make_view())


def test_what_is_wrong_with_a_connection() -> None:
    view = make_view()
    expect_header(view)
    assert value("fc_err", view) == 0
    view.endpoints.failure = (15, "no header")
    assert (value("fc_err", view), value("fc_err_str", view)) == (15, b"no header")

"""FrontConf and BackConf: what streams read of the configuration."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from mtproxy.base.clock import NEVER
from mtproxy.base.settings import ForwardFor, GlobalSettings, ProxySettings, Timeouts
from mtproxy.stream.conf import FOREVER, BackConf, FrontConf
from mtproxy.stream.http import _is_monitor

KEEPALIVE = (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def front(tune: dict[str, Any] | None = None, **fields: Any) -> FrontConf:
    return FrontConf(ProxySettings("fe", 1, "frontend", **fields), GlobalSettings(tune=tune or {}))


def back(tune: dict[str, Any] | None = None, **fields: Any) -> BackConf:
    return BackConf(ProxySettings("be", 1, "backend", **fields), GlobalSettings(tune=tune or {}))


@pytest.mark.parametrize(
    ("uri", "target", "answered"),
    [
        (b"/health", b"/health", True),
        (b"/health", b"http://www.example.com/health", True),
        (b"/health", b"/hEAlth", False),
        (b"/health", b"/health?x", False),
        (b"/health", b"/health/", False),
        (b"/health", b"*", False),
        (b"http://a/health", b"http://a/health", True),
        (b"http://a/health", b"/health", False),
        (b"http://a/health", b"http://b/health", False),
        (b"*", b"*", True),
    ],
)
def test_monitor_uri(uri: bytes, target: bytes, *, answered: bool) -> None:
    assert front(monitor_uri=uri).monitor_uri == uri
    assert _is_monitor(target, uri) is answered


def test_sockets_are_left_alone_when_nothing_is_said() -> None:
    assert front().socket_options == back().socket_options == ()


def test_buffers_of_the_kernel() -> None:
    tune = {
        "tune.rcvbuf.client": 1,
        "tune.sndbuf.client": 2,
        "tune.rcvbuf.server": 3,
        "tune.sndbuf.server": 4,
    }
    level = socket.SOL_SOCKET
    assert front(tune).socket_options == (
        (level, socket.SO_RCVBUF, 1),
        (level, socket.SO_SNDBUF, 2),
    )
    assert back(tune).socket_options == ((level, socket.SO_RCVBUF, 3), (level, socket.SO_SNDBUF, 4))


def test_keepalive() -> None:
    only_times = front(clitcpka_cnt=3, clitcpka_idle=4, clitcpka_intvl=5)
    assert only_times.socket_options == ()
    options = front(options=frozenset({"clitcpka"}), clitcpka_cnt=3, clitcpka_intvl=5)
    assert options.socket_options == (
        KEEPALIVE,
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    )
    assert front(options=frozenset({"srvtcpka"})).socket_options == ()
    assert back(options=frozenset({"srvtcpka"}), srvtcpka_idle=9).socket_options == (
        KEEPALIVE,
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 9),
    )


def test_splicing_is_asked_for_per_direction() -> None:
    for make in (front, back):
        conf: Any = make(options=frozenset({"splice-request"}))
        assert (conf.splice_request, conf.splice_response) == (True, False)
        conf = make(options=frozenset({"splice-response"}))
        assert (conf.splice_request, conf.splice_response) == (False, True)


def test_forever_added_to_any_tick_is_not_due() -> None:
    assert FOREVER + (1 << 50) < NEVER


@pytest.mark.parametrize(
    ("timeouts", "expected"),
    [
        (Timeouts(), (FOREVER, FOREVER, FOREVER, FOREVER)),
        (Timeouts(client=5), (5, 5, 5, 5)),
        (Timeouts(client=5, http_request=3), (5, 5, 3, 3)),
        (Timeouts(client=5, http_request=3, http_keep_alive=2), (5, 5, 3, 2)),
        (Timeouts(client=5, client_fin=1), (5, 1, 5, 5)),
        (Timeouts(client=5, http_keep_alive=0), (5, 5, 5, 5)),  # 0: not set
        (Timeouts(http_request=3), (FOREVER, FOREVER, 3, 3)),
    ],
)
def test_timeouts_of_the_client_side(
    timeouts: Timeouts, expected: tuple[int, int, int, int]
) -> None:
    conf = front(timeouts=timeouts)
    assert (conf.client, conf.client_fin, conf.http_request, conf.keep_alive) == expected


@pytest.mark.parametrize(
    ("timeouts", "expected"),
    [
        (Timeouts(), (FOREVER, FOREVER, FOREVER, 0)),
        (Timeouts(server=5, connect=2), (5, 5, 2, 0)),
        (Timeouts(server=5, server_fin=1, tunnel=9), (5, 1, FOREVER, 9)),
    ],
)
def test_timeouts_of_the_server_side(
    timeouts: Timeouts, expected: tuple[int, int, int, int]
) -> None:
    conf = back(timeouts=timeouts)
    assert (conf.server, conf.server_fin, conf.connect, conf.tunnel) == expected


def test_sizes() -> None:
    assert (front().bufsize, front().max_head) == (16384, 15360)
    tuned = front({"tune.bufsize": 4096, "tune.maxrewrite": 96})
    assert (tuned.bufsize, tuned.max_head) == (4096, 4000)


@pytest.mark.parametrize("option", ["httpclose", "abortonclose", "nolinger", "logasap"])
def test_options_of_the_client_side(option: str) -> None:
    assert getattr(front(options=frozenset({option})), option)
    assert not getattr(front(), option)


@pytest.mark.parametrize(
    ("option", "closes"), [("httpclose", True), ("http-server-close", True), ("tcpka", False)]
)
def test_who_closes_server_connections(option: str, closes: bool) -> None:
    assert back(options=frozenset({option})).close_server == closes


@pytest.mark.parametrize(
    ("reuse", "private", "first", "unproven"),
    [
        ("never", True, False, False),
        ("safe", False, False, False),
        ("aggressive", False, True, False),
        ("always", False, True, True),
    ],
)
def test_http_reuse(reuse: str, private: bool, first: bool, unproven: bool) -> None:
    conf = back(http_reuse=reuse)
    assert (conf.reuse_private, conf.reuse_first, conf.reuse_unproven) == (
        private,
        first,
        unproven,
    )


def test_a_request_that_is_sent_again_may_take_any_connection() -> None:
    words = frozenset({"conn-failure", "empty-response", "response-timeout"})
    conf = back(http_reuse="safe", retry_on=words)
    assert (conf.reuse_first, conf.reuse_unproven) == (True, True)
    conf = back(http_reuse="safe", retry_on=words - {"response-timeout"})
    assert (conf.reuse_first, conf.reuse_unproven) == (False, False)


def test_splicing_may_be_turned_off() -> None:
    assert front().splice
    without = GlobalSettings(disabled_features=frozenset({"nosplice"}))
    assert not FrontConf(ProxySettings("fe", 1, "frontend"), without).splice


def test_forwardfor() -> None:
    assert front().forwardfor is None
    conf = front(forwardfor=ForwardFor(if_none=True))
    assert conf.forwardfor is not None
    assert conf.forwardfor.if_none

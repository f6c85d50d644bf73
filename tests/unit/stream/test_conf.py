"""FrontConf and BackConf: what streams read of the configuration."""

from __future__ import annotations

import socket
from typing import Any

from mtproxy.base.settings import GlobalSettings, ProxySettings
from mtproxy.stream.conf import BackConf, FrontConf

KEEPALIVE = (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def front(tune: dict[str, Any] | None = None, **fields: Any) -> FrontConf:
    return FrontConf(ProxySettings("fe", 1, "frontend", **fields), GlobalSettings(tune=tune or {}))


def back(tune: dict[str, Any] | None = None, **fields: Any) -> BackConf:
    return BackConf(ProxySettings("be", 1, "backend", **fields), GlobalSettings(tune=tune or {}))


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

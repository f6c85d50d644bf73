"""Keywords of proxies and words of `bind` lines; see the package."""

from __future__ import annotations

from typing import Final

INDEX: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "proxy": {
        "mode": ("e2e/test_public_configurations.py::test_mode",),
        "bind": (
            "e2e/test_listeners.py::test_ipv4_listeners",
            "e2e/test_listeners.py::test_several_addresses_and_port_ranges",
        ),
        "server": ("e2e/test_servers.py::test_roundrobin",),
        "timeout client": ("endings/http/client, nothing", "endings/tcp/client, nothing"),
        "timeout connect": ("endings/http/connect", "endings/tcp/connect"),
        "timeout server": ("endings/http/server", "endings/tcp/server, nothing"),
        "default_backend": (
            "e2e/test_public_configurations.py::test_use_backend_and_default_backend",
        ),
        "log": ("e2e/test_logs.py::test_two_targets",),
        "balance": (
            "cases/servers/balance uri whole depth 2",
            "e2e/test_servers.py::test_roundrobin",
        ),
        "option httplog": ("e2e/test_logs.py::test_httplog",),
        "option dontlognull": (
            "endings/http/nothing, close, dontlognull",
            "e2e/test_logs.py::test_dontlognull",
        ),
        "stats enable": ("cases/stats/default uri",),
        "stats uri": ("cases/stats/a prefix",),
        "option forwardfor": (
            "e2e/test_http_headers.py::test_forwardfor",
            "e2e/test_http_headers.py::test_forwardfor_except",
        ),
        "acl": ("e2e/test_public_configurations.py::test_use_backend_and_default_backend",),
        "retries": ("cases/retries/refused, a retry", "cases/retries/refused, no retries"),
        "use_backend": ("e2e/test_public_configurations.py::test_use_backend_and_default_backend",),
        "http-request": ("cases/actions/both sides' rules",),
        "maxconn": ("e2e/test_tcp.py::test_maxconn_of_the_frontend",),
        "option redispatch": (
            "cases/retries/refused, redispatched",
            "cases/retries/refused, no redispatch",
        ),
        "option httpchk": (
            "e2e/test_public_configurations.py::test_httpchk",
            "e2e/test_check_scripts.py::test_reports",
        ),
        "option http-server-close": (
            "cases/options/http-server-close in the both: plain",
            "e2e/test_http_connections.py::test_http_server_close",
        ),
        "timeout check": ("e2e/test_public_configurations.py::test_timeout_check",),
        "timeout http-request": (
            "endings/http/http-request, nothing",
            "endings/http/http-request, a piece",
        ),
        "stats refresh": ("cases/stats/refresh",),
    },
    "bind": {
        "ssl": ("refused/bind ssl",),
        "crt": ("refused/bind crt",),
        "alpn": ("refused/bind alpn",),
        "accept-proxy": ("e2e/test_proxy_protocol.py::test_a_header",),
        "ca-file": ("refused/bind ca-file",),
        "tfo": ("e2e/test_public_configurations.py::test_tfo",),
        "name": (
            "e2e/test_public_configurations.py::test_name_of_a_listener",
            "e2e/test_socket_options.py::test_socket_stats",
        ),
        "v4v6": ("e2e/test_listeners.py::test_v4v6_and_v6only",),
        "verify": ("refused/bind verify",),
        "ssl-min-ver": ("refused/bind ssl-min-ver",),
    },
    "old grammar": {
        "an address on the line of listen": ("refused/an address on the line of listen",),
        "reqrep": ("refused/reqrep",),
        "contimeout": ("refused/contimeout", "refused/timeout contimeout"),
        "nbproc": ("refused/nbproc",),
        "option forceclose": ("refused/option forceclose",),
        "no final line feed": ("refused/no final line feed",),
    },
}
WRITTEN: Final[dict[tuple[str, str], str]] = {
    ("old grammar", "an address on the line of listen"): "listen l 127.0.0.1:8080",
    ("old grammar", "no final line feed"): "server s1 127.0.0.1:1",
}

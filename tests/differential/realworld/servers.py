"""Words of `server` lines, algorithms of `balance`, and more options; see the package."""

from __future__ import annotations

from typing import Final

INDEX: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "server": {
        "check": (),
        "inter": (),
        "fall": (),
        "rise": (),
        "maxconn": (),
        "weight": (),
        "backup": (),
        "cookie": (),
        "init-addr": (),
        "port": (),
        "resolvers": (),
        "on-marked-down": (),
        "ssl": (),
        "verify": (),
        "send-proxy-v2": (),
        "resolve-prefer": (),
        "send-proxy": (),
    },
    "balance": {"roundrobin": (), "leastconn": (), "source": ()},
    "option": {
        "tcplog": (),
        "httpclose": (),
        "tcp-check": (),
        "tcpka": (),
        "log-health-checks": (),
        "abortonclose": (),
        "ssl-hello-chk": (),
        "mysql-check": (),
    },
}
WRITTEN: Final[dict[tuple[str, str], str]] = {}

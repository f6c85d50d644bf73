"""Keywords of proxies and words of `bind` lines; see the package."""

from __future__ import annotations

from typing import Final

INDEX: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "proxy": {
        "mode": (),
        "bind": (),
        "server": (),
        "timeout client": (),
        "timeout connect": (),
        "timeout server": (),
        "default_backend": (),
        "log": (),
        "balance": (),
        "option httplog": (),
        "option dontlognull": (),
        "stats enable": (),
        "stats uri": (),
        "option forwardfor": (),
        "acl": (),
        "retries": (),
        "use_backend": (),
        "http-request": (),
        "maxconn": (),
        "option redispatch": (),
        "option httpchk": (),
        "option http-server-close": (),
        "timeout check": (),
        "timeout http-request": (),
        "stats refresh": (),
    },
    "bind": {
        "ssl": (),
        "crt": (),
        "alpn": (),
        "accept-proxy": (),
        "ca-file": (),
        "tfo": (),
        "name": (),
        "v4v6": (),
        "verify": (),
        "ssl-min-ver": (),
    },
    "old grammar": {
        "an address on the line of listen": (),
        "reqrep": (),
        "contimeout": (),
        "nbproc": (),
        "option forceclose": (),
        "no final line feed": (),
    },
}
WRITTEN: Final[dict[tuple[str, str], str]] = {}

"""Sections, keywords of the global section, and targets of logs; see the package."""

from __future__ import annotations

from typing import Final

INDEX: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "section": {
        "defaults": (),
        "global": (),
        "backend": (),
        "frontend": (),
        "listen": (),
        "resolvers": (),
        "cache": (),
        "http-errors": (),
        "peers": (),
        "program": (),
        "userlist": (),
    },
    "global": {
        "log": (),
        "maxconn": (),
        "daemon": (),
        "user": (),
        "group": (),
        "stats socket": (),
        "chroot": (),
        "ssl-default-bind-ciphers": (),
        "pidfile": (),
        "ssl-default-bind-options": (),
        "tune.ssl.default-dh-param": (),
        "stats timeout": (),
        "crt-base": (),
        "ca-base": (),
        "ssl-default-bind-ciphersuites": (),
        "nbthread": (),
        "lua-load": (),
        "master-worker": (),
        "tune.bufsize": (),
        "cpu-map": (),
    },
    "log": {
        "log global": (),
        "log 127.0.0.1": (),
        "log stdout": (),
        "log stdout format raw": (),
        "log /dev/log": (),
    },
}
WRITTEN: Final[dict[tuple[str, str], str]] = {}

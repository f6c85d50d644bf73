"""What the configuration promises as supported, some part of the program reads.

A keyword that is parsed into a field nobody reads would be ignored silently. `WAITING` names the
fields whose reader is still to come; it may only shrink.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import mtproxy
from mtproxy.base import settings
from mtproxy.config.keywords_options import KEYWORDS as OPTIONS
from mtproxy.config.keywords_tune import TUNES
from mtproxy.config.model import Support

ROOT = Path(mtproxy.__file__).parent
#: who writes settings, and who only tests
WRITERS = ("config/", "testing/", "base/settings.py")

WAITING: dict[str, set[str]] = {
    "BindSettings": {"v6only", "tcp_ut", "proto"},
    "ServerSettings": {"tcp_ut", "pool_low_conn", "max_reuse", "proto"},
    "ProxySettings": {
        f"{side}tcpka_{what}" for side in ("cli", "srv") for what in ("cnt", "idle", "intvl")
    },
    "GlobalSettings": {"localpeer", "stats_maxconn", "disabled_features", "set_dumpable"},
    "CommandLine": {"memory_limit_mb"},
    "options": {"socket-stats", "splice-auto", "splice-request", "splice-response"},
    "tunes": {
        "tune.maxpollevents",
        "tune.pipesize",
        "tune.rcvbuf.client",
        "tune.rcvbuf.server",
        "tune.sndbuf.client",
        "tune.sndbuf.server",
    },
}

#: read by config/ itself, or saying how a field came about
BY_CONFIG = {
    "GlobalSettings": {"zero_warning"},
    "Timeouts": {"tarpit"},
    "ServerSettings": {"unresolved"},
    "CommandLine": {
        "ignore_resolution_failures",
        "disabled_features",
        "local_peer",
        "proxy_maxconn",
        "zero_warning",
        "ignored",
    },
    "Settings": {"files"},
}
#: options that are the default, or have their own field
NO_READER = {"http-keep-alive", "tcp-check", "tcpka", "forwardfor", "httplog", "tcplog"}


def sources() -> str:
    readers = (
        path
        for path in sorted(ROOT.rglob("*.py"))
        if not path.relative_to(ROOT).as_posix().startswith(WRITERS)
    )
    return "\n".join(path.read_text() for path in readers)


RECORDS = [
    settings.Address,
    settings.BindSettings,
    settings.CheckSettings,
    settings.ServerSettings,
    settings.LogSettings,
    settings.Timeouts,
    settings.ForwardFor,
    settings.ProxySettings,
    settings.StatsSocket,
    settings.GlobalSettings,
    settings.Settings,
    settings.CommandLine,
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_has_a_reader(record: type) -> None:
    text = sources()
    name = record.__name__
    unread = {item.name for item in fields(record) if not re.search(rf"\.{item.name}\b", text)}
    assert unread - BY_CONFIG.get(name, set()) <= WAITING.get(name, set())


def test_every_supported_option_has_a_reader() -> None:
    text = sources()
    names = {
        keyword.name.removeprefix("option ")
        for keyword in OPTIONS
        if keyword.support is Support.YES
    }
    unread = {name for name in names - NO_READER if f'"{name}"' not in text}
    assert unread <= WAITING["options"]


def test_every_supported_tune_has_a_reader() -> None:
    text = sources()
    unread = {tune.name for tune in TUNES if not tune.no_effect and tune.name not in text}
    assert unread <= WAITING["tunes"]

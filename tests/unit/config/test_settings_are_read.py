"""What the configuration promises as supported, some part of the program reads.

A keyword that is parsed into a field nobody reads would be ignored silently.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

import mtproxy
from mtproxy.base import addresses, commandline, log_settings, server_settings, settings
from mtproxy.config.keywords_options import KEYWORDS as OPTIONS
from mtproxy.config.keywords_tune import TUNES
from mtproxy.config.model import Support

ROOT = Path(mtproxy.__file__).parent
#: who writes settings, and who only tests
WRITERS = (
    "config/",
    "testing/",
    "base/addresses.py",
    "base/commandline.py",
    "base/log_settings.py",
    "base/server_settings.py",
    "base/settings.py",
)

#: read by config/ itself, without an effect (docs/configuration.md says why), or saying how a field
#: came about
BY_CONFIG = {
    "BindSettings": {"proto"},
    "GlobalSettings": {"external_check", "zero_warning", "localpeer", "expose_experimental"},
    "ProxySettings": {"description", "location", "dynamic_cookie_key"},
    "Timeouts": {"queue"},
    "CommandLine": {
        "ignore_resolution_failures",
        "daemon",  # part of GlobalSettings' own, as the two others are
        "debug",
        "disabled_features",
        "foreground",
        "pidfile",
        "local_peer",
        "proxy_maxconn",
        "zero_warning",
        "ignored",
    },
    "Settings": {"files"},
}
#: options that are the default, or have their own field
NO_READER = {
    "accept-invalid-http-request",
    "accept-invalid-http-response",
    "forwardfor",
    "http-keep-alive",
    "http-restrict-req-hdr-names",
    "httplog",
    "tcpka",
    "tcplog",
    "transparent",
}

#: names that more than one record has, or that are common words: how each record's is read
READ_AS = {
    ("ProxySettings", "server_state_file"): r"proxy\.server_state_file",
    ("GlobalSettings", "server_state_file"): r"glob\.server_state_file",
    ("Address", "host"): r"address\.host",
    ("Address", "kind"): r"address\.kind",
    ("Address", "port"): r"address\.port\b",
    ("Address", "text"): r"address\.text",
    ("BindSettings", "address"): r"bind\.address",
    ("BindSettings", "backlog"): r"bind\.backlog",
    ("BindSettings", "gid"): r"bind\.gid",
    ("BindSettings", "group"): r"bind\.gid",  # the number was looked up
    ("BindSettings", "id"): r"bind\.id",
    ("BindSettings", "interface"): r"bind\.interface",
    ("BindSettings", "level"): r"bind\.level",
    ("BindSettings", "location"): r"\.location",
    ("BindSettings", "maxconn"): r"bind\.maxconn",
    ("BindSettings", "mode"): r"bind\.mode",
    ("BindSettings", "name"): r"settings\.name or f\"sock-",
    ("BindSettings", "severity_output"): r"bind\.severity_output",
    ("BindSettings", "tcp_ut"): r"bind\.tcp_ut",
    ("BindSettings", "tfo"): r"bind\.tfo",
    ("BindSettings", "uid"): r"bind\.uid",
    ("BindSettings", "user"): r"bind\.uid",
    ("CheckSettings", "address"): r"settings\.check\.address",
    ("CheckSettings", "fall"): r"check\.fall",
    ("CheckSettings", "port"): r"settings\.check\.port",
    ("CheckSettings", "rise"): r"check\.rise",
    ("CheckSettings", "send_proxy"): r"self\.settings\.send_proxy",
    ("CommandLine", "check"): r"cmdline\.check\b",
    ("CommandLine", "maxconn"): r"options\.maxconn",
    ("CommandLine", "paths"): r"cmdline\.paths",
    ("CommandLine", "quiet"): r"cmdline\.quiet",
    ("ServerSettings", "cookie"): r"self\.cookie = self\.settings\.cookie",
    ("ProxySettings", "cookie"): r"settings\.cookie",
    ("GlobalSettings", "daemon"): r"glob\.daemon",
    ("GlobalSettings", "description"): r"global_\.description",
    ("GlobalSettings", "disabled_features"): r"glob\.disabled_features",
    ("GlobalSettings", "gid"): r"settings\.gid",
    ("GlobalSettings", "group"): r"settings\.group",
    ("GlobalSettings", "log_tag"): r"glob\.log_tag",
    ("GlobalSettings", "logs"): r"\.logs",  # become the logs of proxies
    ("GlobalSettings", "maxconn"): r"glob\.maxconn",
    ("GlobalSettings", "pidfile"): r"glob\.pidfile",
    ("GlobalSettings", "quiet"): r"glob\.quiet",
    ("GlobalSettings", "uid"): r"settings\.uid",
    ("GlobalSettings", "user"): r"settings\.user",
    ("LogSettings", "address"): r"log\.address",
    ("LogSettings", "format"): r"log\.format",
    ("LogSettings", "length"): r"log\.length",
    ("LogSettings", "level"): r"log\.level",
    ("LogSettings", "location"): r"\.location",
    ("LogSettings", "ring"): r"log\.ring",
    ("LogSettings", "sample"): r"log\.sample",
    ("RingSettings", "connect_timeout"): r"settings\.connect_timeout",
    ("RingSettings", "description"): r"settings\.description",
    ("RingSettings", "format"): r"settings\.format",
    ("RingSettings", "location"): r"\.location",
    ("RingSettings", "maxlen"): r"settings\.maxlen",
    ("RingSettings", "name"): r"settings\.name",
    ("RingSettings", "servers"): r"settings\.servers",
    ("RingSettings", "size"): r"settings\.size",
    ("SampleSettings", "ranges"): r"sample\.ranges",
    ("SampleSettings", "size"): r"sample\.size",
    ("Settings", "rings"): r"settings\.rings",
    ("ProxySettings", "backlog"): r"proxy\.backlog",
    ("ProxySettings", "balance"): r"settings\.balance",
    ("ProxySettings", "disabled"): r"proxy\.disabled",
    ("ProxySettings", "forced_id"): r"proxy\.settings\.forced_id",
    ("ProxySettings", "id"): r"proxy\.settings\.id",
    ("ProxySettings", "kind"): r"proxy\.kind",
    ("ProxySettings", "log_tag"): r"proxy\.log_tag",
    ("ProxySettings", "logs"): r"proxy\.logs",
    ("ProxySettings", "maxconn"): r"proxy\.maxconn",
    ("ProxySettings", "mode"): r"proxy\.mode",
    ("ProxySettings", "name"): r"proxy\.name",
    ("ProxySettings", "options"): r"proxy\.options",
    ("ProxySettings", "servers"): r"proxy\.servers",
    ("ProxySettings", "source"): r"backend\.settings\.source",
    ("ServerSettings", "address"): r"settings\.address",
    ("ServerSettings", "check"): r"settings\.check\b",
    ("ServerSettings", "disabled"): r"settings\.disabled",
    ("ServerSettings", "forced_id"): r"settings\.forced_id",
    ("ServerSettings", "hostname"): r"settings\.hostname",
    ("ServerSettings", "id"): r"settings\.id",
    ("ServerSettings", "location"): r"\.location",
    ("ServerSettings", "name"): r"settings\.name",
    ("ServerSettings", "rise"): r"settings\.rise",
    ("ServerSettings", "fall"): r"settings\.fall",
    ("ServerSettings", "states"): r"settings\.states",
    ("ServerSettings", "agent"): r"settings\.agent\b",
    ("ProxySettings", "external_check"): r"settings\.external_check",
    ("ExternalSettings", "command"): r"external\.command",
    ("ExternalSettings", "path"): r"external\.path",
    ("AgentSettings", "address"): r"agent\.address",
    ("AgentSettings", "port"): r"agent\.port",
    ("AgentSettings", "send"): r"agent\.send",
    ("AgentSettings", "inter"): r"settings\.inter",
    ("CheckSettings", "inter"): r"settings\.inter",
    ("ServerSettings", "send_proxy"): r"header_maker\(settings\.send_proxy\)",
    ("ServerSettings", "source"): r"settings\.source",
    ("ServerSettings", "tcp_ut"): r"settings\.tcp_ut",
    ("ServerSettings", "tfo"): r"settings\.tfo",
    ("CommandLine", "version"): r"cmdline\.version",
    ("SendProxy", "unique_id"): r"if settings\.unique_id",
    ("SendProxy", "version"): r"settings\.version == 1",
    ("Settings", "global_"): r"settings\.global_",
    ("Settings", "proxies"): r"settings\.proxies",
    ("ServerSettings", "maxconn"): r"server\.settings\.maxconn",
    ("StatsSocket", "bind"): r"settings\.bind",
    ("StatsSocket", "timeout"): r"stats_socket\.timeout",
    ("Timeouts", "check"): r"timeouts\.check",
    ("Timeouts", "client"): r"\bt\.client\b",
    ("Timeouts", "connect"): r"\bt\.connect\b",
    ("Timeouts", "server"): r"\bt\.server\b",
    ("Timeouts", "tunnel"): r"\bt\.tunnel\b",
}
#: said where a statement stands, for messages; needs no reader of its own
COMMON_WORDS = {"check", "client", "server", "connect", "source", "bind", "timeout", "queue"}


def sources() -> str:
    readers = (
        path
        for path in sorted(ROOT.rglob("*.py"))
        if not path.relative_to(ROOT).as_posix().startswith(WRITERS)
    )
    return "\n".join(path.read_text() for path in readers)


RECORDS = [
    addresses.Address,
    addresses.BindSettings,
    server_settings.CheckSettings,
    addresses.SendProxy,
    server_settings.ServerSettings,
    server_settings.StateSettings,
    server_settings.AgentSettings,
    server_settings.ExternalSettings,
    log_settings.SampleSettings,
    log_settings.LogSettings,
    log_settings.RingSettings,
    settings.Timeouts,
    settings.ForwardFor,
    settings.ProxySettings,
    settings.StatsSocket,
    settings.GlobalSettings,
    settings.Settings,
    commandline.CommandLine,
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_has_a_reader(record: type) -> None:
    text = sources()
    name = record.__name__
    shared = Counter(item.name for one in RECORDS for item in fields(one))
    unread = set()
    for item in fields(record):
        if item.name in BY_CONFIG.get(name, ()):
            continue
        pattern = READ_AS.get((name, item.name))
        if pattern is None:
            ambiguous = shared[item.name] > 1 or item.name in COMMON_WORDS
            assert not ambiguous, f"say in READ_AS how {name}.{item.name} is read"
            pattern = rf"\.{item.name}\b"
        if not re.search(pattern, text):
            unread.add(item.name)
    assert unread == set()


def test_every_supported_option_has_a_reader() -> None:
    text = sources()
    names = {
        keyword.name.removeprefix("option ")
        for keyword in OPTIONS
        if keyword.support is Support.YES
    }
    assert {name for name in names - NO_READER if f'"{name}"' not in text} == set()


def test_every_supported_tune_has_a_reader() -> None:
    text = sources()
    unread = {tune.name for tune in TUNES if not tune.no_effect and tune.name not in text}
    assert unread == set()

"""The words of `add server`: a `server` line for a backend that runs (management guide 9.3).

Nothing is inherited from `default-server`. Only some options are allowed, HAProxy's; those that
mtproxy has not are refused as in a configuration. Any thread may call, one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence

from mtproxy.base.commandline import CommandLine
from mtproxy.base.errors import ConfigError, Severity
from mtproxy.base.location import Location
from mtproxy.base.server_settings import ServerSettings
from mtproxy.base.settings import ProxySettings
from mtproxy.config.context import Context
from mtproxy.config.drafts import ProxyDraft
from mtproxy.config.keywords_server import SERVER_OPTIONS, read_server
from mtproxy.config.model import Statement
from mtproxy.config.server_draft import ServerDraft

#: what HAProxy takes at run time, as far as it is no TLS
ACCEPTED = frozenset({
    "addr", "agent-addr", "agent-check", "agent-inter", "agent-port", "agent-send", "backup",
    "check", "check-proto", "check-send-proxy", "check-via-socks4", "disabled", "downinter",
    "enabled", "error-limit", "fall", "fastinter", "id", "inter", "maxconn", "maxqueue", "minconn",
    "no-backup", "no-send-proxy", "no-send-proxy-v2", "no-tfo", "observe", "on-error",
    "on-marked-down", "on-marked-up", "pool-low-conn", "pool-max-conn", "pool-purge-delay", "port",
    "proto",
    "proxy-v2-options", "rise", "send-proxy", "send-proxy-v2", "slowstart", "source", "tfo",
    "track", "usesrc", "weight", "ws",
})  # fmt: skip
_KNOWN = frozenset(option.name for option in SERVER_OPTIONS)
_TLS = frozenset(option.name for option in SERVER_OPTIONS if option.note == "TLS")

_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:.-")


class DynamicError(Exception):
    """The words do not make a server; the text says why, a line for each fault."""


def read_dynamic_server(
    words: Sequence[str], backend: ProxySettings, used_ids: Collection[int]
) -> ServerSettings:
    """The settings of the server `words`: its name, its address, options. Raises DynamicError.

    Its id is the first free one where none is given. It starts in maintenance whatever they say.
    """
    if len(words) < 2 or not words[1]:
        raise DynamicError("'server' expects <name> and <addr>[:<port>] as arguments.")
    name = words[0]
    for character in name:
        if character not in _NAME:
            raise DynamicError(f"character '{character}' is not permitted in server name '{name}'.")
    for word in words[2:]:
        if word in _KNOWN and word not in ACCEPTED and word not in _TLS:
            raise DynamicError(f"'{word}' option is not accepted for dynamic server")
    place = Location("CLI", 0)
    ctx = Context(CommandLine(), dict(os.environ), given_resolver=lambda _name, _family: [])
    draft = ProxyDraft("backend", backend.name, place)
    draft.mode = backend.mode
    # no name is looked up: with one the server has no address yet
    draft.default_server = ServerDraft(init_addr=("none",), dynamic=True)
    ctx.current = draft
    try:
        read_server(ctx, Statement(("server", *words), place))
    except ConfigError as error:
        ctx.report(Statement(("server", *words), place), error)
    faults = [
        one.message.removeprefix(f"'server {backend.name}/{name}' : ")
        + (f"; did you mean '{one.suggestion}' maybe ?" if one.suggestion else "")
        for one in ctx.diagnostics
        if one.severity is Severity.ALERT
    ]
    if faults:
        raise DynamicError("\n".join(faults))
    (server,) = draft.servers
    if server.id is not None and server.id in used_ids:
        raise DynamicError(f"'id' : custom id {server.id} already used")
    settings = server.freeze(server.id or next(i for i in _naturals() if i not in used_ids))
    check = settings.check
    has_path = settings.address.port == 0 and settings.address.host.startswith("/")
    if check is not None and not (
        check.port or settings.address.port or has_path or (check.address and check.address.port)
    ):
        raise DynamicError(
            f"config: backend '{backend.name}': server '{name}' has neither service port nor check"
            " port nor tcp_check rule 'connect' with port information."
        )
    return settings


def _naturals() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number

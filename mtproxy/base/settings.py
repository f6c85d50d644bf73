"""The parsed configuration as every layer sees it: immutable, complete, no behaviour.

`config/` is the only writer: it reads haproxy.cfg, resolves `defaults`, checks everything and
returns one `Settings`. All layers below read it. Nothing here is changed after load: each thread
builds its own runtime objects from it. Times are integer milliseconds, sizes are bytes,
`None` means "not set" (for a timeout: infinite).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mtproxy.base.addresses import Address, BindSettings, SourceSettings
from mtproxy.base.checkscript import CheckScript
from mtproxy.base.location import Location
from mtproxy.base.log_settings import LogForwardSettings, LogSettings, RingSettings
from mtproxy.base.ruleset import Assignment, Expression, ProxyRules, ReplySpec, StoredMessage
from mtproxy.base.server_settings import ExternalSettings, ResolversSettings, ServerSettings
from mtproxy.base.sticktable import StickTableSettings


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Manual 4.2, `timeout NAME`."""

    client: int | None = None
    server: int | None = None
    connect: int | None = None
    http_request: int | None = None
    http_keep_alive: int | None = None
    tunnel: int | None = None
    queue: int | None = None
    check: int | None = None
    tarpit: int | None = None
    client_fin: int | None = None
    server_fin: int | None = None


@dataclass(frozen=True, slots=True)
class ForwardFor:
    """`option forwardfor [except NET] [header NAME] [if-none]`; `option originalto` without the
    last word.
    """

    header: bytes = b"x-forwarded-for"
    except_net: str | None = None
    if_none: bool = False


@dataclass(frozen=True, slots=True)
class CookieSettings:
    """`cookie NAME ...` (manual 4.2): how a client comes back to its server."""

    name: bytes
    #: "insert", "rewrite", "prefix", or "" (looked at only)
    mode: str = ""
    indirect: bool = False
    nocache: bool = False
    postonly: bool = False
    preserve: bool = False
    httponly: bool = False
    secure: bool = False
    dynamic: bool = False
    domains: tuple[bytes, ...] = ()
    #: seconds, 0: no limit
    maxidle: int = 0
    maxlife: int = 0
    attributes: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class BalanceSettings:
    """What `balance` and `hash-type` say besides the algorithm's name (manual 4.2)."""

    #: of a parameter, header or cookie; for messages also the words of an expression
    name: bytes = b""
    expression: Expression | None = None
    #: of a URI: with its query, without its authority
    whole: bool = False
    path_only: bool = False
    #: how many directories, how many bytes; 0: all
    depth: int = 0
    length: int = 0
    check_post: bool = False
    domain_only: bool = False
    #: of `random`
    draws: int = 2
    #: `hash-type consistent` rather than map-based
    consistent: bool = False
    function: str = "sdbm"
    avalanche: bool = False
    #: `hash-balance-factor` in percent; 0: none
    factor: int = 0
    #: `hash-preserve-affinity`: "always", "maxconn" or "maxqueue"
    affinity: str = "always"


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """One frontend, backend or listen section after `defaults` were applied."""

    name: str
    id: int
    #: "frontend", "backend" or "listen"
    kind: str
    #: "tcp" or "http"
    mode: str = "tcp"
    binds: tuple[BindSettings, ...] = ()
    servers: tuple[ServerSettings, ...] = ()
    default_backend: str | None = None
    balance: str = "roundrobin"
    balance_params: BalanceSettings = BalanceSettings()
    #: where all sessions go instead of to servers: `dispatch`, or, with 0.0.0.0 and port 0, where
    #: the client wanted to go (`option transparent`)
    direct: Address | None = None
    #: the cookie that tells the server's address (`persist rdp-cookie`)
    rdp_cookie: Expression | None = None
    #: lower case; tells a server its name in each request (`http-send-name-header`)
    name_header: bytes = b""
    timeouts: Timeouts = Timeouts()
    #: names of the boolean `option`s that are on, e.g. "dontlognull", "http-server-close"
    options: frozenset[str] = frozenset()
    forwardfor: ForwardFor | None = None
    originalto: ForwardFor | None = None
    logs: tuple[LogSettings, ...] = ()
    log_tag: str | None = None
    retries: int = 3
    #: `max-keep-alive-queue`; 0: no limit
    max_kept_queue: int = 0
    #: sessions per second that the frontend accepts; 0: no limit
    rate_limit: int = 0
    #: when a request is tried again (`retry-on`)
    retry_on: frozenset[str] = frozenset({"conn-failure"})
    #: sessions from which on servers with `minconn` serve `maxconn`; None: a tenth of what the
    #: backend's frontends may bring
    fullconn: int | None = None
    #: where the states of servers are read from at the start: "none", "global" or "local"
    load_server_state: str = "none"
    #: the local one; empty: the name of the backend
    server_state_file: str = ""
    #: frontend connection limit; None: the global one
    maxconn: int | None = None
    backlog: int | None = None
    http_reuse: str = "safe"
    disabled: bool = False
    description: str | None = None
    location: Location = Location("", 0)
    #: "" (the default "Connect from" line), "httplog", "httplog-clf" or "tcplog"
    log_format: str = ""
    #: `option redispatch`: 0 never, -1 on the last retry, N > 0 every N-th retry
    redispatch: int = 0
    #: answered 200 by the frontend itself, without a log line (`monitor-uri`)
    monitor_uri: bytes | None = None
    #: keep-alive probes of TCP: count, idle and interval (seconds) per side
    clitcpka_cnt: int | None = None
    clitcpka_idle: int | None = None
    clitcpka_intvl: int | None = None
    srvtcpka_cnt: int | None = None
    srvtcpka_idle: int | None = None
    srvtcpka_intvl: int | None = None
    #: source address of the connections to the servers
    source: SourceSettings | None = None
    #: `id` was given rather than counted
    forced_id: bool = False
    rules: ProxyRules = ProxyRules()
    stick_table: StickTableSettings | None = None
    #: replies in place of the built-in ones, by status (`errorfile`, `http-error`, ...)
    errors: Mapping[int, ReplySpec] = field(default_factory=dict)
    cookie: CookieSettings | None = None
    #: what the cookies of servers that have none are made of, see `cookie`
    dynamic_cookie_key: str | None = None
    #: what health checks of its servers say and expect; None: they connect
    check_script: CheckScript | None = None
    #: a command checks the servers
    external_check: ExternalSettings | None = None

    @property
    def is_frontend(self) -> bool:
        return self.kind != "backend"

    @property
    def is_backend(self) -> bool:
        return self.kind != "frontend"


@dataclass(frozen=True, slots=True)
class StatsSocket:
    """One `stats socket` line of the global section."""

    bind: BindSettings
    timeout: int = 10_000


@dataclass(frozen=True, slots=True)
class GlobalSettings:
    """The `global` sections and what the command line changes in them."""

    nbthread: int | None = None
    #: thread number (from 1) -> CPU numbers
    cpu_map: dict[int, frozenset[int]] = field(default_factory=dict)
    maxconn: int | None = None
    #: connections and sessions accepted per second; 0: no limit
    maxconnrate: int = 0
    maxsessrate: int = 0
    #: "on" or "preserve-env": backends may have their servers checked by commands
    external_check: str = ""
    daemon: bool = False
    pidfile: str | None = None
    chroot: str | None = None
    user: str | None = None
    group: str | None = None
    uid: int | None = None
    gid: int | None = None
    node: str | None = None
    description: str | None = None
    localpeer: str | None = None
    #: the folder of server state files, and the one for all backends
    server_state_base: str | None = None
    server_state_file: str | None = None
    quiet: bool = False
    logs: tuple[LogSettings, ...] = ()
    log_tag: str | None = None
    log_send_hostname: str | None = None
    stats_sockets: tuple[StatsSocket, ...] = ()
    hard_stop_after: int | None = None
    #: ms between SIGUSR1 and the soft stop
    grace: int = 0
    #: ms over which a soft stop spreads the end of idle connections; -1: it lets them be
    close_spread_time: int = 0
    strict_limits: bool = True
    #: health checks tell of their own connection in PROXY headers of version 2, instead of LOCAL
    pp2_never_send_local: bool = False
    ulimit_n: int | None = None
    #: no more descriptors than this, whatever the system allows
    fd_hard_limit: int | None = None
    #: pipes for splicing in all; None: a share of what connections leave
    maxpipes: int | None = None
    spread_checks: int = 0  # percent, 0..50
    max_spread_checks: int | None = None
    #: `tune.*` values by full name, e.g. {"tune.bufsize": 16384}
    tune: dict[str, int | str | bool] = field(default_factory=dict)
    #: connections accepted at once on all stats sockets together
    stats_maxconn: int = 10
    #: pollers and system calls turned off: noepoll, nopoll, nosplice, noreuseport, nogetaddrinfo
    disabled_features: frozenset[str] = frozenset()
    #: variables of the process that are set when it starts (`set-var`)
    variables: tuple[Assignment, ...] = ()
    #: refuse to start when a warning was emitted (zero-warning, -dW)
    zero_warning: bool = False
    set_dumpable: bool = False
    #: calls, CPU and latency of tasks are measured: "on", "auto" or "off"
    profiling_tasks: str = "off"
    #: time holds of locks from the start (`profiling.locks on`)
    profiling_locks: bool = False
    #: `expose-experimental-directives`
    expose_experimental: bool = False
    #: names of fields in lower case -> as `h1-case-adjust` spells them
    h1_case: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UserSettings:
    """A user of a `userlist`. `password` is a hash of crypt(3), or plain where it is `insecure`;
    None: nobody is that user.
    """

    password: bytes | None
    insecure: bool = False
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration."""

    global_: GlobalSettings
    proxies: tuple[ProxySettings, ...]
    files: tuple[str, ...] = ()
    #: the environment after setenv, presetenv, unsetenv and resetenv
    environment: dict[str, str] = field(default_factory=dict)
    rings: tuple[RingSettings, ...] = ()
    log_forwards: tuple[LogForwardSettings, ...] = ()
    resolvers: Mapping[str, ResolversSettings] = field(default_factory=dict)
    #: `userlist` sections by name: users by name
    userlists: Mapping[str, Mapping[str, UserSettings]] = field(default_factory=dict)
    #: `http-errors` sections by name: responses by status
    http_errors: Mapping[str, Mapping[int, StoredMessage]] = field(default_factory=dict)
    #: what ACLs and maps look into (`rules.patterns.store.PatternStore`): lists that may change
    patterns: Any = field(default=None, compare=False, repr=False)
    #: servers that rules or other servers point at, as (backend, server): they cannot be removed
    referenced_servers: frozenset[tuple[str, str]] = frozenset()

    def proxy(self, name: str, *, backend: bool) -> ProxySettings | None:
        """The frontend or backend side called `name`, or None."""
        for p in self.proxies:
            if p.name == name and (p.is_backend if backend else p.is_frontend):
                return p
        return None

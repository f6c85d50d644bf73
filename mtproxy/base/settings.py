"""The parsed configuration as every layer sees it: immutable, complete, no behaviour.

`config/` is the only writer: it reads haproxy.cfg, resolves `defaults`, checks everything and
returns one `Settings`. All layers below read it. Nothing here is changed after load: each thread
builds its own runtime objects from it. Times are integer milliseconds, sizes are bytes,
`None` means "not set" (for a timeout: infinite).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from mtproxy.base.checkscript import CheckScript
from mtproxy.base.location import Location as Location  # noqa: PLC0414  # known by both names
from mtproxy.base.ruleset import Assignment, Expression, ProxyRules, ReplySpec, StoredMessage
from mtproxy.base.sticktable import StickTableSettings


class AddressKind(Enum):
    """What an address names; the values are HAProxy's prefixes."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"
    UNIX = "unix"
    ABNS = "abns"
    FD = "fd"
    UDP4 = "udp4"
    UDP6 = "udp6"
    #: a server whose name has no address
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Address:
    """A socket address. `host` is a literal IP address ("0.0.0.0" and "::" for any), or a path."""

    kind: AddressKind
    host: str = ""
    port: int = 0
    fd: int = -1
    #: text as written, for messages and `show` commands
    text: str = ""
    #: a port given as +N or -N is relative to the port of the client's connection
    port_offset: int | None = None


@dataclass(frozen=True, slots=True)
class BindSettings:
    """One listening address of a `bind` line; a list or a port range gives several."""

    address: Address
    name: str | None = None
    id: int | None = None
    backlog: int | None = None
    mode: int | None = None  # permissions of a UNIX socket
    user: str | None = None
    group: str | None = None
    v4v6: bool = False
    v6only: bool = False
    defer_accept: bool = False
    tfo: bool = False
    mss: int | None = None
    interface: str | None = None
    #: the level of a stats socket: user, operator or admin
    level: str = "operator"
    location: Location = Location("", 0)
    uid: int | None = None  # owner of a UNIX socket, by number
    gid: int | None = None
    #: connections accepted at once on this address; None: the proxy's limit
    maxconn: int | None = None
    #: TCP_USER_TIMEOUT in ms
    tcp_ut: int | None = None
    #: a stats socket's `severity-output`: none, number or string
    severity_output: str = "none"
    #: a multiplexer forced by `proto`: "h1" or "none"
    proto: str | None = None
    #: connections begin with a PROXY header
    accept_proxy: bool = False
    #: the threads that accept and serve its connections: "all", "odd", "even" or "FIRST-LAST"
    threads: str = "all"
    #: sockets that share the threads among them; 0: one for each thread
    shards: int = 1
    #: foreign addresses, too (IP_TRANSPARENT)
    transparent: bool = False


@dataclass(frozen=True, slots=True)
class SendProxy:
    """The PROXY header that connections to a server begin with (manual 5.2, `send-proxy`)."""

    version: int = 1
    # TLVs, of version 2 alone
    crc32c: bool = False
    unique_id: bool = False
    authority: bool = False


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """When and where a server is checked; times in ms (manual 5.2)."""

    inter: int = 2000
    fastinter: int | None = None
    downinter: int | None = None
    rise: int = 2
    fall: int = 3
    address: Address | None = None
    port: int | None = None
    #: checks begin with this header, too
    send_proxy: SendProxy | None = None
    #: checks go through the server's SOCKS4 proxy
    via_socks4: bool = False


@dataclass(frozen=True, slots=True)
class ResolveSettings:
    """How a server's name is looked up while the proxy runs (manual 5.2 and 5.3)."""

    #: the `resolvers` section
    resolvers: str
    #: the family that is asked for first: "ipv4" or "ipv6"
    prefer: str = "ipv6"
    #: several servers of a backend may have one address of a name
    allow_dup_ip: bool = False
    #: weights of SRV records mean nothing
    ignore_weight: bool = False
    #: networks whose addresses are preferred
    nets: tuple[str, ...] = ()
    #: the SRV name that the server is a slot of; it has no host name of its own then
    srv_name: str | None = None


@dataclass(frozen=True, slots=True)
class ExternalSettings:
    """`external-check`: the command, the PATH that it is looked for in and gets, and whether it
    gets this process's environment, too (manual 4.2).
    """

    command: str
    path: str
    preserve_env: bool = False


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """`agent-check`: `inter` in ms; `address` None: the server's; `send` is sent first."""

    inter: int
    port: int
    address: Address | None = None
    send: bytes = b""


@dataclass(frozen=True, slots=True)
class StateSettings:
    """What a server's state follows and entails (manual 5.2)."""

    #: `track`: "server" of the same backend, or "backend/server"; empty: none
    track: str = ""
    #: "up" until the first failed check, "fully-up", "down" until one passes, "fully-down"
    init_state: str = "up"
    #: what traffic is watched for: "none", "layer4" or "layer7"
    observe: str = "none"
    #: errors in a row until something is done
    error_limit: int = 10
    #: "fastinter", "fail-check", "sudden-death" or "mark-down"
    on_error: str = "fail-check"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One `server` line after `default-server` was applied (manual 5.2)."""

    name: str
    id: int
    address: Address
    weight: int = 1  # 0..256
    backup: bool = False
    disabled: bool = False
    #: None: the server is not checked
    check: CheckSettings | None = None
    location: Location = Location("", 0)
    #: the name to resolve again later, when the address was written as a host name
    hostname: str | None = None
    #: TCP_USER_TIMEOUT in ms
    tcp_ut: int | None = None
    #: TCP fast open, in mode http
    tfo: bool = False
    #: idle connections kept over all threads; -1: no limit, 0: no reuse (manual 5.2)
    pool_max_conn: int = -1
    #: ms after which an idle connection that nobody used is closed; 0: no reuse
    pool_purge_delay: int = 5000
    #: how often a connection is used again before it is closed; -1: no limit
    max_reuse: int = -1
    source: Address | None = None
    #: the host name has no address (`init-addr none`, -dr): the server starts in maintenance
    unresolved: bool = False
    #: `rise` and `fall`, also of a server that is not checked: reports give them
    rise: int = 2
    fall: int = 3
    #: `id` was given rather than counted
    forced_id: bool = False
    #: how messages of a ring are told apart: "legacy" (by line feeds) or "octet-count"
    log_proto: str = "legacy"
    #: no stick table remembers the server
    non_stick: bool = False
    #: what the persistence cookie calls it; empty: nothing
    cookie: bytes = b""
    send_proxy: SendProxy | None = None
    #: sessions served at once; 0: no limit
    maxconn: int = 0
    #: ... as long as the backend's load is low, see `ProxySettings.fullconn`
    minconn: int = 0
    #: requests that wait for this server alone; 0: no limit
    maxqueue: int = 0
    #: `on-marked-down shutdown-sessions`
    shutdown_sessions: bool = False
    #: `on-marked-up shutdown-backup-sessions`
    shutdown_backups: bool = False
    #: the SOCKS4 proxy that connections go through
    socks4: Address | None = None
    #: None: the host name is looked up at the start alone
    resolve: ResolveSettings | None = None
    #: where its points on a ring come from: "id", "addr" or "addr-port"
    hash_key: str = "id"
    #: GET and HEAD are not served but sent elsewhere: what stands before their path (`redir`)
    redir: bytes = b""
    #: ms in which a server that came up gets to its full weight; 0: at once
    slowstart: int = 0
    states: StateSettings = StateSettings()
    #: None: no agent is asked
    agent: AgentSettings | None = None
    #: `init-addr` asks the state file for the first address of a name
    init_last: bool = True


@dataclass(frozen=True, slots=True)
class SampleSettings:
    """`sample RANGES:SIZE`: of SIZE messages in turn, those at the positions of `ranges`.

    Ranges are (first, last), from 1, in order, without overlap; none goes beyond `size`.
    """

    ranges: tuple[tuple[int, int], ...]
    size: int


@dataclass(frozen=True, slots=True)
class LogSettings:
    """One log target. `address` None with `stdio` "stdout"/"stderr" writes to that descriptor, with
    `ring` into the ring of that name.
    """

    address: Address | None
    stdio: str | None = None
    ring: str | None = None
    facility: str | None = None
    level: str = "debug"  # the least important level that is sent
    minlevel: str = "emerg"  # levels more important than this are capped to it
    length: int = 1024
    #: None: rfc3164 where `log-send-hostname` says a name, else local
    format: str | None = None
    location: Location = Location("", 0)
    #: None: every message
    sample: SampleSettings | None = None


#: what `show events` lists without any `ring` section
BUILT_IN_SINKS = ("stdout", "stderr", "buf0")


@dataclass(frozen=True, slots=True)
class RingSettings:
    """A `ring` section: a buffer in memory that log lines go to (manual 3.9)."""

    name: str
    description: str = ""
    #: how the head of a message looks, whatever the `log` line says
    format: str = "raw"
    #: bytes of a message, head included
    maxlen: int = 1024
    #: bytes of all messages, with what it takes to tell them apart
    size: int = 16384
    #: every one of them gets a copy of all messages
    servers: tuple[ServerSettings, ...] = ()
    connect_timeout: int | None = None
    server_timeout: int | None = None
    location: Location = Location("", 0)


@dataclass(frozen=True, slots=True)
class LogForwardSettings:
    """A `log-forward` section: syslog that comes in over TCP (`binds`) or as datagrams goes to all
    `logs` (manual 3.10).
    """

    name: str
    binds: tuple[BindSettings, ...] = ()
    datagrams: tuple[BindSettings, ...] = ()
    logs: tuple[LogSettings, ...] = ()
    #: connections at a time
    maxconn: int = 10
    backlog: int | None = None
    #: ms without a byte after which a connection is closed
    client_timeout: int | None = None
    location: Location = Location("", 0)


@dataclass(frozen=True, slots=True)
class NameServer:
    """A `nameserver` line of a resolvers section."""

    name: str
    address: Address
    location: Location = Location("", 0)
    #: it is asked over TCP
    stream: bool = False


@dataclass(frozen=True, slots=True)
class ResolversSettings:
    """A `resolvers` section (manual 5.3.2). Times in ms."""

    name: str
    nameservers: tuple[NameServer, ...] = ()
    #: how often a question is asked again
    retries: int = 3
    timeout_retry: int = 1000
    #: bytes of an answer that are announced as acceptable
    payload_size: int = 512
    #: how long an address that was learnt is used without asking
    hold_valid: int = 10_000
    #: how long after the last valid answer a server keeps its address although the name does not
    #: exist, nobody may tell, nobody answers, or something else is wrong
    hold_nx: int = 30_000
    hold_refused: int = 30_000
    hold_timeout: int = 30_000
    hold_other: int = 30_000
    #: how long a record is kept that answers have no more
    hold_obsolete: int = 0
    #: pause between two look-ups of a server's name
    timeout_resolve: int = 1000
    #: made of /etc/resolv.conf without being asked for
    implicit: bool = False
    location: Location = Location("", 0)


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
    source: Address | None = None
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


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The command line after `cli.args` understood it (management guide, section 3)."""

    #: files and directories in the order given; a directory stands for its *.cfg, sorted
    paths: tuple[str, ...] = ()
    check: bool = False  # -c
    condition: str | None = None  # -cc
    #: 0: run, 1: -v, 2: -vv
    version: int = 0
    help: bool = False
    debug: bool = False  # -d
    foreground: bool = False  # -db
    daemon: bool = False  # -D
    quiet: bool = False  # -q
    verbose: bool = False  # -V
    zero_warning: bool = False  # -dW
    diag: bool = False  # -dD
    check_locks: bool = False  # -dL
    #: -dr: a server's name that cannot be resolved does not prevent the start
    ignore_resolution_failures: bool = False
    #: noepoll (-de), nopoll (-dp), nosplice (-dS), nogetaddrinfo (-dG), noreuseport (-dR), ...
    disabled_features: frozenset[str] = frozenset()
    pidfile: str | None = None  # -p
    local_peer: str | None = None  # -L
    maxconn: int | None = None  # -n
    proxy_maxconn: int | None = None  # -N
    memory_limit_mb: int | None = None  # -m
    directory: str | None = None  # -C
    #: processes to be told to stop once this one serves: -sf (finish), -st (terminate)
    stop_pids: tuple[int, ...] = ()
    stop_at_once: bool = False  # -st rather than -sf
    dump: bool = False  # -dC: print the configuration as understood
    #: accepted and without a meaning here, e.g. "-dM", "-dI"
    ignored: tuple[str, ...] = ()

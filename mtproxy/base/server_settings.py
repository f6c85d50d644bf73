"""Servers as configured: `server` lines, how they are checked and looked up, `resolvers` sections.
Immutable, part of `base.settings.Settings`, whose rules hold here, too: times are milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from mtproxy.base.addresses import Address, SendProxy, SourceSettings
from mtproxy.base.location import Location


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
    source: SourceSettings | None = None
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

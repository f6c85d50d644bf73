"""A server while its lines are being read: the mutable twin of `ServerSettings`.

It starts as a copy of what `default-server` says; words of the line change it; `freeze` makes the
immutable record. Main thread only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from mtproxy.base.addresses import Address, SendProxy, SourceSettings
from mtproxy.base.location import Location
from mtproxy.base.server_settings import (
    AgentSettings,
    CheckSettings,
    ResolveSettings,
    ServerSettings,
    StateSettings,
)

NOWHERE = Location("", 0)

#: what a ring has unless its section says otherwise, in bytes; HAProxy's
RING_MAXLEN = 1024
RING_SIZE = 16384


@dataclass(slots=True)
class ServerDraft:
    """A `server` or `default-server` line; every value that was not given is None."""

    name: str = ""
    location: Location = NOWHERE
    address: Address | None = None
    hostname: str | None = None
    id: int | None = None
    weight: int = 1
    backup: bool = False
    disabled: bool = False
    check: bool = False
    inter: int | None = None
    fastinter: int | None = None
    downinter: int | None = None
    rise: int = 2
    fall: int = 3
    check_address: Address | None = None
    check_port: int | None = None
    tcp_ut: int | None = None
    tfo: bool = False
    pool_max_conn: int = -1
    pool_purge_delay: int = 5000
    max_reuse: int = -1
    source: SourceSettings | None = None
    proto: str | None = None
    #: the host name could not be resolved, and that was allowed
    unresolved: bool = False
    #: how to find the first address of a host name; empty: the default
    init_addr: tuple[str, ...] = ()
    resolvers: str | None = None
    resolve_prefer: str = "ipv6"
    allow_dup_ip: bool = False
    ignore_weight: bool = False
    resolve_nets: tuple[str, ...] = ()
    srv_name: str | None = None
    log_proto: str = "legacy"
    non_stick: bool = False
    cookie: str = ""
    send_proxy_v1: bool = False
    send_proxy_v2: bool = False
    proxy_v2_options: frozenset[str] = frozenset()
    check_send_proxy: bool = False
    #: added at run time: its checks do only what they are told to
    dynamic: bool = False
    #: never changed in place: `default-server` and the servers after it share it
    states: StateSettings = field(default_factory=StateSettings)
    agent_check: bool = False
    agent_inter: int | None = None
    agent_address: Address | None = None
    agent_port: int | None = None
    agent_send: str = ""
    maxconn: int = 0
    minconn: int = 0
    maxqueue: int = 0
    shutdown_sessions: bool = False
    shutdown_backups: bool = False
    socks4: Address | None = None
    check_via_socks4: bool = False
    check_proto: str | None = None
    hash_key: str = "id"
    redir: str = ""
    slowstart: int = 0

    def _agent(self) -> AgentSettings | None:
        """Interval, address and port are those of the health check unless it has its own."""
        if not self.agent_check:
            return None
        return AgentSettings(
            self.agent_inter or self.inter or 2000,
            self.agent_port or self.check_port or 0,
            self.agent_address or self.check_address,
            os.fsencode(self.agent_send),
        )

    def _send_proxy(self) -> SendProxy | None:
        """As in HAProxy an option of version 2 alone has version 1 sent."""
        options = self.proxy_v2_options
        if not (self.send_proxy_v1 or self.send_proxy_v2 or options):
            return None
        return SendProxy(
            2 if self.send_proxy_v2 else 1,
            crc32c="crc32c" in options,
            unique_id="unique-id" in options,
            authority="authority" in options,
        )

    def _resolve(self) -> ResolveSettings | None:
        if self.resolvers is None or (self.hostname is None and self.srv_name is None):
            return None
        return ResolveSettings(
            self.resolvers,
            self.resolve_prefer,
            self.allow_dup_ip,
            self.ignore_weight,
            self.resolve_nets,
            self.srv_name,
        )

    def freeze(self, number: int) -> ServerSettings:
        assert self.address is not None
        check = None
        send_proxy = self._send_proxy()
        if self.check:
            # checks of another place do not speak the server's protocol unless told to
            same_place = self.check_address is None and self.check_port is None
            same_place = same_place and not self.dynamic
            check = CheckSettings(
                inter=2000 if self.inter is None else self.inter,
                fastinter=self.fastinter,
                downinter=self.downinter,
                rise=self.rise,
                fall=self.fall,
                address=self.check_address,
                port=self.check_port,
                send_proxy=(
                    send_proxy or SendProxy()
                    if self.check_send_proxy
                    else send_proxy
                    if same_place
                    else None
                ),
                via_socks4=self.check_via_socks4,
            )
        return ServerSettings(
            name=self.name,
            id=number,
            address=self.address,
            weight=self.weight,
            backup=self.backup,
            disabled=self.disabled,
            check=check,
            location=self.location,
            hostname=self.hostname,
            tcp_ut=self.tcp_ut,
            tfo=self.tfo,
            pool_max_conn=self.pool_max_conn,
            pool_purge_delay=self.pool_purge_delay,
            max_reuse=self.max_reuse,
            source=self.source,
            unresolved=self.unresolved,
            rise=self.rise,
            fall=self.fall,
            forced_id=self.id is not None,
            init_last=not self.init_addr or self.init_addr[0] == "last",
            log_proto=self.log_proto,
            non_stick=self.non_stick,
            cookie=os.fsencode(self.cookie),
            send_proxy=send_proxy,
            states=self.states,
            agent=self._agent(),
            # a lower limit alone, or one that is not lower, is the limit
            maxconn=max(self.maxconn, self.minconn),
            minconn=self.minconn or self.maxconn,
            maxqueue=self.maxqueue,
            shutdown_sessions=self.shutdown_sessions,
            shutdown_backups=self.shutdown_backups,
            socks4=self.socks4,
            resolve=self._resolve(),
            hash_key=self.hash_key,
            redir=os.fsencode(self.redir),
            slowstart=self.slowstart,
        )


def free_numbers(wanted: list[int | None]) -> list[int]:
    """Ids as given; the others get the next free number, and every element moves it by one.

    This is HAProxy's way, which statistics show: with ids (none, 1, none) the result is 2, 1, 4.
    """
    used = {number for number in wanted if number is not None}
    result = []
    following = 1
    for number in wanted:
        if number is None:
            while following in used:
                following += 1
            number = following
            used.add(number)
        result.append(number)
        following += 1
    return result

"""Where the proxy listens and what it connects to, as configured: addresses, `bind` lines, PROXY
headers. Immutable, part of `base.settings.Settings`, whose rules hold here, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from mtproxy.base.location import Location


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


class UseSource(Enum):
    """Whose address servers see, rather than one of ours (manual 4.2, `usesrc`)."""

    ADDRESS = "address"
    #: the client's, and its port
    CLIENT = "client"
    #: the client's, from a port that the system chooses
    CLIENT_IP = "clientip"
    #: the one that a header of the request names
    HEADER = "hdr_ip"


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """`source`: where connections to servers come from (manual 4.2 and 5.2)."""

    address: Address
    #: the last port of a range that begins with the port of `address`; 0: there is no range
    high_port: int = 0
    #: the network interface that they leave through, whatever routes say; empty: any
    interface: str = ""
    #: None: nobody else's
    usesrc: UseSource | None = None
    #: of ADDRESS
    foreign: Address | None = None
    #: of HEADER: its name in lower case, and which of its parts: from 1 on, or from -1 backwards;
    #: 0 is none at all
    header: bytes = b""
    occurrence: int = -1


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

"""Where messages go, as configured: `log` lines, `ring` and `log-forward` sections. Immutable, part
of `base.settings.Settings`, whose rules hold here, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from mtproxy.base.addresses import Address, BindSettings
from mtproxy.base.location import Location
from mtproxy.base.server_settings import ServerSettings


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

"""Connections to servers that come from somebody else's address (`usesrc`, manual 4.2).

`outer_maker` makes, once per thread and server, the function that finds a stream's address. As in
HAProxy a request without the header, or whose header is not looked for (occurrence 0, mode tcp), is
not sent to the server: 500, or an end, with IC. What the header has need not be an IPv4 address:
the digits at its beginning are one, and no digits are the address that the system chooses.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any

from mtproxy.base.addresses import UseSource
from mtproxy.http.fields import parts_of
from mtproxy.stream.stream import Stop, Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.base.addresses import SourceSettings
    from mtproxy.net.source import Outer

_NUMBERS = re.compile(rb"([0-9]*)(?:\.([0-9]*)(?:\.([0-9]*)(?:\.([0-9]*))?)?)?")


def outer_maker(settings: SourceSettings | None) -> Callable[[Any], Outer | None] | None:
    """Finds the address that a connection for a stream comes from (None: from ours after all);
    None where they all come from ours. The function raises Stop.
    """
    if settings is None:
        return None
    match settings.usesrc:
        case UseSource.ADDRESS:
            foreign = settings.foreign
            assert foreign is not None
            outer = (foreign.host, foreign.port)
            return lambda _stream: outer
        case UseSource.CLIENT:
            return _of_client
        case UseSource.CLIENT_IP:
            return _of_client_ip
        case UseSource.HEADER:
            return _of_header(settings.header, settings.occurrence)
    return None


def for_one_client(settings: SourceSettings | None) -> bool:
    """Whether each client's connections come from an address of its own."""
    return settings is not None and settings.usesrc in (UseSource.CLIENT, UseSource.CLIENT_IP)


def _of_client(stream: Stream) -> Outer | None:
    host = stream.client_ip
    # a UNIX socket has none
    return None if host == "unix" else (host, stream.client_port)


def _of_client_ip(stream: Stream) -> Outer | None:
    host = stream.client_ip
    return None if host == "unix" else (host, 0)


def _of_header(name: bytes, occurrence: int) -> Callable[[Stream], Outer]:
    index = occurrence - 1 if occurrence > 0 else occurrence

    def find(stream: Any) -> Outer:
        request = stream.request if stream.bconf.http and occurrence else None
        parts = () if request is None else parts_of(request, name)
        try:
            value = parts[index]
        except IndexError:
            for one in (stream.srv, stream.be):
                one.counters.failed_conns += 1
            raise Stop(500, "IC") from None
        return address_in(value), 0

    return find


def address_in(value: bytes) -> str:
    """The IPv4 address at the beginning of a header's value; what it lacks is 0. Of a number the
    last three digits count, and it may carry over, as in HAProxy.
    """
    found = _NUMBERS.match(value)
    assert found is not None  # it matches everything
    number = 0
    for shift, digits in zip((24, 16, 8, 0), found.groups(), strict=True):
        number += int(digits[-3:] or b"0") << shift if digits else 0
    return socket.inet_ntoa((number & 0xFFFFFFFF).to_bytes(4))

"""Socket addresses as haproxy.cfg writes them (manual 4.2 "bind", 5.2 "server", "log").

`parse_addresses` understands lists and port ranges (bind), `parse_address` one address. Forms:
`IP:PORT`, `:PORT`, `*:PORT`, `[IPV6]:PORT`, a host name, `/path`, and the prefixes `ipv4@ ipv6@
ip@ tcp@ tcp4@ tcp6@ udp@ udp4@ udp6@ unix@ uxst@ uxdg@ abns@ fd@`, each possibly behind `stream+`
or `dgram+`. `$NAME` and `${NAME}` are expanded even outside quotes. Main thread only: a host name
is resolved by the C library, which may block.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.units import decimal
from mtproxy.base.xxhash import xxh64

#: the longest path of a UNIX socket that HAProxy accepts: 97 characters leave room for a suffix
#: below the kernel's 108
MAX_UNIX_PATH = 97

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_PREFIX = re.compile(r"(?:(stream|dgram)\+)?(?:([a-z0-9]+)@)?(.*)", re.DOTALL)
_PORT_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")

_INET_FAMILIES = {
    "": socket.AF_UNSPEC,
    "ip": socket.AF_UNSPEC,
    "tcp": socket.AF_UNSPEC,
    "udp": socket.AF_UNSPEC,
    "ipv4": socket.AF_INET,
    "tcp4": socket.AF_INET,
    "udp4": socket.AF_INET,
    "ipv6": socket.AF_INET6,
    "tcp6": socket.AF_INET6,
    "udp6": socket.AF_INET6,
}
_LATER = {
    "sockpair": "socket pairs",
    "quic4": "QUIC",
    "quic6": "QUIC",
    "rhttp": "reverse HTTP",
    "abnsz": "zero-terminated abstract sockets",
    "mptcp": "MPTCP",
    "mptcp4": "MPTCP",
    "mptcp6": "MPTCP",
    "rev": "reverse HTTP",
    "tcpmd5": "TCP MD5 signatures",
    "ring": "ring buffers",
}


class AddressError(ValueError):
    """The text is no usable address."""


class Port(Enum):
    """What an address must, may or must not say about its port."""

    MANDATORY = auto()  # bind: a port or a range
    OPTIONAL = auto()  # log
    OPTIONAL_OR_OFFSET = auto()  # server: none, N, +N or -N
    OPTIONAL_OR_RANGE = auto()  # source of a server: none, N or N-M
    FORBIDDEN = auto()


#: name, family -> literal addresses
Resolver = Callable[[str, int], list[str]]


def resolve(name: str, family: int) -> list[str]:
    """The addresses of `name` by the C library, in its order; empty when there is none."""
    try:
        found = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in found]


def resolve_plainly(name: str, family: int) -> list[str]:
    """`resolve` without getaddrinfo (`nogetaddrinfo`, -dG): IPv4 only, by gethostbyname."""
    if family == socket.AF_INET6:
        return []
    try:
        return [socket.gethostbyname(name)]
    except (OSError, UnicodeError):
        return []


@dataclass(frozen=True, slots=True)
class ParsedAddress:
    """An address and the host name it came from (None for a literal)."""

    address: Address
    hostname: str | None = None


def expand(text: str, environ: Mapping[str, str]) -> str:
    """`$NAME` and `${NAME}` replaced; an unset variable is empty."""
    return _VARIABLE.sub(lambda found: environ.get(found[1] or found[2], ""), text)


def _literal_family(host: str) -> int | None:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return family
    return None


def _split_host_port(text: str) -> tuple[str, str | None]:
    """The last colon separates the port, except inside brackets."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise AddressError(f"missing ']' in '{text}'")
        if not rest:
            return host, None
        if not rest.startswith(":"):
            raise AddressError(f"unexpected '{rest}' after ']' in '{text}'")
        return host, rest[1:]
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, None
    return host, port


def _check_port(text: str, number: int, *, zero_allowed: bool) -> int:
    if number > 65535 or (number == 0 and not zero_allowed):
        raise AddressError(f"invalid port '{number}' in '{text}'")
    return number


def _ports(text: str, port: str | None, rule: Port) -> tuple[list[int], int | None]:
    """The ports written after an address, and the offset when it is +N or -N."""
    if port is None or port == "":
        if rule is Port.MANDATORY:
            raise AddressError(f"missing port number: '{text}'")
        return [0], None
    if rule is Port.FORBIDDEN:
        raise AddressError(f"unexpected port '{port}' in '{text}'")
    if rule is Port.OPTIONAL_OR_OFFSET and port[0] in "+-":
        if not port[1:].isascii() or not port[1:].isdigit():
            raise AddressError(f"invalid character in port number '{port}' in '{text}'")
        offset = decimal(port)
        _check_port(text, abs(offset), zero_allowed=True)
        return [0], offset
    found = _PORT_RANGE.fullmatch(port)
    if found is None:
        raise AddressError(f"invalid character in port number '{port}' in '{text}'")
    zero_allowed = rule is not Port.MANDATORY
    low = _check_port(text, decimal(found[1]), zero_allowed=zero_allowed)
    if found[2] is None:
        return [low], None
    if rule not in (Port.MANDATORY, Port.OPTIONAL_OR_RANGE):
        raise AddressError(f"port range not permitted here in '{text}'")
    high = _check_port(text, decimal(found[2]), zero_allowed=zero_allowed)
    if high < low or not low:
        raise AddressError(f"invalid port range '{port}' in '{text}'")
    return list(range(low, high + 1)), None


def _host(
    host: str, family: int, text: str, resolver: Resolver | None
) -> tuple[str, int, str | None]:
    """Literal address, its family, and the host name when one was resolved."""
    if host in ("", "*"):
        if family == socket.AF_INET6:
            return "::", socket.AF_INET6, None
        return "0.0.0.0", socket.AF_INET, None
    literal = _literal_family(host)
    if literal is not None:
        if family not in (socket.AF_UNSPEC, literal):
            raise AddressError(f"'{host}' is not of the address family asked for in '{text}'")
        return host, literal, None
    if resolver is None:
        raise AddressError(f"a literal IP address is expected in '{text}'")
    for candidate in resolver(host, family):
        literal = _literal_family(candidate)
        if literal is not None and family in (socket.AF_UNSPEC, literal):
            return candidate, literal, host
    raise AddressError(f"could not resolve address '{host}'")


def _path(kind: AddressKind, path: str, text: str) -> Address:
    if not path:
        raise AddressError(f"missing path in '{text}'")
    if len(path.encode("utf-8", "surrogateescape")) > MAX_UNIX_PATH:
        raise AddressError(f"socket path '{path}' too long (max {MAX_UNIX_PATH})")
    return Address(kind, host=path, text=text)


def _one(
    written: str, environ: Mapping[str, str], rule: Port, resolver: Resolver | None
) -> list[ParsedAddress]:
    text = expand(written, environ)
    found = _PREFIX.fullmatch(text)
    assert found is not None  # the pattern matches every text
    transport, prefix, rest = found[1] or "", found[2] or "", found[3]
    if not text:
        raise AddressError("empty address")
    datagram = transport == "dgram" or prefix.startswith("udp")
    if prefix in _LATER:
        raise AddressError(
            f"'{prefix}@' is known but not supported by mtproxy yet ({_LATER[prefix]})"
        )
    if prefix == "fd":
        if not rest.isascii() or not rest.isdigit():
            raise AddressError(f"file descriptor '{rest}' is not a number in '{written}'")
        return [ParsedAddress(Address(AddressKind.FD, fd=decimal(rest), text=text))]
    if prefix == "abns":
        return [ParsedAddress(_path(AddressKind.ABNS, rest, text))]
    if prefix in ("unix", "uxst", "uxdg") or (not prefix and rest.startswith("/")):
        return [ParsedAddress(_path(AddressKind.UNIX, rest, text))]
    family = _INET_FAMILIES.get(prefix)
    if family is None:
        raise AddressError(f"unknown address prefix '{prefix}@' in '{text}'")
    host_text, port_text = _split_host_port(rest)
    ports, offset = _ports(text, port_text, rule)
    host, actual, hostname = _host(host_text, family, text, resolver)
    if actual == socket.AF_INET6:
        kind = AddressKind.UDP6 if datagram else AddressKind.IPV6
    else:
        kind = AddressKind.UDP4 if datagram else AddressKind.IPV4
    base = Address(kind, host=host, text=text, port_offset=offset)
    return [ParsedAddress(replace(base, port=port), hostname) for port in ports]


def parse_with_range(
    text: str, environ: Mapping[str, str], resolver: Resolver | None = resolve
) -> tuple[Address, int]:
    """An address that may have a range of ports: it with the first, and the last one; 0: no range.
    Raises AddressError.
    """
    found = _one(text, environ, Port.OPTIONAL_OR_RANGE, resolver)
    return found[0].address, found[-1].address.port if len(found) > 1 else 0


def dynamic_cookie(key: str, address: Address) -> bytes:
    """The cookie of a server at an IP address (manual 4.2, `cookie ... dynamic`); else empty."""
    family = {AddressKind.IPV4: socket.AF_INET, AddressKind.IPV6: socket.AF_INET6}.get(address.kind)
    if family is None:
        return b""
    secret = os.fsencode(key) + socket.inet_pton(family, address.host)
    return b"%016x" % xxh64(secret + address.port.to_bytes(4))


def parse_addresses(
    text: str,
    environ: Mapping[str, str],
    *,
    port: Port = Port.MANDATORY,
    resolver: Resolver | None = resolve,
) -> list[Address]:
    """All addresses of a `bind` line: a comma-separated list, each with a port range perhaps."""
    items = text.split(",")
    if len(items) > 1 and not items[-1]:
        items.pop()  # HAProxy lets a list end with a comma
    return [parsed.address for item in items for parsed in _one(item, environ, port, resolver)]


def parse_address(
    text: str,
    environ: Mapping[str, str],
    *,
    port: Port = Port.OPTIONAL,
    resolver: Resolver | None = resolve,
) -> ParsedAddress:
    """One address. Raises AddressError for a list, a range, or anything malformed."""
    return _one(text, environ, port, resolver)[0]

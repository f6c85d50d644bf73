"""SOCKS4, the client's side: the request for a connection and what the proxy says to it.

Facts: SOCKS, a protocol for TCP proxy across firewalls (Ying-Da Lee). HAProxy names "HAProxy" as
the user, and so do we: proxies may be set up for it. Pure: any thread.
"""

from __future__ import annotations

import socket
from typing import Final

REPLY_SIZE: Final = 8
_USER: Final = b"HAProxy\0"
_GRANTED: Final = 0x5A

WRITE_ERROR: Final = "SOCKS4 Proxy write error during handshake"
READ_ERROR: Final = "SOCKS4 Proxy read error during handshake"
DENIED: Final = "SOCKS4 Proxy deny the request"


def request(host: str, port: int) -> bytes | None:
    """Asks for a connection to an IPv4 address; None for any other, which SOCKS4 cannot reach."""
    try:
        address = socket.inet_pton(socket.AF_INET, host)
    except OSError:
        return None
    return b"\x04\x01" + port.to_bytes(2) + address + _USER


def granted(reply: bytes) -> bool:
    """Whether a reply of REPLY_SIZE bytes says yes."""
    return reply[0] == 0 and reply[1] == _GRANTED

"""The record that a stream hands to its frontend's logger: what one log line can say.

`LogRecord` is a Protocol: the stream builds any object with these attributes. Each is read at most
once or twice per line and never written. Times are milliseconds; a timer that was never reached is
-1. Names of the timers and what they cover: HAProxy configuration manual, section 8.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class LogRecord(Protocol):
    """Attributes of one finished (or, with `option logasap`, half-way) transaction."""

    #: client address as text, "unix" when it came through a UNIX socket (then the port is the
    #: listener's id)
    client_ip: str
    client_port: int
    #: the address on which the client was accepted, same rules
    dst_ip: str
    dst_port: int
    #: wall clock (ms since the epoch) at which the connection was accepted, or for the second and
    #: later requests of a connection the moment at which it became ready for them
    accept_ms: int

    frontend: str
    #: the frontend's own name when no backend was chosen
    backend: str
    #: "<NOSRV>" when the stream reached no server
    server: str
    #: source and destination of the server side connection; None before there is one
    backend_src_ip: str | None
    backend_src_port: int
    server_ip: str | None
    server_port: int

    t_h: int  # handshake (Th), never -1
    t_i: int  # idle time before the first byte of the request (Ti), never -1
    t_R: int  # noqa: N815  # receiving the request (TR)
    t_w: int  # waiting in queues (Tw)
    t_c: int  # connecting (Tc)
    t_r: int  # waiting for the response head (Tr)
    t_a: int  # first byte of the request to last byte of the response (Ta)
    t_t: int  # accept to close (Tt)
    t_q: int  # Th + Ti + TR (Tq)

    #: status sent to the client; -1 when there is none
    status: int
    bytes_read: int  # sent to the client, heads included (%B)
    bytes_uploaded: int  # received from the client (%U)
    #: True when the client closed without having sent one byte (for `option dontlognull`)
    null: bool
    #: 4 characters in HTTP mode, 2 in TCP mode (manual 8.5)
    term_state: str

    act_conn: int
    fe_conn: int
    be_conn: int
    srv_conn: int
    retries: int
    redispatched: bool
    srv_queue: int
    backend_queue: int

    #: the request's first line as received, None when it was no request ("<BADREQ>")
    request_line: bytes | None
    #: captured values in the order of the `capture` lines; empty when there are none
    captured_request_headers: Sequence[bytes | None]
    captured_response_headers: Sequence[bytes | None]
    #: "name=value" of the captured cookie
    request_cookie: bytes | None
    response_cookie: bytes | None
    unique_id: str | None
    #: number of this request (or TCP session) since start, for %rt
    request_count: int
    tls_version: str | None
    tls_cipher: str | None

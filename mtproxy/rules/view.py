"""What rules see of a stream: the attributes that fetches read and actions change.

`stream.Stream` and its heirs have them (the type checker compares). One thread owns a stream; the
functions that a thread built are only ever given its own streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import MutableSequence

    from mtproxy.http.h1_request import RequestHead
    from mtproxy.http.h1_response import ResponseHead
    from mtproxy.rules.endpoints import Endpoints
    from mtproxy.rules.sticktables import Tracking
    from mtproxy.rules.transaction import Transaction
    from mtproxy.rules.types import Ip4, Ip6


class View(Protocol):
    """A stream as rules see it.

    `txn` holds everything that rules know and change of the current transaction (of a TCP session:
    of the whole session). `request` and `response` are the heads as they are now; whoever wants to
    change one asks for `txn.own_request(view)` or `own_response` first. None: not there (yet, or
    any more).
    `may_change`: set by a fetch that found nothing because not everything has been received; see
    `conditions`.
    """

    ctx: Any
    room: Any
    task: Any
    #: names, of the frontend while there is no backend, "<NOSRV>" while there is no server
    backend: str
    server: str
    fe: Any
    be: Any
    #: how the stream deals with its client, and with its backend once it has one
    conf: Any
    bconf: Any
    srv: Any
    conn: Any
    sconn: Any
    listener: Any
    client_ip: str
    client_port: int
    #: the destination where it is known already; `dst_ip` and `dst_port` look it up
    dst_text: tuple[str, int] | None
    #: what the addresses were before rules changed them; None: they did not
    endpoints: Endpoints | None
    accept_ms: int
    retries: int
    #: no request came before on this connection
    first: bool
    #: -1 before the client was told one
    status: int
    #: ms spent in queues, until there was a connection to the server, and then the head of its
    #: answer; -1: not yet
    t_w: int
    t_c: int
    t_r: int
    #: the log line has been, or is being, made
    logged: bool
    txn: Transaction
    request: RequestHead | None
    response: ResponseHead | None
    may_change: bool
    #: what logs show, see `rules.keeping`
    request_line: bytes | None
    captured_request_headers: MutableSequence[bytes | None] | tuple[()]
    captured_response_headers: MutableSequence[bytes | None] | tuple[()]
    request_cookie: bytes | None
    response_cookie: bytes | None
    unique_id: str | None
    #: variables of the session: name without scope -> value
    sess_vars: dict[str, Any] | None
    #: what the connection tracks in stick tables; None: nothing so far
    tracking: Tracking | None
    #: keys that the server is noted for when it answers
    stick_keys: list[Any] | None

    def response_body(self) -> bytes: ...
    def set_limit(self, name: str, value: int) -> None: ...
    async def send_interim(self, message: bytes) -> None: ...
    async def look_up(self, resolvers: str, name: str, prefer: str) -> Ip4 | Ip6 | None: ...
    async def wait_for_request_body(self, until: int, at_least: int) -> None: ...
    async def wait_for_response_body(self, until: int, at_least: int) -> None: ...
    @property
    def dst_ip(self) -> str: ...
    @property
    def dst_port(self) -> int: ...
    @property
    def backend_src_ip(self) -> str | None: ...
    @property
    def backend_src_port(self) -> int: ...
    @property
    def server_ip(self) -> str | None: ...
    @property
    def server_port(self) -> int: ...

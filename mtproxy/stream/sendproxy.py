"""The PROXY header of a connection to a server (`send-proxy`, `send-proxy-v2`, manual 5.2).

It tells whom the stream knows as its client, as rules may have changed that: what `src` and `dst`
give. Connections to such a server are of use only for requests that would begin with the same
header; see `HttpExchange`. Owner thread only.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from mtproxy.net.connection import ERR, HUP, OUT, Connection
from mtproxy.net.proxyproto import (
    TLV_AUTHORITY,
    TLV_UNIQUE_ID,
    UNIQUE_ID_MAX,
    build_v1,
    build_v2,
)
from mtproxy.rules.endpoints import tlv
from mtproxy.rules.keeping import unique_id
from mtproxy.sched.tasklet import park

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.base.addresses import SendProxy
    from mtproxy.stream.stream import Stream


def header_maker(settings: SendProxy) -> Callable[[Stream], bytes]:
    """A function that makes the header for a stream."""
    if settings.version == 1:
        return _v1

    def v2(stream: Stream) -> bytes:
        tlvs = []
        if settings.authority and (value := tlv(stream, TLV_AUTHORITY)) is not None:
            tlvs.append((TLV_AUTHORITY, value))
        if settings.unique_id:
            text = unique_id(stream) or ""
            # what is longer would be refused (HAProxy cuts it to the same length)
            data = text.encode("utf-8", "surrogateescape")[: UNIQUE_ID_MAX - 1]
            tlvs.append((TLV_UNIQUE_ID, data))
        return build_v2(
            (stream.client_ip, stream.client_port),
            (stream.dst_ip, stream.dst_port),
            tuple(tlvs),
            checksum=settings.crc32c,
        )

    return v2


def _v1(stream: Stream) -> bytes:
    return build_v1((stream.client_ip, stream.client_port), (stream.dst_ip, stream.dst_port))


async def send_header(stream: Stream, conn: Connection, header: bytes, deadline: int) -> None:
    """Send all of it on a fresh connection until the tick `deadline`.

    Raises TimeoutError, and OSError where the connection is broken.
    """
    # a request follows at once in HTTP: one segment for both
    flags = socket.MSG_MORE if stream.fe.settings.mode == "http" else 0
    task = stream.task
    while header:
        if conn.ready & (OUT | ERR | HUP):
            try:
                header = header[conn.send(header, flags) :]
            except BlockingIOError:
                conn.ready &= ~OUT
            continue
        if stream.ctx.now >= deadline:
            raise TimeoutError
        task.set_expire(deadline)
        await park()

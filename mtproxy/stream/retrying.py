"""Requests that are sent again because of their answer, or for want of one (`retry-on`).

Only what had been read as a whole before it was sent can be sent again, which is at most what one
buffer holds; and only while nothing of the answer has been passed on. How often is `retries`,
together with connections that failed; `option redispatch` says when another server is tried.
A rule `disable-l7-retry` forbids it for one request. Owner thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.stream.connect import choose_redispatch, connect
from mtproxy.stream.stream import Stop

if TYPE_CHECKING:
    from mtproxy.http.h1_request import RequestHead
    from mtproxy.http.h1_response import ResponseHead
    from mtproxy.stream.http_exchange import HttpExchange


async def final_response(
    stream: HttpExchange,
    request: RequestHead,
    head: bytes,
    response: ResponseHead | None,
    received: bytes,
    reused: bool,
    since: int,
) -> tuple[ResponseHead, bytes, int]:
    """The response that is passed on, what was read behind its head, and the tick at which its
    request was sent. `response` and `received` are what there is of the first attempt's. Raises
    Stop.
    """
    words = stream.bconf.retry_on
    while True:
        failure: Stop | None = None
        if response is None or response.status < 200:
            try:
                response, received = await stream._response_head(request, reused, since, received)
            except Stop as stop:
                if _reason(stop) not in words:
                    raise
                failure = stop
        if failure is None:
            assert response is not None
            if str(response.status) not in words:
                return response, received, since
        if stream.retries >= stream.bconf.retries or stream.answered or _forbidden(stream):
            if failure is not None:
                raise failure
            assert response is not None
            return response, received, since
        if failure is not None and failure.state != "PH":
            # it was counted when it was met: what is tried again has not failed
            for side in (stream.srv, stream.be):
                if side is not None and failure.status:
                    side.counters.failed_resp -= 1
        stream.srv_status = None
        stream.logged = False
        await _send_again(stream, head)
        response, received, reused, since = None, b"", False, stream.ctx.now


def _reason(stop: Stop) -> str:
    """The word of `retry-on` for a failure."""
    if stop.state == "PH" and stop.status == 502:
        return "junk-response"
    if stop.state == "sH":
        return "response-timeout"
    if stop.state == "SH":
        return "junk-response" if stop.partial else "empty-response"
    return ""


def _forbidden(stream: HttpExchange) -> bool:
    return stream.room.ruled and stream.txn.no_retry


async def _send_again(stream: HttpExchange, head: bytes) -> None:
    """Send the request to the same server or, where that may be, to another one. Raises Stop."""
    stream.drop_server()
    if stream.up is not None:
        stream.up.close()
        stream.up = None
    stream.up_failed = False
    stream.retries += 1
    stream.unusual = True
    # of the server that failed, wherever the request goes next
    for side in (stream.srv, stream.be):
        if side is not None:
            side.counters.retries += 1
    await choose_redispatch(stream, stream.retries)
    stream.t_c = -1
    stream.sconn = stream.used = sconn = await connect(stream)
    stream._send_head(sconn, head)

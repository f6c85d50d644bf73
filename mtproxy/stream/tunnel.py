"""Two pumps at once: plain TCP, and whatever follows an Upgrade or a CONNECT.

A side that ends its input has the other side's output ended too, after everything was delivered
(half-close is kept). Silence is judged per side: `timeout client` for the client, `timeout server`
for the server, the `-fin` variants once the other direction has ended, or `timeout tunnel` for both
where it is set (manual 4.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.net.connection import ENDED
from mtproxy.sched.tasklet import park
from mtproxy.stream.conf import FOREVER
from mtproxy.stream.pump import Pump, SinkError, SourceError
from mtproxy.stream.stream import Stop

if TYPE_CHECKING:
    from mtproxy.stream.stream import Stream


async def tunnel(stream: Stream, up: Pump, down: Pump, *, fresh: bool = True) -> None:
    """Run both directions to their end. Raises Stop with the two letters of who ended it and when.

    `up` is client to server, `down` server to client; both run until the end of their input.
    The caller closes the pumps and adds their counts. Not `fresh`: bytes have gone before, and the
    stream's `client_expire` and `server_expire` say when silence is too long.
    """
    ctx = stream.ctx
    task = stream.task
    conf, bconf = stream.conf, stream.bconf
    tunnel_timeout = bconf.tunnel
    client_ms = tunnel_timeout or conf.client
    server_ms = tunnel_timeout or bconf.server
    if fresh:
        stream.client_expire = ctx.now + client_ms
        stream.server_expire = ctx.now + server_ms
    # when what was written last should have been taken (`option independent-streams`)
    client_write, server_write = stream.client_expire, stream.server_expire
    up_ended = down_ended = False
    while True:
        now = ctx.now
        moved_up = moved_down = False
        if not up.done:
            received, sent = up.received, up.sent
            try:
                moved_up = up.step()
            except SourceError:
                raise Stop(0, "CD") from None
            except SinkError:
                raise Stop(0, "SD") from None
            if moved_up:
                if up.received != received:
                    stream.client_expire = now + client_ms
                if up.sent != sent:
                    server_write = now + server_ms
                    if not bconf.independent:
                        stream.server_expire = server_write
        if not down.done:
            received, sent = down.received, down.sent
            try:
                moved_down = down.step()
            except SourceError:
                raise Stop(0, "SD") from None
            except SinkError:
                raise Stop(0, "C" + _phase(up_ended, down)) from None
            if moved_down:
                if down.received != received:
                    stream.server_expire = now + server_ms
                if down.sent != sent:
                    client_write = now + client_ms
                    if not conf.independent:
                        stream.client_expire = client_write
        if up.done and not up_ended:
            up_ended = True
            up.dst.shutdown_write()
            server_ms = bconf.server_fin if bconf.server_fin != bconf.server else server_ms
            stream.server_expire = now + server_ms
        if down.done and not down_ended:
            down_ended = True
            down.dst.shutdown_write()
            client_ms = conf.client_fin if conf.client_fin != conf.client else client_ms
            stream.client_expire = now + client_ms
        if up_ended and down_ended:
            return
        if up.more or down.more:
            # bulk: let the others run, then go on
            task.queue = ctx.bulk
            task.wake()
            await park()
            task.queue = ctx.normal
            continue
        # A side is waited for while it may still send, or must still take something.
        expire = on_server = FOREVER
        if not up_ended:
            expire = stream.client_expire
        if down.blocked_on_sink:
            expire = min(expire, client_write if conf.independent else stream.client_expire)
        if not down_ended:
            on_server = stream.server_expire
        if up.blocked_on_sink:
            on_server = min(on_server, server_write if bconf.independent else stream.server_expire)
        client = expire <= on_server
        expire = min(expire, on_server)
        if now >= expire:
            raise Stop(0, "c" + _phase(up_ended, down) if client else "sD")
        task.expire = expire
        if expire < task.timer:
            ctx.timers.arm(task, expire)
        await park()


def _phase(up_ended: bool, down: Pump) -> str:
    """L: the server has finished, what is left are the last data to the client."""
    return "L" if up_ended and (down.read_done or down.src.ready & ENDED) else "D"

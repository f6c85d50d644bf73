"""Streams as `show sess` prints them, in HAProxy 2.6's layout. On the stream's thread.

What HAProxy tells of its own parts (flags, analysers) and mtproxy has not is zero.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mtproxy.base.clock import NEVER
from mtproxy.stream.conf import FOREVER

if TYPE_CHECKING:
    from mtproxy.cli.runtime import CliSession
    from mtproxy.net.connection import Connection
    from mtproxy.stream.stream import Stream

#: states of a stream's two sides, HAProxy's numbers and names
_NONE, _CONNECTING, _ESTABLISHED = (0, "INI"), (5, "CON"), (8, "EST")

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


def duration(seconds: int) -> str:
    """Two units at most: `5s`, `2m10s`, `3h`, `1d2h`; `?` for what is past."""
    if seconds < 0:
        return "?"
    text, left, rest = "", 2, seconds
    for size, letter in _UNITS:
        count, rest = divmod(rest, size)
        if left and count:
            text += f"{count}{letter}"
            left -= 1
    if (left and rest) or not seconds:
        text += f"{rest}s"
    return text


def _until(stream: Stream, tick: int) -> str:
    """The time that is left until a tick; empty for never."""
    return "" if tick >= min(NEVER, FOREVER) else duration((tick - stream.ctx.now) // 1000)


def _long_until(stream: Stream, tick: int) -> str:
    text = _until(stream, tick)
    return {"": "<NEVER>", "?": "<PAST>"}.get(text, text)


def _protocol(stream: Stream) -> str:
    if stream.client_ip == "unix":
        return "unix_stream"
    return "tcpv6" if ":" in stream.client_ip else "tcpv4"


def _server_state(stream: Stream) -> tuple[int, str]:
    if stream.sconn is not None:
        return _ESTABLISHED
    return _NONE if stream.srv is None else _CONNECTING


def _fd(connection: Connection | None) -> int:
    return -1 if connection is None else connection.sock.fileno()


def line(stream: Stream) -> str:
    """One line of the list."""
    task, now = stream.task, stream.ctx.now
    backend = "<NONE>" if stream.be is None else stream.be.name
    server = "<none>" if stream.srv is None else stream.srv.name
    client, back = _until(stream, stream.client_expire), _until(stream, stream.server_expire)
    state = _server_state(stream)[0]
    text = (
        f"{id(stream):#x}: proto={_protocol(stream)} src={stream.client_ip}:{stream.client_port} "
        f"fe={stream.frontend} be={backend} srv={server} ts={2 * task.queued:02x} epoch=0 "
        f"age={duration((now - stream.accept_tick) // 1000)} calls={task.calls} rate=0 cpu=0 lat=0 "
        f"rq[f=000000h,i=0,an=00h,rx={client},wx={back},ax=] "
        f"rp[f=000000h,i=0,an=00h,rx={back},wx={client},ax=] "
        f"scf=[{_ESTABLISHED[0]},0h,fd={_fd(stream.conn)}] scb=[{state},0h,fd={_fd(stream.sconn)}] "
        f"exp={_until(stream, task.expire)} rc={stream.retries} c_exp="
    )
    return text + (f" run(nice={task.nice})\n" if task.queued else "\n")


def own_line(cli: CliSession) -> str:
    """That of the runtime connection that asks: HAProxy lists it too."""
    return (
        f"{id(cli):#x}: proto=unix_stream src=unix:1 fe=GLOBAL be=<NONE> srv=<none> ts=00 epoch=0 "
        "age=0s calls=1 rate=0 cpu=0 lat=0 rq[f=000000h,i=0,an=00h,rx=,wx=,ax=] "
        "rp[f=000000h,i=0,an=00h,rx=,wx=,ax=] scf=[8,0h,fd=-1] scb=[8,0h,fd=-1] exp= rc=0 c_exp=\n"
    )


def own_details(cli: CliSession) -> str:
    """The same in a list of details."""
    now = time.time()
    date = time.strftime("%d/%b/%Y:%H:%M:%S", time.localtime(now))
    return (
        f"{id(cli):#x}: [{date}.{int(now % 1 * 1e6):06d}] id=0 proto=unix_stream source=unix:1\n"
        "  flags=0x0, conn_retries=0, conn_exp=<NEVER> conn_et=0x000 srv_conn=(nil), "
        "pend_pos=(nil) waiting=0 epoch=0\n"
        "  frontend=GLOBAL (id=0 mode=tcp), listener=? (id=1) addr=unix:1\n"
        "  backend=<NONE> (id=-1 mode=-)\n"
        "  server=<NONE> (id=-1)\n"
    )


def details(stream: Stream) -> str:
    """Everything about one, several lines."""
    task, now = stream.task, stream.ctx.now
    fe = stream.fe.settings
    accepted = (stream.accept_tick + stream.ctx.wall_offset) / 1000
    date = time.strftime("%d/%b/%Y:%H:%M:%S", time.localtime(accepted))
    address = f"{stream.dst_ip}:{stream.dst_port}"
    name = "?" if stream.listener.name is None else stream.listener.name.decode(errors="replace")
    lines = [
        f"{id(stream):#x}: [{date}.{int(accepted % 1 * 1e6):06d}] id={stream.conn.sock.fileno()} "
        f"proto={_protocol(stream)} source={stream.client_ip}:{stream.client_port}",
        f"  flags=0x0, conn_retries={stream.retries}, conn_exp=<NEVER> conn_et=0x000 "
        f"srv_conn={_pointer(stream.srv)}, pend_pos=(nil) waiting=0 epoch=0",
        f"  frontend={fe.name} (id={fe.id} mode={fe.mode}), listener={name} "
        f"(id={stream.listener.id}) addr={address}",
        _backend_text(stream),
        _server_text(stream),
        f"  task={id(task):#x} (state={2 * task.queued:#04x} nice={task.nice} calls={task.calls} "
        f"rate=0 exp={_long_until(stream, task.expire)} tmask={1 << stream.ctx.tid:#x}"
        f"{', running' if task.queued else ''} age={duration((now - stream.accept_tick) // 1000)})",
    ]
    if stream.is_http and stream.request_line is not None:
        method, _, rest = stream.request_line.decode("utf-8", "replace").partition(" ")
        lines.append(
            f"  txn={id(stream):#x} flags=0x0 meth={method} status={stream.status} uri={rest!r}"
        )
    for side, connection, state in (
        ("scf", stream.conn, _ESTABLISHED),
        ("scb", stream.sconn, _server_state(stream)),
    ):
        end = "CONN" if connection is not None else "NONE"
        lines.append(
            f"  {side}={_pointer(connection)} flags=0x00000000 state={state[1]} "
            f"endp={end},{_pointer(connection)},0x00000000 sub=0"
        )
        if connection is not None:
            lines.append(f"      ready={connection.ready:#x} fd={_fd(connection)}")
    client = _long_until(stream, stream.client_expire)
    back = _long_until(stream, stream.server_expire)
    for name, read, write, total in (
        ("req", client, back, stream.bytes_uploaded),
        ("res", back, client, stream.bytes_read),
    ):
        lines.append(f"  {name} (f=0x000000 an=0x0 pipe=0 tofwd=0 total={total})")
        lines.append(f"      an_exp=<NEVER> rex={read} wex={write}")
    return "\n".join(lines) + "\n"


def _pointer(thing: object) -> str:
    return "(nil)" if thing is None else f"{id(thing):#x}"


def _backend_text(stream: Stream) -> str:
    if stream.be is None:
        return "  backend=<NONE> (id=-1 mode=-)"
    settings = stream.be.settings
    text = f"  backend={settings.name} (id={settings.id} mode={settings.mode})"
    if stream.sconn is not None:
        text += f" addr={stream.backend_src_ip}:{stream.backend_src_port}"
    return text


def _server_text(stream: Stream) -> str:
    if stream.be is None:
        return "  server=<NONE> (id=-1)"
    if stream.srv is None:
        return "  server=<none> (id=0)"
    text = f"  server={stream.srv.name} (id={stream.srv.settings.id})"
    if stream.sconn is not None:
        text += f" addr={stream.server_ip}:{stream.server_port}"
    return text

"""The sockets of `log-forward` sections: opened at the start, each section served by one thread."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mtproxy.log.intake import DatagramReader, Places, Relay, StreamIntake
from mtproxy.log.logger import sampling_of
from mtproxy.log.sampling import ThreadSampling
from mtproxy.net.listener import Acceptor
from mtproxy.net.sockets import BindError, listen, receive

if TYPE_CHECKING:
    from mtproxy.base.log_settings import LogForwardSettings
    from mtproxy.base.settings import Settings
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.fdtable import FdTable

#: connections that may wait in the kernel
_BACKLOG = 128


@dataclass(frozen=True, slots=True)
class BoundIntake:
    """A socket of the section number `section`."""

    section: int
    sock: socket.socket
    datagrams: bool


def bind_all(settings: Settings) -> tuple[list[BoundIntake], list[str]]:
    """Open all sockets; the second list says what failed. Main thread."""
    reuse_port = "noreuseport" not in settings.global_.disabled_features
    bound: list[BoundIntake] = []
    failures: list[str] = []
    for number, section in enumerate(settings.log_forwards):
        for bind in (*section.binds, *section.datagrams):
            datagrams = bind in section.datagrams
            try:
                if datagrams:
                    sock = receive(bind, reuse_port=reuse_port)
                else:
                    backlog = bind.backlog or section.backlog or _BACKLOG
                    sock = listen(bind, backlog, reuse_port=reuse_port)
            except BindError as e:
                place = bind.location
                failures.append(
                    f"Binding [{place.file}:{place.line}] for log-forward {section.name}: {e}"
                )
            else:
                bound.append(BoundIntake(number, sock, datagrams))
    return bound, failures


class _Intake:
    """All sockets of a section, which `sched.fdtable` calls with on its thread."""

    __slots__ = ("_pid", "_places", "_relay", "_settings")

    def __init__(self, settings: LogForwardSettings, pid: int) -> None:
        self._settings = settings
        self._pid = pid
        self._places = Places(settings.maxconn)
        self._relay: Relay | None = None

    def adopt(self, ctx: ThreadContext, bound: BoundIntake) -> None:
        """Watch a socket. Called on the section's thread while that sets up."""
        relay = self._relay
        if relay is None:
            shared = sampling_of(self._settings.logs)
            samples = None if shared is None else ThreadSampling(shared, ctx.tid)
            relay = Relay(self._settings, self._pid, ctx.room.thread_logs, samples)
            self._relay = relay
            # what paused for want of descriptors tries again
            ctx.housekeepers.append(lambda _ctx: self._places.resume())
        if bound.datagrams:
            DatagramReader(ctx, bound.sock, relay)
            return
        start = StreamIntake(relay, self._places, self._settings.client_timeout)
        self._places.acceptors.append(Acceptor(ctx, bound.sock, start, self._places, spread=False))


def announce(
    table: FdTable, settings: Settings, sockets: list[BoundIntake], pid: int, nbthread: int
) -> None:
    """Have one thread of each section watch its sockets. Main thread, before the threads start."""
    intakes = [_Intake(section, pid) for section in settings.log_forwards]
    for one in sockets:
        intake = intakes[one.section]

        def adopt(ctx: ThreadContext, intake: _Intake = intake, one: BoundIntake = one) -> None:
            intake.adopt(ctx, one)

        table.insert(one.sock.fileno(), [one.section % nbthread], adopt)

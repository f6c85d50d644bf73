"""What the running process does on signals (management guide, section 4).

SIGTERM and SIGINT stop at once; SIGUSR1 softly, after `grace`; SIGTTOU lets another process have
the ports and SIGTTIN takes them back; SIGHUP tells the state of all servers. Everything here runs
on thread 0, which the signal's handler wakes; what every thread has to do is posted to all of them.
"""

from __future__ import annotations

import errno
import signal
import socket
from typing import TYPE_CHECKING

from mtproxy.base.clock import monotonic_ms
from mtproxy.boot import lock_dump, notify, process
from mtproxy.boot.report import tell
from mtproxy.log import syslog
from mtproxy.stats.totals import add_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mtproxy.boot.build import BoundListener, Shared
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.pool import Pool
    from mtproxy.stats.runtime import ProxyRuntime, Runtime
    from mtproxy.stream.room import Room


#: longer than any process runs
_ENDLESS_MS = 1 << 50


class SignalActions:
    """The signals of one process. `install` on the main thread, before the others start."""

    def __init__(self, pool: Pool, shared: Shared, runtime: Runtime) -> None:
        self.pool = pool
        self.shared = shared
        self.runtime = runtime
        #: SIGTTOU came and no SIGTTIN since
        self.paused = False
        #: threads that have not yet left the listening sockets, while they are asked to
        self._waiting = 0

    def install(self) -> None:
        """Obey from now on."""
        pool = self.pool
        pool.handle_signal(signal.SIGTERM, self.stop_now)
        pool.handle_signal(signal.SIGINT, self.stop_now)
        pool.handle_signal(signal.SIGUSR1, self.stop_softly)
        pool.handle_signal(signal.SIGTTOU, self.pause)
        pool.handle_signal(signal.SIGTTIN, self.resume)
        pool.handle_signal(signal.SIGHUP, self.dump_servers)
        signal.signal(signal.SIGQUIT, lock_dump.on_signal)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        # a service manager may try it: there is no master process to reload
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        pool.on_soft_stop.append(self._leave_listeners)
        process.release_signals()

    # --- stopping

    def stop_now(self) -> None:
        """Leave all loops, whatever is in progress."""
        notify.stopping()
        self.pool.hard_stop()

    def stop_softly(self) -> None:
        """No new connections, once `grace` is over; the others come to their end."""
        pool, glob = self.pool, self.shared.settings.global_
        if pool.leaving:
            return
        pool.leaving = True
        notify.stopping()
        if glob.grace:
            text = f"Scheduling a soft-stop in {glob.grace} ms."
            tell("notice", text)
            pool.call_at(monotonic_ms() + glob.grace, self._stop_after_grace)
        else:
            self._stop_after_grace()

    def _stop_after_grace(self) -> None:
        pool, glob = self.pool, self.shared.settings.global_
        now = monotonic_ms()
        tell("warning", "stopping softly: no new connections; waiting for the others to end")
        if glob.close_spread_time:
            window = glob.close_spread_time if glob.close_spread_time > 0 else _ENDLESS_MS
            pool.close_spread = window
            pool.close_spread_end = now + window
        self._waiting = pool.nbthread
        pool.soft_stop()
        if glob.hard_stop_after is not None:
            pool.hard_stop_at(now + glob.hard_stop_after)

    def _leave_listeners(self, ctx: ThreadContext) -> None:
        """On every thread: the sockets leave the poller, idle connections look at the clock.

        Closing the sockets earlier would give their numbers to others while pollers know them.
        """
        room: Room = ctx.room
        for acceptor in room.acceptors:
            acceptor.hold()
        for front in room.fronts.values():
            for stream in list(front.streams):
                stream.task.wake()  # an idle one closes itself
        ctx.pool.run_on(0, self._listeners_left)

    def _listeners_left(self, ctx: ThreadContext) -> None:
        """On thread 0, once for each thread; the last time the sockets are closed."""
        self._waiting -= 1
        if self._waiting:
            return
        # who is in the kernel's queue already would be reset by the close
        for acceptor in ctx.room.acceptors:
            acceptor.take_rest()
        for listener in self.shared.listeners:
            listener.sock.close()
        for proxy in self.runtime.proxies:
            self._report(proxy, self._stopped_text(proxy))
        leave_when_empty(ctx)

    def _stopped_text(self, proxy: ProxyRuntime) -> str:
        front, back = _totals(proxy)
        return f"Proxy {proxy.name} stopped (cumulated conns: FE: {front[1]}, BE: {back[1]})."

    # --- giving the ports to another process, for a while

    def pause(self) -> None:
        """Stop listening, so that another process can bind the same addresses."""
        if self.paused or self.pool.leaving:
            return
        self.paused = True
        self._waiting = self.pool.nbthread
        self.pool.run_everywhere(self._hold)

    def _hold(self, ctx: ThreadContext) -> None:
        """On every thread."""
        for acceptor in ctx.room.acceptors:
            acceptor.hold()
        ctx.pool.run_on(0, self._held)

    def _held(self, _ctx: ThreadContext) -> None:
        """On thread 0, once for each thread."""
        self._waiting -= 1
        if self._waiting:
            return
        if not self.paused:  # SIGTTIN came meanwhile
            self.pool.run_everywhere(_release)
            return
        for listener in self._inet_listeners():
            try:
                # the port stays ours to listen on again, and free for others meanwhile
                listener.sock.shutdown(socket.SHUT_RD)
            except OSError as e:
                if e.errno != errno.ENOTCONN:
                    tell("warning", f"cannot pause a listener of {listener.proxy.name}: {e}")
        for proxy in self._frontends():
            self._report(proxy, f"Paused {_kind(proxy)} {proxy.name}.")

    def resume(self) -> None:
        """Listen again after `pause`."""
        if not self.paused or self.pool.leaving:
            return
        self.paused = False
        if self._waiting:
            return
        for listener in self._inet_listeners():
            try:
                listener.sock.listen(listener.backlog)
            except OSError as e:
                tell("alert", f"cannot listen again for {listener.proxy.name}: {e.strerror}")
        self.pool.run_everywhere(_release)
        for proxy in self._frontends():
            self._report(proxy, f"Resumed {_kind(proxy)} {proxy.name}.")

    def _inet_listeners(self) -> Iterator[BoundListener]:
        for listener in self.shared.listeners:
            if listener.sock.family in (socket.AF_INET, socket.AF_INET6):
                yield listener

    def _frontends(self) -> Iterator[ProxyRuntime]:
        named = {listener.proxy.name for listener in self.shared.listeners}
        for proxy in self.runtime.proxies:
            if proxy.frontends and proxy.name in named:
                yield proxy

    # --- telling

    def dump_servers(self) -> None:
        """On standard error and in the logs of each proxy: its servers, in HAProxy's words."""
        tell("warning", "SIGHUP received, dumping servers states.")
        for proxy in self.runtime.proxies:
            name = proxy.name
            self._log(
                proxy,
                syslog.NOTICE,
                f"SIGHUP received, dumping servers states for proxy {name}.",
            )
            servers = proxy.shared.servers if proxy.shared is not None else ()
            for server in servers:
                counters = add_up(server.side_counters)
                self._report(
                    proxy,
                    f"SIGHUP: Server {name}/{server.name} is {'UP' if server.running else 'DOWN'}."
                    f" Conn: {counters.conn_cur} act, {counters.queue_cur} pend,"
                    f" {counters.cum_sess} tot.",
                    syslog.NOTICE,
                )
            self._report(proxy, _proxy_text(proxy), syslog.NOTICE)

    def _report(self, proxy: ProxyRuntime, text: str, level: int = syslog.WARNING) -> None:
        tell("warning", text)
        self._log(proxy, level, text)

    def _log(self, proxy: ProxyRuntime, level: int, text: str) -> None:
        """Into the logs of a proxy, on thread 0."""
        room: Room = self.pool.contexts[0].room
        log: Callable[[int, str], None] | None = None
        if proxy.frontends:
            log = room.fronts[proxy.name].frontend.log_text
        else:
            logger = room.backend_logs.get(proxy.name)
            log = None if logger is None else logger.text
        if log is not None:
            log(level, text)


def _release(ctx: ThreadContext) -> None:
    for acceptor in ctx.room.acceptors:
        acceptor.release()


def _kind(proxy: ProxyRuntime) -> str:
    """How HAProxy calls it in messages."""
    return "proxy" if proxy.settings.kind == "listen" else proxy.settings.kind


def _totals(proxy: ProxyRuntime) -> tuple[tuple[int, int], tuple[int, int]]:
    """(connections now, connections so far) of the frontend and of the backend side."""
    front = back = (0, 0)
    if proxy.frontends:
        found = add_up(proxy.frontend_counters())
        front = (found.conn_cur, found.cum_conn)
    if proxy.backends:
        found = add_up(proxy.backend_counters())
        back = (found.conn_cur, found.cum_sess)
    return front, back


def _proxy_text(proxy: ProxyRuntime) -> str:
    front, back = _totals(proxy)
    shared = proxy.shared
    if shared is None or not shared.servers:
        state = "has no servers."
    elif shared.active:
        state = f"has {shared.active} active servers and {shared.backup} backup servers available."
    else:
        state = ("is running on backup servers" if shared.backup else "has no server available") + (
            " !"
        )
    own = sum([backend.counters.queue_cur for backend in proxy.backends])
    servers = shared.servers if shared is not None else ()
    pending = own + sum([c.queue_cur for server in servers for c in server.side_counters])
    return (
        f"SIGHUP: Proxy {proxy.name} {state} Conn: act(FE+BE): {front[0]}+{back[0]},"
        f" {pending} pend ({own} unass), tot(FE+BE): {front[1]}+{back[1]}."
    )


def leave_when_empty(ctx: ThreadContext) -> None:
    """End the loops when no thread has a connection any more. Any thread."""
    if all(shared.conns == 0 and not shared.inbox for shared in ctx.pool.shareds):
        ctx.pool.hard_stop()

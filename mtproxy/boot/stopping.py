"""What the running process does on signals (management guide, section 4).

SIGTERM and SIGINT stop at once; SIGUSR1 softly, after `grace`; SIGTTOU lets another process have
the ports and SIGTTIN takes them back; SIGHUP tells the state of all servers. Everything here runs
on thread 0, which the signal's handler wakes; what every thread has to do is posted to all of them.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from mtproxy.base.clock import monotonic_ms
from mtproxy.boot import lock_dump, notify, process
from mtproxy.boot.report import tell
from mtproxy.log import syslog
from mtproxy.stats.totals import add_up
from mtproxy.stream.listening import on_every_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.boot.build import Shared
    from mtproxy.sched.context import ThreadContext
    from mtproxy.sched.pool import Pool
    from mtproxy.stats.runtime import ProxyRuntime, Runtime
    from mtproxy.stream.listening import FrontListeners
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
        #: the frontends that it paused, and how many of them are not done yet
        self._given_away: list[FrontListeners] = []
        self._pausing = 0

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
        pool.soft_stop()
        on_every_thread(pool, _leave_listeners, self._close_listeners)
        if glob.hard_stop_after is not None:
            pool.hard_stop_at(now + glob.hard_stop_after)

    def _close_listeners(self) -> None:
        """Closing them while pollers know them would give their numbers to others."""
        first = self.pool.contexts[0]
        # who is in the kernel's queue already would be reset by the close
        for acceptor in first.room.acceptors:
            acceptor.take_rest()
        for listener in self.shared.listeners:
            listener.sock.close()
        for proxy in self.runtime.proxies:
            self._report(proxy, self._stopped_text(proxy))
        leave_when_empty(first)

    def _stopped_text(self, proxy: ProxyRuntime) -> str:
        front, back = _totals(proxy)
        return f"Proxy {proxy.name} stopped (cumulated conns: FE: {front[1]}, BE: {back[1]})."

    # --- giving the ports to another process, for a while

    def pause(self) -> None:
        """Stop listening, so that another process can bind the same addresses."""
        if self.paused or self._pausing or self.pool.leaving:
            return
        self.paused = True
        fronts = self.shared.front_listeners.values()
        self._given_away = [
            front for front in fronts if front.sockets and not (front.paused or front.stopped)
        ]
        self._pausing = len(self._given_away)
        for front in self._given_away:
            front.pause(self.pool, self._report_change(front, "Paused"))

    def _report_change(self, front: FrontListeners, what: str) -> Callable[[], None]:
        settings = front.settings
        # how HAProxy calls it in messages
        kind = "proxy" if settings.kind == "listen" else settings.kind
        proxy = self.runtime.frontend(settings.name)
        assert proxy is not None

        def done() -> None:
            self._report(proxy, f"{what} {kind} {settings.name}.")
            if what == "Paused":
                self._pausing -= 1
                if not self._pausing and not self.paused:
                    self._take_back()  # SIGTTIN came meanwhile

        return done

    def resume(self) -> None:
        """Listen again after `pause`."""
        if self.paused and not self.pool.leaving:
            self.paused = False
            if not self._pausing:
                self._take_back()

    def _take_back(self) -> None:
        for front in self._given_away:
            if front.stopped:
                continue
            failed = front.resume(self.pool, self._report_change(front, "Resumed"))
            if failed is not None:
                tell("alert", f"cannot listen again for {front.settings.name}: {failed}")

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


def _leave_listeners(ctx: ThreadContext) -> None:
    """On every thread: the sockets leave the poller, idle connections look at the clock."""
    room: Room = ctx.room
    for acceptor in room.acceptors:
        acceptor.hold()
    for front in room.fronts.values():
        for stream in list(front.streams):
            stream.task.wake()  # an idle one closes itself


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

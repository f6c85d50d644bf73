"""From a valid configuration to a running process, and out of it again. Main thread."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence

from mtproxy import __version__
from mtproxy.base.clock import monotonic_ms
from mtproxy.base.settings import AddressKind, BindSettings, CommandLine, Settings
from mtproxy.boot import build, limits, lock_dump, memory, process, runtime_socket
from mtproxy.boot.report import silence, tell
from mtproxy.net.sockets import BindError, listen
from mtproxy.proxy.check import start_checks
from mtproxy.proxy.sticktable_expiry import start_expiry
from mtproxy.sched import profiled
from mtproxy.sched.context import DEFAULT_PIPE_SIZE, ThreadContext
from mtproxy.sched.fdtable import ENTRY_SIZE
from mtproxy.sched.loop import DEFAULT_MAX_EVENTS
from mtproxy.sched.pool import Pool
from mtproxy.sched.runqueue import DEFAULT_RUNQUEUE_DEPTH
from mtproxy.sched.waitqueue_variants import DEFAULT_VARIANT
from mtproxy.stream.connect import purge_idle, shed_idle
from mtproxy.sync import bare as bare_locks
from mtproxy.sync import debug as lock_debug
from mtproxy.sync import profile as lock_profile
from mtproxy.sync import stats as lock_stats

MAX_THREADS = 64


def prepare(options: CommandLine) -> None:
    """What has to be done before the configuration is read. May execute the program anew."""
    if options.memory_limit_mb:
        memory.restart_if_needed()


def run(settings: Settings, options: CommandLine) -> int:
    """Start the proxy and serve until it is stopped. Returns the exit code."""
    process.hold_signals()
    glob = settings.global_
    nbthread = glob.nbthread or min(len(os.sched_getaffinity(0)), MAX_THREADS)
    if glob.quiet:
        silence()
    _warn_about_the_gil(nbthread)
    off = glob.disabled_features
    if off >= {"noepoll", "nopoll"}:
        tell("alert", "[mtproxy.main()] No polling mechanism is left: epoll and poll are off.")
        return 1
    try:
        found = limits.work_out(settings, nbthread, options.maxconn)
        if options.memory_limit_mb:
            memory.limit(options.memory_limit_mb, nbthread, found.maxsock * ENTRY_SIZE)
    except limits.LimitError as e:
        tell("alert", f"[mtproxy.main()] {e}")
        return 1
    for warning in found.warnings:
        tell("warning", f"[mtproxy.main()] {warning}")
    os.environ.update(settings.environment)
    listeners, failures = _bind_all(settings)
    runtime_sockets, runtime_failures = runtime_socket.bind_all(settings)
    failures += runtime_failures
    failures += _shared_descriptors(listeners, runtime_sockets)
    if failures:
        for failure in failures:
            tell("alert", failure)
        tell("alert", "[mtproxy.main()] Some protocols failed to start their listeners! Exiting.")
        return 1
    prctl = None
    if glob.set_dumpable:
        try:
            prctl = process.find_prctl()
        except process.ProcessError as e:
            tell("warning", f"[mtproxy.main()] {e}")
    try:
        if glob.daemon:
            process.daemonize(glob.pidfile)
        elif glob.pidfile:
            process.write_pidfile(glob.pidfile, os.getpid())
        process.confine(glob)
    except process.ProcessError as e:
        tell("alert", f"[mtproxy.main()] {e}")
        return 1

    if prctl is not None:
        try:
            process.make_dumpable(prctl)
        except process.ProcessError as e:
            tell("warning", f"[mtproxy.main()] {e}")
    if not glob.tune.get("tune.lock-stats", True):
        bare_locks.strip()
    if options.check_locks:
        lock_debug.enable()
    lock_stats.configure(nbthread)
    if glob.profiling_locks:
        lock_profile.switch_on()
    try:
        pool = _make_pool(settings, found, nbthread)
    except OSError as e:
        tell("alert", f"[mtproxy.main()] Cannot prepare {nbthread} threads: {e.strerror}.")
        return 1
    pool.task_profiling = glob.profiling_tasks
    pipe_size = int(glob.tune.get("tune.pipesize", DEFAULT_PIPE_SIZE))
    if "nosplice" in off:
        pipe_size = 0
    shared = build.make_shared(settings, found.maxconn, listeners, monotonic_ms())
    runtime = runtime_socket.make_runtime(settings, pool, shared, found)
    build.announce_listeners(pool.fd_table, shared, nbthread)
    runtime_socket.announce(pool.fd_table, runtime, runtime_sockets)

    def setup(ctx: ThreadContext) -> None:
        ctx.pipe_size = pipe_size
        ctx.pipes_left = found.pipes
        ctx.shed = shed_idle
        ctx.room = room = build.build_room(ctx, shared)
        runtime_socket.add_thread(ctx, room, runtime)
        ctx.housekeepers.append(_housekeeping)
        profiled.adopt(ctx)

    def ready(ctx: ThreadContext) -> None:
        start_checks(shared.backends.values(), glob, pool.wait_queue, ctx.now, ctx.tid)
        start_expiry(shared.rules.tables.values(), pool.wait_queue)
        for failure in process.stop_others(options.stop_pids, at_once=options.stop_at_once):
            tell("warning", f"[mtproxy.main()] {failure}")
        _announce(settings, nbthread)
        gc.collect()
        gc.freeze()
        gc.enable()

    pool.on_soft_stop.append(_ListenStop(shared, nbthread))
    _install_signals(pool, settings)
    try:
        pool.run(setup, ready)
    finally:
        process.ignore_signals()
    return 1 if pool.failed else 0


def _make_pool(settings: Settings, found: limits.Limits, nbthread: int) -> Pool:
    """Raises OSError where descriptors or memory do not suffice."""
    glob = settings.global_
    return Pool(
        nbthread,
        runqueue_depth=int(glob.tune.get("tune.runqueue-depth", DEFAULT_RUNQUEUE_DEPTH)),
        cpu_map=glob.cpu_map,
        use_epoll="noepoll" not in glob.disabled_features,
        max_events=int(glob.tune.get("tune.maxpollevents", DEFAULT_MAX_EVENTS)),
        maxsock=found.maxsock,
        full_scan=glob.tune.get("tune.fd.scan") == "full",
        wait_queue=str(glob.tune.get("tune.wait-queue", DEFAULT_VARIANT)),
    )


def _warn_about_the_gil(nbthread: int) -> None:
    enabled = getattr(sys, "_is_gil_enabled", None)
    if enabled is None or enabled():
        tell(
            "warning",
            "this Python has a global interpreter lock: all threads together use one CPU. "
            "Run mtproxy on a free-threaded build (python3.13t) to use them all."
            + (" 'nbthread 1' costs least here." if nbthread > 1 else ""),
        )


def _bind_all(settings: Settings) -> tuple[list[build.BoundListener], list[str]]:
    reuse_port = "noreuseport" not in settings.global_.disabled_features
    listeners: list[build.BoundListener] = []
    failures: list[str] = []
    for proxy in settings.proxies:
        if proxy.disabled:
            continue
        for bind in proxy.binds:
            backlog = bind.backlog or proxy.backlog or proxy.maxconn or build.DEFAULT_BACKLOG
            try:
                sock = listen(bind, backlog, reuse_port=reuse_port)
            except BindError as e:
                kind = "proxy" if proxy.kind == "listen" else proxy.kind
                where = f"{bind.location.file}:{bind.location.line}"
                failures.append(f"Binding [{where}] for {kind} {proxy.name}: {e}")
            else:
                listeners.append(build.BoundListener(proxy, bind, sock, backlog))
    return listeners, failures


def _shared_descriptors(
    listeners: Sequence[build.BoundListener], sockets: Sequence[runtime_socket.BoundSocket]
) -> list[str]:
    """Complaints about inherited descriptors that stand in two places of the configuration."""
    failures: list[str] = []
    seen: set[int] = set()
    binds = [(one.bind, one.sock) for one in listeners]
    binds += [(one.settings.bind, one.sock) for one in sockets]
    for bind, sock in binds:
        if sock.fileno() in seen:
            where = f"{bind.location.file}:{bind.location.line}"
            failures.append(f"Binding [{where}]: {_describe(bind)} is in use by another listener")
        seen.add(sock.fileno())
    return failures


def _describe(bind: BindSettings) -> str:
    address = bind.address
    if address.kind is AddressKind.FD:
        return f"inherited descriptor {address.fd}"
    if address.kind in (AddressKind.UNIX, AddressKind.ABNS):
        return f"{address.kind.value}@{address.host}"
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"


def _announce(settings: Settings, nbthread: int) -> None:
    """Tell whoever started us what we listen on."""
    threads = f"{nbthread} thread{'s' * (nbthread > 1)}"
    tell("notice", f"mtproxy {__version__} is running on {threads}")
    for proxy in settings.proxies:
        if proxy.binds and not proxy.disabled:
            where = ", ".join(_describe(b) for b in proxy.binds)
            tell("notice", f"{proxy.kind} {proxy.name} ({proxy.mode}) listens on {where}")
    for stats_socket in settings.global_.stats_sockets:
        tell("notice", f"runtime socket on {_describe(stats_socket.bind)}")


def _housekeeping(ctx: ThreadContext) -> None:
    """Once a second on every thread."""
    room = ctx.room
    for backend in room.backends.values():
        if backend.retired:
            backend.bury()
        for server in backend.servers:
            if server.idle:
                purge_idle(server, ctx.now)
    room.after_session(ctx)
    if ctx.pool.stopping:
        _leave_when_empty(ctx)


class _ListenStop:
    """Soft stop: each thread takes the listening sockets off its poller, then thread 0 closes them.

    Closing them earlier would give their numbers to others while pollers still know them.
    """

    def __init__(self, shared: build.Shared, nbthread: int) -> None:
        self.shared = shared
        self.left = nbthread

    def __call__(self, ctx: ThreadContext) -> None:
        room = ctx.room
        for acceptor in room.acceptors:
            acceptor.pause()
        for front in room.fronts.values():
            for stream in list(front.streams):
                stream.task.wake()  # an idle one closes itself
        ctx.pool.run_on(0, self.paused)

    def paused(self, ctx: ThreadContext) -> None:
        """On thread 0, once for each thread."""
        self.left -= 1
        if self.left == 0:
            for listener in self.shared.listeners:
                listener.sock.close()
            _leave_when_empty(ctx)


def _leave_when_empty(ctx: ThreadContext) -> None:
    if all(shared.conns == 0 and not shared.inbox for shared in ctx.pool.shareds):
        ctx.pool.hard_stop()


def _install_signals(pool: Pool, settings: Settings) -> None:
    """Manual, management guide section 4: TERM and INT stop now, USR1 stops softly."""
    glob = settings.global_

    def soft() -> None:
        tell("warning", "stopping softly: no new connections; waiting for the others to end")
        pool.soft_stop()
        if glob.hard_stop_after is not None:
            pool.hard_stop_at(monotonic_ms() + glob.hard_stop_after)

    pool.handle_signal(signal.SIGTERM, pool.hard_stop)
    pool.handle_signal(signal.SIGINT, pool.hard_stop)
    pool.handle_signal(signal.SIGUSR1, soft)
    signal.signal(signal.SIGQUIT, lock_dump.on_signal)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for ignored in (signal.SIGHUP, signal.SIGUSR2, signal.SIGTTOU, signal.SIGTTIN):
        signal.signal(ignored, signal.SIG_IGN)
    process.release_signals()

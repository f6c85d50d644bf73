"""From a valid configuration to a running process, and out of it again. Main thread."""

from __future__ import annotations

import gc
import os
import sys
from functools import partial

from mtproxy import __version__
from mtproxy.base import report
from mtproxy.base.clock import monotonic_ms
from mtproxy.base.commandline import CommandLine
from mtproxy.base.settings import Settings
from mtproxy.boot import (
    binding,
    build,
    limits,
    logforward,
    memory,
    notify,
    preload,
    process,
    runtime_socket,
    stopping,
)
from mtproxy.boot.report import silence, tell
from mtproxy.proxy import statefile
from mtproxy.proxy.check import start_check, start_checks
from mtproxy.proxy.sticktable_expiry import start_expiry
from mtproxy.sched import profiled
from mtproxy.sched.context import DEFAULT_PIPE_SIZE, ThreadContext
from mtproxy.sched.fdtable import ENTRY_SIZE
from mtproxy.sched.loop import DEFAULT_MAX_EVENTS
from mtproxy.sched.pool import Pool
from mtproxy.sched.runqueue import DEFAULT_RUNQUEUE_DEPTH
from mtproxy.sched.waitqueue_variants import DEFAULT_VARIANT
from mtproxy.stream.connect import purge_idle, shed_idle
from mtproxy.stream.contstats import count_ongoing
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
    listeners, runtime_sockets, failures = binding.bind_all(settings, options.stop_pids, nbthread)
    intakes, more = logforward.bind_all(settings)
    failures += more
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
    states = statefile.read_all(settings, partial(tell, "warning"))
    # The files of the program itself are out of sight afterwards.
    preload.preload(settings)
    if not glob.tune.get("tune.lock-stats", True):
        bare_locks.strip()
    try:
        if glob.daemon:
            process.daemonize(glob.pidfile)
        elif glob.pidfile:
            _note_pid(glob.pidfile)
        process.confine(glob)
    except process.ProcessError as e:
        tell("alert", f"[mtproxy.main()] {e}")
        return 1

    if prctl is not None:
        try:
            process.make_dumpable(prctl)
        except process.ProcessError as e:
            tell("warning", f"[mtproxy.main()] {e}")
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
    shared = build.make_shared(settings, found.maxconn, listeners, monotonic_ms(), nbthread)
    runtime = runtime_socket.make_runtime(settings, pool, shared, found)
    build.announce_listeners(pool.fd_table, shared, nbthread)
    runtime.start_check = lambda server, ctx: start_check(server, glob, ctx)
    runtime_socket.announce(pool.fd_table, runtime, runtime_sockets)
    logforward.announce(pool.fd_table, settings, intakes, shared.pid, nbthread)

    def setup(ctx: ThreadContext) -> None:
        ctx.pipe_size = pipe_size
        ctx.pipes_left = found.pipes
        ctx.shed = shed_idle
        ctx.room = room = build.build_room(ctx, shared)
        runtime_socket.add_thread(ctx, room, runtime)
        ctx.housekeepers.append(_housekeeping)
        profiled.adopt(ctx)

    def ready(ctx: ThreadContext) -> None:
        statefile.apply_all(states, shared.backends, ctx, partial(tell, "warning"))
        start_checks(shared.backends.values(), glob, pool.wait_queue, ctx.now, ctx.tid)
        start_expiry(shared.rules.tables.values(), pool.wait_queue)
        for failure in process.stop_others(options.stop_pids, at_once=options.stop_at_once):
            tell("warning", f"[mtproxy.main()] {failure}")
        _announce(settings, nbthread)
        notify.ready(f"{len(shared.listeners)} listeners on {nbthread} threads")
        runtime.startup_logs.extend(report.end_of_start())
        gc.collect()
        gc.freeze()
        gc.enable()

    stopping.SignalActions(pool, shared, runtime).install()
    try:
        pool.run(setup, ready)
    finally:
        process.ignore_signals()
    return 1 if pool.failed else 0


def _note_pid(path: str) -> None:
    """In the foreground nobody depends on the file (HAProxy does not even write it)."""
    try:
        process.write_pidfile(path, os.getpid())
    except process.ProcessError as e:
        tell("warning", f"[mtproxy.main()] {e}; it is not needed in the foreground")


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


def _announce(settings: Settings, nbthread: int) -> None:
    """Tell whoever started us what we listen on."""
    threads = f"{nbthread} thread{'s' * (nbthread > 1)}"
    tell("notice", f"mtproxy {__version__} is running on {threads}")
    for proxy in settings.proxies:
        if proxy.binds and not proxy.disabled:
            where = ", ".join(binding.describe(b) for b in proxy.binds)
            tell("notice", f"{proxy.kind} {proxy.name} ({proxy.mode}) listens on {where}")
    for stats_socket in settings.global_.stats_sockets:
        tell("notice", f"runtime socket on {binding.describe(stats_socket.bind)}")


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
    count_ongoing(ctx)
    if ctx.pool.stopping:
        stopping.leave_when_empty(ctx)

"""The process as the system sees it: daemon, pid file, root directory, user.

Main thread, at start.
"""

from __future__ import annotations

import grp
import os
import pwd
import resource
import signal
import sys
from collections.abc import Callable, Iterable

from mtproxy.base.settings import GlobalSettings

#: what others send to a proxy that they believe to run, and what would end one that does not yet
_HELD = frozenset(
    {
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGHUP,
        signal.SIGTTIN,
        signal.SIGTTOU,
    }
)


class ProcessError(Exception):
    """A step failed; the text says which."""


def hold_signals() -> None:
    """Have signals wait that a running proxy obeys or ignores, until it knows how to.

    Listening sockets and the pid file are there before the handlers are: without this a SIGQUIT
    for the lock statistics, sent as soon as they can be seen, would end the process. SIGTERM and
    SIGINT end a start as they always did. Threads inherit what is held: none may exist yet.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)


def release_signals() -> None:
    """Deliver what has waited: the handlers are there. Before the threads start."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)


def ignore_signals() -> None:
    """The loops have ended: what is sent from now on comes too late, and must not end the process
    in another way than it ends by itself. Python takes its handlers away on its way out.
    """
    for signum in _HELD:
        signal.signal(signum, signal.SIG_IGN)


def daemonize(pidfile: str | None) -> None:
    """Go to the background: the parent exits 0, the child leads a session of its own.

    Called when everything that can fail visibly is done, and before any thread exists. The parent
    writes the pid file before it exits, so that whoever started it finds the file there.
    Raises ProcessError in the parent when it cannot be written.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child > 0:
        if pidfile:
            try:
                write_pidfile(pidfile, child)
            except ProcessError:
                os.kill(child, signal.SIGKILL)
                raise
        os._exit(0)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    if null > 2:
        os.close(null)


def write_pidfile(path: str, pid: int) -> None:
    """Write `pid`, as HAProxy does, one line. Raises ProcessError."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            _write(path, pid)  # a device or a pipe keeps its place
            return
        # in one step: whoever waits for the file must not read an empty one
        temporary = f"{path}.{os.getpid()}.tmp"
        _write(temporary, pid)
        os.rename(temporary, path)
    except OSError as e:
        raise ProcessError(f"Cannot create pidfile {path}: {e.strerror}") from e


def _write(path: str, pid: int) -> None:
    with open(path, "w", encoding="ascii") as f:
        f.write(f"{pid}\n")


def confine(settings: GlobalSettings) -> None:
    """Change root directory, group and user as configured. Raises ProcessError."""
    try:
        uid = settings.uid
        gid = settings.gid
        if settings.group is not None:
            gid = grp.getgrnam(settings.group).gr_gid
        if settings.user is not None:
            uid = pwd.getpwnam(settings.user).pw_uid
        if settings.chroot is not None:
            _change_root(settings.chroot)
        if gid is not None:
            if os.geteuid() == 0:
                os.setgroups([])
            os.setgid(gid)
        if uid is not None:
            os.setuid(uid)
    except KeyError as e:
        raise ProcessError(f"cannot find user or group: {e.args[0]}") from e
    except OSError as e:
        raise ProcessError(f"cannot change user or group: {e.strerror}") from e


def _change_root(path: str) -> None:
    try:
        os.chroot(path)
        os.chdir("/")
    except OSError as e:
        raise ProcessError(f"Cannot chroot({path}): {e.strerror}") from e


_PR_SET_DUMPABLE = 4


type Prctl = Callable[[int, int, int, int, int], int]


def find_prctl() -> Prctl:
    """The system call that `make_dumpable` needs. Raises ProcessError.

    To be looked for before `confine`: another user may not see our Python's files.
    """
    try:
        # rarely used, and a Python without libffi lacks it
        import ctypes
    except ImportError as e:
        raise ProcessError("cannot set the dumpable flag: this Python has no ctypes") from e
    prctl: Prctl = ctypes.CDLL(None, use_errno=True).prctl
    return prctl


def make_dumpable(prctl: Prctl) -> None:
    """`set-dumpable`: have the kernel write a core file of a crash although the process has changed
    its user (manual 3.1). Raises ProcessError where that is not possible: no reason to stop.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    if prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0):
        raise ProcessError("cannot set the dumpable flag: the kernel refuses")


def stop_others(pids: Iterable[int], *, at_once: bool) -> list[str]:
    """Tell the processes that this one replaces to finish, or to stop at once (-sf, -st).

    Returns what failed: no reason not to serve.
    """
    failures = []
    for pid in pids:
        try:
            os.kill(pid, signal.SIGTERM if at_once else signal.SIGUSR1)
        except ProcessLookupError:
            continue  # it has ended by itself
        except OSError as e:
            failures.append(f"cannot signal process {pid}: {e.strerror}")
    return failures

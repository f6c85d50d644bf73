"""Binding of all listening sockets at the start, and taking ports over from other processes.

With SO_REUSEPORT two processes can listen at the same time and nothing has to be taken. Where that
does not work (`noreuseport`, an old process without it), the processes named by -sf or -st are
asked to pause (SIGTTOU) while the sockets are tried again for a short time, and to go on (SIGTTIN)
if that did not help (management guide, section 4). Main thread.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterable, Sequence

from mtproxy.base.addresses import AddressKind, BindSettings
from mtproxy.base.settings import Settings
from mtproxy.boot import runtime_socket
from mtproxy.boot.build import DEFAULT_BACKLOG, BoundListener
from mtproxy.boot.report import tell
from mtproxy.config.keywords_bind import threads_of
from mtproxy.net.sockets import BindError, listen

#: how long a paused process gets to leave its ports, and how often that is looked at, in seconds
TAKEOVER_S = 2.0
_RETRY_S = 0.01


def bind_all(
    settings: Settings, old_pids: Sequence[int], nbthread: int
) -> tuple[list[BoundListener], list[runtime_socket.BoundSocket], list[str]]:
    """Listening sockets, runtime sockets, and what failed, in words."""
    binding = _Binding(settings, nbthread)
    binding.try_all()
    if binding.in_use and old_pids:
        _signal(old_pids, signal.SIGTTOU)
        deadline = time.monotonic() + TAKEOVER_S
        while binding.in_use and time.monotonic() < deadline:
            time.sleep(_RETRY_S)
            binding.try_all()
    runtime_sockets, runtime_failures = runtime_socket.bind_all(settings)
    failures = list(binding.failures.values()) + runtime_failures
    listeners = [binding.bound[place] for place in sorted(binding.bound)]
    failures += _shared_descriptors(listeners, runtime_sockets)
    if failures and old_pids:
        # they can only listen again where nobody does
        for listener in listeners:
            listener.sock.close()
        _signal(old_pids, signal.SIGTTIN)
    return listeners, runtime_sockets, failures


def _signal(pids: Iterable[int], signum: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, signum)
        except OSError:
            pass  # it is gone, or not ours: the message about the port says what matters


class _Binding:
    """All `bind` lines; those that failed may be tried again."""

    def __init__(self, settings: Settings, nbthread: int) -> None:
        self.reuse_port = "noreuseport" not in settings.global_.disabled_features
        #: sockets, and the threads of each; None: all
        self.wanted = [
            (proxy, bind, threads)
            for proxy in settings.proxies
            if not proxy.disabled
            for bind in proxy.binds
            for threads in self._shards(bind, nbthread)
        ]
        #: by position in `wanted`
        self.bound: dict[int, BoundListener] = {}
        self.failures: dict[int, str] = {}
        #: some address belongs to another socket
        self.in_use = False

    def try_all(self) -> None:
        """Bind what is not bound yet."""
        self.failures.clear()
        self.in_use = False
        for place, (proxy, bind, threads) in enumerate(self.wanted):
            if place in self.bound:
                continue
            backlog = bind.backlog or proxy.backlog or proxy.maxconn or DEFAULT_BACKLOG
            kind = "proxy" if proxy.kind == "listen" else proxy.kind
            title = f"Binding [{bind.location.file}:{bind.location.line}] for {kind} {proxy.name}"
            lacks: list[str] = []
            try:
                sock = listen(bind, backlog, reuse_port=self.reuse_port, warn=lacks.append)
            except BindError as e:
                cause = e.__cause__
                if isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE:
                    self.in_use = True
                self.failures[place] = f"{title}: {e}"
            else:
                self.bound[place] = BoundListener(proxy, bind, sock, backlog, threads)
                for lack in lacks:
                    tell("warning", f"{title}: {lack} for [{describe(bind)}]")

    def _shards(self, bind: BindSettings, nbthread: int) -> list[tuple[int, ...] | None]:
        """The threads of each socket of a `bind` line."""
        threads = threads_of(bind.threads, nbthread)
        count = min(bind.shards or nbthread, max(len(threads), 1))
        if count == 1 or not self.reuse_port or bind.address.kind not in _INET:
            return [threads if len(threads) < nbthread else None]
        ends = [len(threads) * i // count for i in range(count + 1)]
        return [threads[ends[i] : ends[i + 1]] for i in range(count)]


#: addresses that several sockets can have
_INET = (AddressKind.IPV4, AddressKind.IPV6)


def _shared_descriptors(
    listeners: Sequence[BoundListener], sockets: Sequence[runtime_socket.BoundSocket]
) -> list[str]:
    """Complaints about inherited descriptors that stand in two places of the configuration."""
    failures: list[str] = []
    seen: set[int] = set()
    binds = [(one.bind, one.sock) for one in listeners]
    binds += [(one.settings.bind, one.sock) for one in sockets]
    for bind, sock in binds:
        if sock.fileno() in seen:
            where = f"{bind.location.file}:{bind.location.line}"
            failures.append(f"Binding [{where}]: {describe(bind)} is in use by another listener")
        seen.add(sock.fileno())
    return failures


def describe(bind: BindSettings) -> str:
    """An address as a person would write it."""
    address = bind.address
    if address.kind is AddressKind.FD:
        return f"inherited descriptor {address.fd}"
    if address.kind in (AddressKind.UNIX, AddressKind.ABNS):
        return f"{address.kind.value}@{address.host}"
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"

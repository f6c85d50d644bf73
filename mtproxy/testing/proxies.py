"""Backends and thread contexts for tests that need no program and no sockets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.server_settings import CheckSettings, ServerSettings
from mtproxy.base.settings import BalanceSettings, ProxySettings, Timeouts
from mtproxy.proxy.backend import Backend, BackendShared
from mtproxy.proxy.check import Check
from mtproxy.sched.waitqueue import WaitQueue


class Messages:
    """A `Notify` that keeps what it is told."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, str]] = []

    def __call__(self, _ctx: object, severity: int, text: str) -> None:
        self.sent.append((severity, text))

    def take(self) -> list[tuple[int, str]]:
        """All messages since the last call."""
        sent, self.sent = self.sent, []
        return sent


class FakePool:
    """The part of a pool that shared tasks use."""

    def __init__(self) -> None:
        self.wait_queue: WaitQueue[Check] = WaitQueue()


class FakeContext:
    """A ThreadContext without loop and poller, whose clock is set by hand."""

    def __init__(self, tid: int = 0, pool: FakePool | None = None) -> None:
        self.tid = tid
        self.now = 0
        self.pool = pool or FakePool()


def server_settings(number: int, port: int = 80, **fields: Any) -> ServerSettings:
    """Settings of server "s<number>" on 127.0.0.1."""
    address = Address(AddressKind.IPV4, "127.0.0.1", port, text=f"127.0.0.1:{port}")
    if fields.get("unresolved"):
        address = Address(AddressKind.NONE, port=port)
    return ServerSettings(f"s{number}", number, address, **fields)


def make_backend(
    weights: Sequence[int],
    *,
    balance: str = "roundrobin",
    backups: Iterable[int] = (),
    disabled: Iterable[int] = (),
    options: Iterable[str] = (),
    check: CheckSettings | None = None,
    threads: int = 1,
    notify: Messages | None = None,
    timeouts: Timeouts | None = None,
    params: BalanceSettings | None = None,
    maxconns: Sequence[int] = (),
    maxqueue: int = 0,
    fullconn: int | None = None,
    minconn: int = 0,
) -> tuple[BackendShared, list[Backend]]:
    """A backend "be" with one server per weight, and its side on each of `threads` threads.

    `backups` and `disabled` are positions in `weights`, `maxconns` the limits by position. `check`,
    `minconn` and `maxqueue` apply to all servers.
    """
    backups, disabled = set(backups), set(disabled)
    servers = tuple(
        server_settings(
            i + 1,
            weight=weight,
            backup=i in backups,
            disabled=i in disabled,
            check=check,
            maxconn=maxconns[i] if i < len(maxconns) else 0,
            minconn=minconn or (maxconns[i] if i < len(maxconns) else 0),
            maxqueue=maxqueue,
        )
        for i, weight in enumerate(weights)
    )
    settings = ProxySettings(
        "be",
        1,
        "backend",
        servers=servers,
        balance=balance,
        balance_params=params or BalanceSettings(),
        options=frozenset(options),
        timeouts=timeouts or Timeouts(),
        fullconn=fullconn,
    )
    shared = BackendShared(settings, 0, notify or Messages())
    return shared, [Backend(shared, tid) for tid in range(threads)]

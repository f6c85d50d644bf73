"""How many connections and pipes a number of descriptors is good for."""

from __future__ import annotations

import resource
from dataclasses import replace

import pytest

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.log_settings import LogSettings, RingSettings
from mtproxy.base.server_settings import ServerSettings
from mtproxy.base.settings import GlobalSettings, ProxySettings, Settings
from mtproxy.boot.limits import LimitError, fixed_descriptors, work_out


def settings(**fields: object) -> Settings:
    return Settings(replace(GlobalSettings(), **fields), (), (), {})  # type: ignore[arg-type]


def refuse_more(_what: int, limits: tuple[int, int]) -> None:
    if limits[1] > 1000:
        raise ValueError("not allowed to raise maximum limit")


@pytest.fixture
def hard_limit(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 1000))
    monkeypatch.setattr(resource, "setrlimit", refuse_more)
    return 1000


def used(found: object, threads: int, maxconn: int, pipes: int) -> int:
    return fixed_descriptors(settings(), threads) + 2 * maxconn + 2 * pipes * threads


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_without_maxconn_all_descriptors_are_shared_out(hard_limit: int, threads: int) -> None:
    found = work_out(settings(), threads)
    assert 300 < found.maxconn < 500
    assert found.pipes * threads >= found.maxconn // 4 - threads
    assert used(found, threads, found.maxconn, found.pipes) <= hard_limit


def test_connections_come_before_pipes(hard_limit: int) -> None:
    fixed = fixed_descriptors(settings(), 1)
    most = (hard_limit - fixed) // 2
    found = work_out(settings(maxconn=most), 1)
    assert (found.maxconn, found.pipes) == (most, 0)
    with pytest.raises(LimitError):
        work_out(settings(maxconn=most + 1), 1)


def test_few_connections_have_pipes_still(hard_limit: int) -> None:
    found = work_out(settings(maxconn=4), 2)
    assert found.pipes >= 8
    assert used(found, 2, 4, found.pipes) <= found.maxsock


def test_going_on_with_less(hard_limit: int) -> None:
    found = work_out(settings(maxconn=100_000, strict_limits=False), 1)
    assert found.warnings
    assert used(found, 1, found.maxconn, found.pipes) <= hard_limit


def test_log_targets_and_rings_are_counted() -> None:
    """Each thread opens each log target once; a ring's server is connected to once in all."""
    logs = tuple(
        LogSettings(Address(AddressKind.UDP4, "127.0.0.1", 514 + n)) for n in (0, 1, 2, 3, 0)
    )
    logs += (LogSettings(None, stdio="stdout"), LogSettings(None, ring="r"))
    one = ProxySettings("f", 1, "frontend", logs=logs)
    server = ServerSettings("s", 1, Address(AddressKind.IPV4, "127.0.0.1", 514))
    rings = (RingSettings("r", servers=(server, server)),)
    with_logs = Settings(GlobalSettings(), (one,), rings=rings)
    without = Settings(GlobalSettings(), (ProxySettings("f", 1, "frontend"),))
    for threads in (1, 3):
        more = fixed_descriptors(with_logs, threads) - fixed_descriptors(without, threads)
        assert more == 3 * threads + 2  # five targets, two of which are always allowed for

"""How many connections and descriptors; the limit of memory. `resource` is replaced."""

from __future__ import annotations

import resource
from typing import Any

import pytest

from mtproxy.base.settings import GlobalSettings, Settings
from mtproxy.boot import limits, memory
from mtproxy.boot.limits import LimitError, work_out


class Kernel:
    """The two calls of `resource`; `privileged` may raise a hard limit."""

    def __init__(self, soft: int, hard: int, *, privileged: bool = False) -> None:
        self.limits = (soft, hard)
        self.privileged = privileged
        self.set: list[tuple[int, int]] = []

    def getrlimit(self, _which: int) -> tuple[int, int]:
        return self.limits

    def setrlimit(self, _which: int, wanted: tuple[int, int]) -> None:
        if wanted[1] > self.limits[1] and not self.privileged:
            raise ValueError("not allowed to raise maximum limit")
        self.limits = wanted
        self.set.append(wanted)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(soft: int, hard: int, *, privileged: bool = False) -> Kernel:
        made = Kernel(soft, hard, privileged=privileged)
        for name in ("getrlimit", "setrlimit"):
            monkeypatch.setattr(resource, name, getattr(made, name))
        return made

    return make


def settings(**fields: Any) -> Settings:
    return Settings(GlobalSettings(**fields), ())


FIXED = limits.fixed_descriptors(settings(), 2)


def test_maxconn_follows_from_the_limit(kernel: Any) -> None:
    made = kernel(1024, 5000)
    found = work_out(settings(), 2)
    assert made.limits[0] == found.maxsock <= 5000
    assert found.maxsock - 4 <= FIXED + 2 * found.maxconn + 4 * found.pipes <= found.maxsock
    assert found.maxconn > 1900


def test_maxconn_follows_from_ulimit_n(kernel: Any) -> None:
    made = kernel(1024, 5000)
    found = work_out(settings(ulimit_n=700), 2)
    assert found.maxsock == 700
    assert 250 < found.maxconn < (700 - FIXED) // 2
    assert made.set == []  # more is allowed already


def test_the_command_line_wins(kernel: Any) -> None:
    kernel(1024, 5000)
    assert work_out(settings(maxconn=50), 2, 77).maxconn == 77
    assert work_out(settings(maxconn=50), 2).maxconn == 50


@pytest.mark.parametrize("fields", [{"maxconn": 4000}, {"ulimit_n": 6000}])
def test_more_than_is_allowed(kernel: Any, fields: dict[str, int]) -> None:
    kernel(1024, 5000)
    with pytest.raises(LimitError, match=r"^Cannot raise FD limit to \d+, limit is 5000\.$"):
        work_out(settings(**fields), 2)


@pytest.mark.parametrize(("maxpipes", "each"), [(0, 0), (8, 4), (100, 50)])
def test_pipes_as_configured(kernel: Any, maxpipes: int, each: int) -> None:
    kernel(1024, 5000)
    found = work_out(settings(maxconn=1000, maxpipes=maxpipes), 2)
    assert (found.maxconn, found.pipes) == (1000, each)


def test_pipes_never_take_what_connections_need(kernel: Any) -> None:
    kernel(1024, 5000)
    most = (5000 - FIXED) // 2
    assert work_out(settings(maxconn=most, maxpipes=100), 2).pipes == 0


def test_without_strict_limits_what_is_allowed_has_to_do(kernel: Any) -> None:
    made = kernel(1024, 5000)
    found = work_out(settings(maxconn=4000, strict_limits=False), 2)
    most = (5000 - FIXED) // 2
    assert (found.maxconn, found.hard_maxconn) == (most, 4000)
    assert (found.ulimit_n, found.maxsock) == (5000, FIXED + 8000)
    assert made.limits == (5000, 5000)
    assert list(found.warnings) == [
        f"Cannot raise FD limit to {FIXED + 8000}, limit is 5000.",
        f"FD limit (5000) too low for maxconn=4000/maxsock={FIXED + 8000}. "
        f"Please raise 'ulimit-n' to {FIXED + 8000} or more to avoid any trouble.",
        f"Going on with at most {most} connections ('no strict-limits').",
    ]


def test_two_million_connections(kernel: Any) -> None:
    """Where they are allowed, as where they are not, the tables are made for them."""
    made = kernel(20_000, resource.RLIM_INFINITY)
    found = work_out(settings(maxconn=2_000_000), 2)
    assert (found.maxconn, found.warnings) == (2_000_000, ())
    assert made.limits[0] == found.ulimit_n == found.maxsock >= FIXED + 4_000_000
    made = kernel(20_000, 20_000)
    with pytest.raises(LimitError, match=r"^Cannot raise FD limit to 40000\d\d, limit is 20000\.$"):
        work_out(settings(maxconn=2_000_000), 2)
    found = work_out(settings(maxconn=2_000_000, strict_limits=False), 2)
    assert (found.ulimit_n, found.maxsock) == (20_000, FIXED + 4_000_000)
    assert made.limits == (20_000, 20_000)


def test_ulimit_n_that_is_too_low_for_maxconn(kernel: Any) -> None:
    made = kernel(1024, 5000)
    with pytest.raises(LimitError, match=r"^FD limit \(1024\) too low for maxconn=1000/maxsock="):
        work_out(settings(maxconn=1000, ulimit_n=100), 2)
    found = work_out(settings(maxconn=1000, ulimit_n=100, strict_limits=False), 2)
    assert (found.maxconn, found.hard_maxconn) == ((1024 - FIXED) // 2, 1000)
    assert (found.ulimit_n, found.maxsock) == (1024, FIXED + 2000)
    assert made.set == []


def test_ulimit_n_that_lacks_only_the_few_besides_connections(kernel: Any) -> None:
    made = kernel(1024, 5000)
    found = work_out(settings(maxconn=1000, ulimit_n=2000), 2)
    assert found.maxconn == 1000
    assert made.limits[0] >= FIXED + 2000


@pytest.mark.parametrize("fd_hard_limit", [500, 900])
def test_fd_hard_limit_bounds_what_is_worked_out(kernel: Any, fd_hard_limit: int) -> None:
    made = kernel(1024, 5000)
    found = work_out(settings(fd_hard_limit=fd_hard_limit), 2)
    assert found.ulimit_n == found.maxsock == fd_hard_limit
    assert FIXED + 2 * found.maxconn <= fd_hard_limit
    assert made.set == []


def test_fd_hard_limit_above_the_systems(kernel: Any) -> None:
    kernel(1024, 5000)
    assert work_out(settings(fd_hard_limit=9000), 2) == work_out(settings(), 2)


@pytest.mark.parametrize("fields", [{"maxconn": 1000}, {"ulimit_n": 2000}])
def test_more_than_fd_hard_limit(kernel: Any, fields: dict[str, int]) -> None:
    made = kernel(100, 5000, privileged=True)
    with pytest.raises(LimitError, match=r"^Cannot raise FD limit to \d+, limit is 500\.$"):
        work_out(settings(**fields, fd_hard_limit=500), 2)
    found = work_out(settings(**fields, fd_hard_limit=500, strict_limits=False), 2)
    assert (found.ulimit_n, made.limits) == (500, (500, 5000))
    assert FIXED + 2 * found.maxconn <= 500


def test_a_hard_limit_that_the_kernel_does_not_stand_by(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fs.nr_open was lowered after the hard limit was set: nothing can be raised any more."""

    def refuse(_which: int, _wanted: tuple[int, int]) -> None:
        raise PermissionError(1, "Operation not permitted")

    kernel(1024, 1 << 20)
    monkeypatch.setattr(resource, "setrlimit", refuse)
    with pytest.raises(LimitError, match=r"^Cannot raise FD limit to \d+, limit is 1024 \("):
        work_out(settings(maxconn=4000), 2)
    found = work_out(settings(maxconn=4000, strict_limits=False), 2)
    assert len(found.warnings) == 1
    assert work_out(settings(maxconn=100), 2).warnings == ()


def test_hardly_any_descriptors(kernel: Any) -> None:
    """The limit is never set beyond the hard one, even if that cannot do."""
    made = kernel(10, 20)
    found = work_out(settings(maxconn=50, strict_limits=False), 2)
    assert found.maxconn == 1
    assert made.limits == (20, 20)
    assert (found.ulimit_n, found.pipes) == (20, 0)


def test_threads_that_need_more_than_there_is(kernel: Any) -> None:
    """What is reported as used is what the process may have, not what it would need."""
    made = kernel(256, 256)
    found = work_out(settings(maxconn=100, strict_limits=False), 64)
    fixed = limits.fixed_descriptors(settings(), 64)
    assert fixed > 256
    assert (found.maxconn, found.ulimit_n, found.maxsock) == (1, 256, fixed + 200)
    assert made.set == []


def test_a_privileged_process_raises_the_hard_limit(kernel: Any) -> None:
    made = kernel(1024, 5000, privileged=True)
    found = work_out(settings(maxconn=4000), 2)
    assert (found.maxconn, found.warnings) == (4000, ())
    assert made.limits[0] == made.limits[1] >= FIXED + 8000 + 4 * found.pipes
    assert found.pipes == 500


def test_memory(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "data_bytes", lambda: 30 * memory.MB)
    made = kernel(resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    made.privileged = True
    memory.limit(200, 2)
    assert made.limits == (200 * memory.MB, 200 * memory.MB)
    with pytest.raises(LimitError, match=r"at least 146 MB are needed"):
        memory.limit(130, 2, 20 * memory.MB)
    with pytest.raises(LimitError, match=r"100 MB .* for 2 threads: at least 126 MB are needed"):
        memory.limit(100, 2)


def test_memory_within_a_limit_from_outside(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "data_bytes", lambda: 30 * memory.MB)
    made = kernel(150 * memory.MB, 150 * memory.MB)
    memory.limit(200, 1)
    assert made.limits == (150 * memory.MB, 150 * memory.MB)


def test_data_of_this_process() -> None:
    assert memory.data_bytes() > memory.MB

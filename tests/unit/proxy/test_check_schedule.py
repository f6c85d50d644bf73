"""When checks run: intervals by state, the spread of the first ones. On a mock clock, no sockets.

The expected times are those of Debian's haproxy with the same settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from mtproxy.base.server_settings import CheckSettings
from mtproxy.base.settings import GlobalSettings, ProxySettings
from mtproxy.proxy import check as check_module
from mtproxy.proxy.backend import Backend, BackendShared
from mtproxy.proxy.check import Check, start_checks
from mtproxy.proxy.transitions import set_maint, set_ready
from mtproxy.testing.clock import MockClock
from mtproxy.testing.proxies import FakeContext, Messages, server_settings

type Answer = Callable[[str, int], bool]


class Scene:
    """Servers s1, s2, ... with the given checks; connecting asks `answer(name, now)`."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *checks: CheckSettings | None,
        settings: GlobalSettings | None = None,
        disabled: tuple[int, ...] = (),
    ) -> None:
        servers = tuple(
            server_settings(i + 1, check=c, disabled=i in disabled) for i, c in enumerate(checks)
        )
        self.messages = Messages()
        proxy = ProxySettings("be", 1, "backend", servers=servers)
        self.shared = BackendShared(proxy, 0, self.messages)
        Backend(self.shared, 0)
        self.ctx = FakeContext()
        self.clock = MockClock(self.ctx)
        self.answer: Answer = lambda _name, _now: True
        self.runs: dict[str, list[int]] = {server.name: [] for server in self.shared.servers}
        scene = self

        def connect(check: Check, ctx: FakeContext) -> bool:
            name = check.server.name
            scene.runs[name].append(ctx.now)
            if not scene.answer(name, ctx.now):
                raise ConnectionRefusedError(111, "Connection refused")
            return True

        monkeypatch.setattr(Check, "_connect", connect)
        self.checks = start_checks(
            [self.shared], settings or GlobalSettings(), self.ctx.pool.wait_queue, 0, 0
        )


def test_regular_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, CheckSettings(inter=1200))
    scene.clock.run_until(5000)
    assert scene.runs == {"s1": [0, 1200, 2400, 3600, 4800]}
    assert len(scene.ctx.pool.wait_queue) == 1


def test_fast_while_changing_and_slow_while_down(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = CheckSettings(inter=1000, fastinter=100, downinter=600, rise=4, fall=3)
    scene = Scene(monkeypatch, settings)
    scene.answer = lambda _name, now: not 2500 < now < 5000
    scene.clock.run_until(7000)
    assert scene.runs["s1"] == (
        [0, 1000, 2000, 3000, 3100, 3200]  # the third failure: down
        + [3800, 4400, 5000, 5100, 5200, 5300]  # the fourth success: up
        + [6300]
    )


def test_yet_unchecked_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed first check takes the server down at once: the slow interval follows."""
    settings = CheckSettings(inter=1000, fastinter=100, downinter=700)
    scene = Scene(monkeypatch, settings)
    scene.answer = lambda _name, now: now > 0
    scene.clock.run_until(900)
    assert scene.runs["s1"] == [0, 700, 800]


@pytest.mark.parametrize(
    ("inters", "starts"),
    [
        ([1200] * 6, [0, 200, 400, 600, 800, 1000]),
        # the shortest one of at least a second rules; longer ones rule for themselves
        ([400, 2000, 1500, 3000], [0, 500, 750, 2250]),
        ([400, 600, 800], [0, 200, 533]),
    ],
)
def test_first_checks_are_spread(
    monkeypatch: pytest.MonkeyPatch, inters: list[int], starts: list[int]
) -> None:
    scene = Scene(monkeypatch, *(CheckSettings(inter=inter) for inter in inters))
    scene.clock.run_until(4000)
    assert [runs[0] for runs in scene.runs.values()] == starts


def test_max_spread_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = GlobalSettings(max_spread_checks=500)
    scene = Scene(monkeypatch, *[CheckSettings()] * 4, settings=settings)
    scene.clock.run_until(1900)
    assert list(scene.runs.values()) == [[0], [125], [250], [375]]


def test_unchecked_servers_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disabled server takes a place in the spread, an unchecked one does not."""
    checks = (CheckSettings(inter=1000), CheckSettings(inter=1000), None, CheckSettings(inter=1000))
    scene = Scene(monkeypatch, *checks, disabled=(1,))
    scene.clock.run_until(999)
    assert scene.runs == {"s1": [0], "s2": [], "s3": [], "s4": [666]}


def test_maintenance_pauses_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, CheckSettings(inter=1000))
    scene.clock.run_until(1500)
    set_maint(scene.shared.servers[0], scene.ctx)  # type: ignore[arg-type]
    scene.clock.run_until(4500)
    assert scene.runs["s1"] == [0, 1000]
    set_ready(scene.shared.servers[0], scene.ctx)  # type: ignore[arg-type]
    scene.clock.run_until(5500)
    assert scene.runs["s1"] == [0, 1000, 5000]


def test_spread_checks_moves_each_check_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, CheckSettings(inter=1000), settings=GlobalSettings(spread_checks=50))
    draws = iter([0.0, 1.0, 0.5, 0.25] * 10)
    monkeypatch.setattr(check_module, "random", lambda: next(draws))
    scene.clock.run_until(4000)
    assert scene.runs["s1"] == [0, 1500, 2000, 3000]
    monkeypatch.undo()


def test_spread_checks_stays_within_the_percentage(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, CheckSettings(inter=1000), settings=GlobalSettings(spread_checks=20))
    scene.clock.run_until(200_000)
    runs = scene.runs["s1"]
    gaps = [b - a for a, b in pairwise(runs)]
    assert min(gaps) >= 800
    assert max(gaps) <= 1200
    assert max(gaps) - min(gaps) > 200


def test_states_follow_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, CheckSettings(inter=1000), CheckSettings(inter=1000))
    scene.answer = lambda name, now: name == "s2" or now > 5000
    one = scene.shared.servers[0]
    seen = []
    for tick in (100, 5600, 6600, 7600):
        scene.clock.run_until(tick)
        seen.append((one.check.health.status(), one.check.status.code, one.check.info))
    assert seen == [
        ("DOWN", "L4CON", "Connection refused"),
        ("DOWN", "L4CON", "Connection refused"),
        ("DOWN 1/2", "L4OK", ""),
        ("UP", "L4OK", ""),
    ]


def test_check_address_and_port() -> None:
    base = server_settings(1, port=80)
    other = replace(base.address, host="127.0.0.9", port=0)
    for settings, expected in (
        (CheckSettings(), ("127.0.0.1", 80)),
        (CheckSettings(port=81), ("127.0.0.1", 81)),
        (CheckSettings(address=other), ("127.0.0.9", 80)),
        (CheckSettings(address=replace(other, port=82)), ("127.0.0.9", 82)),
        (CheckSettings(address=replace(other, port=82), port=83), ("127.0.0.9", 83)),
    ):
        proxy = ProxySettings("be", 1, "backend", servers=(replace(base, check=settings),))
        check = Check(BackendShared(proxy, 0, Messages()).servers[0], 0)
        assert check.target()[1] == expected

"""Health: HAProxy's rise/fall counter, its texts and its intervals."""

from __future__ import annotations

import pytest

from mtproxy.proxy.health import Health


def test_starts_up_and_one_failure_from_down() -> None:
    health = Health(rise=2, fall=3)
    assert (health.value, health.status(), health.text()) == (2, "UP 1/3", "1/3 UP")
    assert health.failed()
    assert (health.value, health.status(), health.text()) == (0, "DOWN", "0/2 DOWN")


def test_first_success_makes_it_fully_up() -> None:
    health = Health(rise=2, fall=3)
    assert health.passed()
    assert (health.value, health.status(), health.text()) == (4, "UP", "3/3 UP")


def test_falls_step_by_step_and_rises_step_by_step() -> None:
    health = Health(rise=2, fall=3)
    health.passed()
    seen = []
    for result in (health.failed, health.failed, health.failed, health.passed, health.passed):
        assert result()
        seen.append(health.status())
    assert seen == ["UP 2/3", "UP 1/3", "DOWN", "DOWN 1/2", "UP"]


def test_a_failure_on_the_way_up_goes_back_to_the_bottom() -> None:
    health = Health(rise=3, fall=1)
    health.failed()
    health.passed()
    health.passed()
    assert health.status() == "DOWN 2/3"
    health.failed()
    assert health.status() == "DOWN"


def test_at_the_ends_nothing_moves() -> None:
    health = Health(rise=1, fall=1)
    assert health.status() == "UP"
    assert not health.passed()
    assert health.failed()
    assert not health.failed()
    assert health.passed()


@pytest.mark.parametrize(
    ("value", "expected"),
    [(4, 2000), (3, 500), (2, 500), (1, 500), (0, 7000)],
)
def test_interval_follows_the_state(value: int, expected: int) -> None:
    health = Health(rise=2, fall=3)
    health.value = value
    assert health.interval(2000, 500, 7000) == expected
    assert health.interval(2000, None, None) == 2000


def test_restart_is_the_start() -> None:
    health = Health(rise=2, fall=3)
    health.failed()
    health.restart()
    assert health.status() == "UP 1/3"

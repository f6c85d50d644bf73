"""Health against a model that only knows runs of equal results."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mtproxy.proxy.health import Health


class Runs:
    """Up until `limit` failures in a row, down until `rise` successes in a row."""

    def __init__(self, rise: int, fall: int) -> None:
        self.rise, self.fall = rise, fall
        self.up = True
        self.limit = 1
        self.run = 0

    def enter(self, passed: bool) -> None:
        if self.up and passed:
            self.limit, self.run = self.fall, 0
        elif passed:
            self.run += 1
            if self.run == self.rise:
                self.up, self.limit, self.run = True, self.fall, 0
        elif self.up:
            self.run += 1
            if self.run == self.limit:
                self.up, self.run = False, 0
        else:
            self.run = 0

    def status(self) -> str:
        if self.up:
            left = self.limit - self.run
            return "UP" if left == self.fall else f"UP {left}/{self.fall}"
        return f"DOWN {self.run}/{self.rise}" if self.run else "DOWN"


@given(st.integers(1, 5), st.integers(1, 5), st.lists(st.booleans(), max_size=60))
def test_health_counts_runs(rise: int, fall: int, results: list[bool]) -> None:
    health, model = Health(rise, fall), Runs(rise, fall)
    assert health.up
    for passed in results:
        before = health.value
        moved = health.passed() if passed else health.failed()
        model.enter(passed)
        assert moved == (health.value != before)
        assert health.up == model.up
        assert health.status() == model.status()
        assert 0 <= health.value <= rise + fall - 1
        assert health.full == (health.status() in ("UP", "DOWN"))
        words = health.status().split()
        assert health.text().endswith(words[0])

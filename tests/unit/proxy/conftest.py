"""Lock statistics need a slot for every thread number that a test uses."""

from __future__ import annotations

import pytest

from mtproxy.sync import stats


@pytest.fixture(autouse=True)
def eight_threads() -> None:
    stats.configure(8)

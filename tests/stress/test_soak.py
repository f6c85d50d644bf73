"""A short soak run (see soak.py, which `make soak` runs at length)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).with_name("soak.py")


@pytest.mark.stress
@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_soak_run() -> None:
    done = subprocess.run(
        [sys.executable, str(SOAK), "--requests", "20000", "--healthy", "1", "--seed", "11"],
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"

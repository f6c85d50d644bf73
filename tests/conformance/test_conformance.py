"""The tests of HAProxy's own suite that have to pass, pass (`make conformance` runs all)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("run.py")
#: the scripts have times of a second in them, which a busy machine does not always keep
PATIENTLY = ("--tries", "4", "--seconds", "60")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, str(RUN), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        if os.environ.get("MTPROXY_NEED_PACKAGES") == "1":
            pytest.fail(done.stderr)
        pytest.skip(done.stderr.strip().splitlines()[0])
    return done


@pytest.mark.e2e
@pytest.mark.timeout(600)  # the first run downloads
def test_what_has_to_pass() -> None:
    done = run("--expected", "--json", "-", *PATIENTLY)
    assert done.stdout, done.stderr
    results = json.loads(done.stdout)
    assert results, "none of the expected tests is in the suite"
    assert [r for r in results if r["outcome"] != "passed"] == []
    assert done.returncode == 0, done.stderr


@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_haproxy_itself_passes_them() -> None:
    """The runner judges rightly: HAProxy passes its own tests, and a false program fails them."""
    if run("--list").returncode != 0:
        pytest.fail("no list")
    lines = RUN.with_name("expected.txt").read_text().splitlines()
    names = [line.partition("#")[0].strip() for line in lines]
    only = [word for name in names if name for word in ("--only", name)]
    good = run("--program", "haproxy", "--json", "-", *PATIENTLY, *only)
    assert {r["outcome"] for r in json.loads(good.stdout)} == {"passed"}

"""The differential tests need the HAProxy whose language is followed."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from mtproxy.testing.program import find_tool


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(os.path.dirname(__file__)):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def haproxy() -> str:
    """Its version; a test that takes this is skipped where there is no HAProxy 2.6."""
    program = find_tool("haproxy")
    if program is None:
        if os.environ.get("MTPROXY_NEED_PACKAGES") == "1":
            pytest.fail("haproxy is not installed")
        pytest.skip("haproxy is not installed: .ci/need haproxy")
    shown = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"HAProxy version (\d+\.\d+)", shown)
    version = found[1] if found else "unknown"
    if version != "2.6":
        pytest.skip(f"needs HAProxy 2.6, whose language is followed (found: {version})")
    return version

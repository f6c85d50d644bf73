"""docs/conformance.md and expected.txt: what becomes of each test of HAProxy's suite."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolchain import paths

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs" / "conformance.md"
EXPECTED = ROOT / "tests" / "conformance" / "expected.txt"


def expected() -> set[str]:
    words = (line.partition("#")[0].strip() for line in EXPECTED.read_text().splitlines())
    return {word for word in words if word}


def rows() -> list[tuple[str, str]]:
    """(test, reason) of all tables."""
    return re.findall(r"^\| (\S+\.vtc) \| (.+) \|$", DOCUMENT.read_text(), re.MULTILINE)


def test_no_test_is_listed_twice() -> None:
    names = [name for name, _ in rows()]
    assert sorted(names) == sorted(set(names))
    assert not expected() & set(names)


def test_every_row_has_a_reason() -> None:
    assert rows()
    assert all(len(reason) > 2 and "???" not in reason for _, reason in rows())


def test_the_figures_of_the_titles_and_of_the_readme() -> None:
    text = DOCUMENT.read_text()
    for title, count, body in re.findall(
        r"^## (.+) \((\d+)\)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    ):
        assert len(re.findall(r"^\| \S+\.vtc \|", body, re.MULTILINE)) == int(count), title
    total = len(expected()) + len(rows())
    assert f"{len(expected())} of its {total} tests pass" in text
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"{len(expected())} of the {total} pass today" in readme


def test_all_tests_of_the_suite_are_accounted_for() -> None:
    ready = paths.cache() / "haproxy-source" / "ready"
    if not ready.is_file():
        pytest.skip("HAProxy's tests have not been downloaded: make conformance")
    top = Path(ready.read_text().strip()) / "reg-tests"
    if top.parent.name != "haproxy_2.6.12":
        pytest.skip(f"the document speaks of version 2.6.12, this is {top.parent.name}")
    names = {str(path.relative_to(top)) for path in top.rglob("*.vtc")}
    assert names == expected() | {name for name, _ in rows()}

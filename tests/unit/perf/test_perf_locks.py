"""The benchmark of the lock statistics: its variants are what they say, and are undone."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from mtproxy.base.commandline import CommandLine
from mtproxy.cli.check import check_configuration
from mtproxy.sync import bare, profile
from mtproxy.sync.labels import LABELS
from mtproxy.sync.locks import Lock
from mtproxy.testing.counts import zero_counts
from perf import locks


@pytest.fixture(autouse=True)
def _zero() -> Iterator[None]:
    yield
    for label in LABELS:
        zero_counts(label)


@pytest.mark.parametrize("variant", locks.VARIANTS)
def test_a_variant_is_built_and_undone(variant: str) -> None:
    plain = Lock.take
    with locks._built(variant):
        assert bare.is_stripped() is (variant == locks.BUILT_OUT)
        assert profile.is_on() is (variant == locks.PROFILED)
        assert (Lock.take is plain) is (variant == locks.COUNTED)
    assert Lock.take is plain


@pytest.mark.parametrize("line", locks.VARIANTS.values())
def test_configurations_are_valid(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cfg"
    path.write_text("global\n" + locks.config(80, 2, line).replace("fd@${fe}", ":8080"))
    out = StringIO()
    assert check_configuration(CommandLine(paths=(str(path),)), out) == 0, out.getvalue()


def test_the_micro_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "TURNS", 100)
    options = argparse.Namespace(rounds=2, seconds=1, micro=True, threads=[1])
    outcome = locks.locks(options, lambda _text: None)
    assert {series.variant for series in outcome.series} == {
        f"{way}: {variant}" for way in locks.WAYS for variant in locks.VARIANTS
    }
    assert all(len(series.values) == 2 for series in outcome.series)
    assert len(outcome.ratios) == 2 * len(locks.WAYS)

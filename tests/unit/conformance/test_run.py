"""How the conformance runner reads requirements and failures."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from mtproxy import __version__

_PATH = Path(__file__).resolve().parents[2] / "conformance" / "run.py"


@pytest.fixture(scope="module")
def run() -> ModuleType:
    spec = importlib.util.spec_from_file_location("conformance_run", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("", ""),
        ("#REGTEST_TYPE=slow", ""),
        ("#REGTEST_TYPE=broken", "its type is broken"),
        ("#REQUIRE_VERSION=2.4", ""),
        ("#REQUIRE_VERSION=2.10", "needs version 2.10"),
        ("#REQUIRE_VERSION_BELOW=2.6", "needs a version below 2.6"),
        ("#REQUIRE_OPTIONS=OPENSSL", "needs feature OPENSSL"),
        ("#REQUIRE_OPTIONS=ZLIB|SLZ", ""),
        ("#REQUIRE_OPTIONS=SLZ,LUA", "needs feature LUA"),
        ("#REQUIRE_OPTION=OPENSSL, this test needs it", "needs feature OPENSSL"),
        ("#REQUIRE_SERVICES=prometheus-exporter", "needs service prometheus-exporter"),
        ("#EXCLUDE_TARGETS=freebsd,osx", ""),
        ("#EXCLUDE_TARGETS=freebsd,linux-glibc", "not for linux-glibc"),
    ],
)
def test_requirements(run: ModuleType, tmp_path: Path, head: str, reason: str) -> None:
    able = run.Abilities("2.6.12-1", "linux-glibc", frozenset({"+SLZ", "-OPENSSL"}), frozenset())
    path = tmp_path / "a.vtc"
    path.write_text(f'varnishtest "x"\n{head}\n')
    assert run.why_not(path, able) == reason


def test_the_refused_word(run: ModuleType) -> None:
    log = (
        "***  h1    debug|[NOTICE]   (77) : path to executable is /usr/sbin/x\n"
        "***  h1    debug|[ALERT]    (77) : config : parsing [/tmp/mtcab/t1/vtc.7.x/h1/cfg:12] : "
        "unknown keyword 'filter' in 'frontend' section\n"
        "---- h1    Bad exit status: 0x0100 exit 0x1 signal 0 core 0\n"
    )
    reason, word = run.failure_reason(log, 2)
    assert word == "filter"
    assert reason == "config : parsing [h1/cfg:12] : unknown keyword 'filter' in 'frontend' section"


def test_an_expectation_that_failed(run: ModuleType) -> None:
    reason, word = run.failure_reason('---- c1    EXPECT resp.status (502) == "200" failed\n', 2)
    assert (reason, word) == ('EXPECT resp.status (502) == "200" failed', "")


def test_every_expected_name_is_a_test_name(run: ModuleType) -> None:
    names = run.expected()
    assert names
    assert all(name.count("/") == 1 and name.endswith(".vtc") for name in names)
    assert names == sorted(set(names))


def test_the_verdict_in_words(run: ModuleType) -> None:
    results = [run.Result("a", "passed", 1.0), run.Result("b", "failed", 1.0)]
    assert run.verdict(results, ["a"], 2) == [
        "1 of the suite's 2 tests pass",
        "of the 1 that have to pass (expected.txt), 1 were run: all pass",
    ]
    assert run.verdict(results, ["a", "b", "c"], 9) == [
        "1 of the 2 tests that were run pass (the suite has 9)",
        "of the 3 that have to pass (expected.txt), 2 were run: only 1 do: the run FAILED",
    ]
    assert len(run.verdict(results, [], 2)) == 1


def test_both_versions_are_named(run: ModuleType) -> None:
    able = run.Abilities("2.6.12", "linux-glibc", frozenset(), frozenset())
    assert run.described("mtproxy", able) == f"mtproxy {__version__} (as HAProxy 2.6.12)"
    assert run.described("haproxy", able) == "haproxy 2.6.12"


def test_a_feature_is_not_needed_where_there_are_other_means(
    run: ModuleType, tmp_path: Path
) -> None:
    able = run.Abilities("2.6.12-1", "linux-glibc", frozenset({"-OPENSSL"}), frozenset())
    names = sorted(run.OTHER_MEANS["OPENSSL"])
    assert names
    for name in (names[0], "ssl/other.vtc"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#REQUIRE_OPTION=OPENSSL, for digests\n")
    assert run.why_not(tmp_path / names[0], able) == ""
    assert run.why_not(tmp_path / "ssl/other.vtc", able) == "needs feature OPENSSL"

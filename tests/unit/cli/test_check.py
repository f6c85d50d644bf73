"""`-c`, `-cc` and `-v`: exit codes and what is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from mtproxy.base.commandline import CommandLine
from mtproxy.cli.check import check_condition, check_configuration, version_text

GOOD = "defaults\n timeout client 1s\nfrontend f\n bind :80\n"
WARNED = "frontend f\n bind :80\n"


def check(tmp_path: Path, text: str, **options: bool) -> tuple[int, str]:
    path = tmp_path / "a.cfg"
    path.write_text(text)
    output = StringIO()
    cmdline = CommandLine(paths=(str(path),), check=True, **options)  # type: ignore[arg-type]
    return check_configuration(cmdline, output), output.getvalue()


def test_a_valid_configuration_is_praised_unless_quiet(tmp_path: Path) -> None:
    assert check(tmp_path, GOOD) == (0, "Configuration file is valid\n")
    assert check(tmp_path, GOOD, verbose=True) == (0, "Configuration file is valid\n")
    assert check(tmp_path, GOOD, quiet=True) == (0, "")


def test_errors_exit_with_1(tmp_path: Path) -> None:
    code, text = check(tmp_path, GOOD + " nonsense\n")
    assert code == 1
    first, last = text.splitlines()
    assert re.fullmatch(
        r"\[ALERT\]    \(\d+\) : config : parsing \[.*/a\.cfg:5\] : unknown keyword 'nonsense' in"
        r" 'frontend' section",
        first,
    )
    assert last.endswith(" : config : Fatal errors found in configuration.")
    assert check(tmp_path, GOOD + " nonsense\n", quiet=True) == (1, "")


def test_warnings_are_silenced_by_quiet_and_fatal_by_zero_warning(tmp_path: Path) -> None:
    code, text = check(tmp_path, WARNED)
    assert code == 0
    assert "missing timeouts for frontend 'f': 'client'" in text
    assert check(tmp_path, WARNED, quiet=True) == (0, "")
    assert check(tmp_path, WARNED, zero_warning=True)[0] == 1


def test_what_is_not_supported_yet_is_summed_up(tmp_path: Path) -> None:
    rules = " filter compression\n bind :81 ssl crt a\n filter compression\n log backend@b local0\n"
    code, text = check(tmp_path, GOOD + rules + " filter compression\n" * 13)
    assert code == 1
    lines = [re.sub(r".* : config : ", "", line) for line in text.splitlines()]
    assert lines[-5:] == [
        "not supported yet: 15 x filter compression (lines 5, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17"
        ", 18 and 3 more)",
        "not supported yet: 1 x ssl (line 6)",
        "not supported yet: 1 x crt (line 6)",
        "not supported yet: 1 x log to a backend (line 8)",
        "Fatal errors found in configuration.",
    ]


def test_one_thing_that_is_not_supported_yet_needs_no_summary(tmp_path: Path) -> None:
    _, text = check(tmp_path, GOOD + " filter compression\n")
    assert len(text.splitlines()) == 2


def test_a_summary_over_several_files_names_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.cfg").write_text(f"frontend {name}\n filter trace\n")
    output = StringIO()
    check_configuration(CommandLine(paths=(str(tmp_path),), check=True), output)
    where = f"({tmp_path}/a.cfg line 2; {tmp_path}/b.cfg line 2)"
    assert f"not supported yet: 2 x filter trace {where}\n" in output.getvalue()


def test_nothing_to_listen_on_exits_with_2(tmp_path: Path) -> None:
    code, text = check(tmp_path, "global\n")
    assert code == 2
    assert "no listener" in text
    assert check(tmp_path, "global\n", quiet=True) == (2, "")


def test_hints_are_shown_when_asked(tmp_path: Path) -> None:
    assert "hint" not in check(tmp_path, ".diag hint\n" + GOOD)[1]
    code, text = check(tmp_path, ".diag hint\n" + GOOD, diag=True)
    assert (code, "'hint'" in text) == (0, True)


def test_bytes_that_are_not_utf8_do_not_stop_a_message(tmp_path: Path) -> None:
    path = tmp_path / "a.cfg"
    path.write_bytes(b"frontend \xff\n")
    output = StringIO()
    assert check_configuration(CommandLine(paths=(str(path),), check=True), output) == 1
    output.getvalue().encode("utf-8")


def test_the_dump_goes_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, GOOD, dump=True)[0] == 0
    text = capsys.readouterr().out
    assert "frontend f\n" in text
    assert "    bind ipv4@0.0.0.0:80 id 1\n" in text


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("1", 0),
        ("", 1),
        ("0", 1),
        ("feature(THREAD)", 0),
        ('streq("$A",b)', 0),
        ('streq("${NONE-c}",c)', 0),
        (r"streq(\"b\",b)", 0),
        ("streq('$A',b)", 1),
        ("1 #x", 2),
        ('"', 2),
        ("nonsense(1)", 2),
        ("version_atleast(3.5-dev4)", 1),
    ],
)
def test_conditions(expression: str, code: int) -> None:
    output = StringIO()
    assert check_condition(expression, {"A": "b"}, output) == code
    assert bool(output.getvalue()) == (code == 2)


def test_the_versions_answer_those_who_look_for_haproxy() -> None:
    """HAProxy's test runner keeps these lines and takes the third word and the target."""
    long = version_text(2)
    assert long.startswith(version_text(1))
    kept = [line for line in long.splitlines() if re.search("HA-?Proxy version|TARGET.*=", line)]
    assert len(kept) == 2
    assert re.fullmatch(r"\d+\.\d+\.\d+", kept[0].split()[2])
    assert kept[1] == "  TARGET  = linux-glibc"
    assert re.search(r"^Feature list :.* \+EPOLL .*-OPENSSL ", long, re.MULTILINE)


@pytest.mark.parametrize(("gil", "text"), [(True, "with the GIL"), (False, "free-threaded")])
def test_the_version_claims_no_more_than_is_true(
    monkeypatch: pytest.MonkeyPatch, gil: bool, text: str
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: gil, raising=False)
    first = version_text(1).splitlines()[0]
    assert text in first
    assert ("free-threaded" in first) is not gil


@pytest.mark.parametrize("option", ["-h", "-v", "-vv", "-dC"])
def test_a_standard_output_without_room_is_said_in_one_line(tmp_path: Path, option: str) -> None:
    config = tmp_path / "x.cfg"
    config.write_text("frontend f\n    mode tcp\n    timeout client 1s\n    bind :1\n")
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "mtproxy", "-c", "-f", str(config), option],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    assert ended.returncode == 1
    assert re.fullmatch(
        r"\[ALERT\] .*standard output: cannot write: No space left on device\n", ended.stderr
    )

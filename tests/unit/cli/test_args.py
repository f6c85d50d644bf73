"""HAProxy's command line."""

from __future__ import annotations

import re

import pytest

from mtproxy.base.commandline import CommandLine
from mtproxy.cli.args import HELP, IGNORED, UsageError, known_options, parse_args


def parse(text: str) -> CommandLine:
    return parse_args(text.split())


def test_files_come_by_f_and_behind_two_dashes() -> None:
    assert parse("-f a -f b.d -- c -d").paths == ("a", "b.d", "c", "-d")


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("-c", {"check": True}),
        ("-d", {"debug": True}),
        ("-db", {"foreground": True}),
        ("-D", {"daemon": True}),
        ("-q", {"quiet": True}),
        ("-V", {"verbose": True}),
        ("-dC", {"dump": True}),
        ("-dD", {"diag": True}),
        ("-dL", {"check_locks": True}),
        ("-dW", {"zero_warning": True}),
        ("-dr", {"ignore_resolution_failures": True}),
        ("-p run/pid", {"pidfile": "run/pid"}),
        ("-L peer", {"local_peer": "peer"}),
        ("-n 10", {"maxconn": 10}),
        ("-N 10", {"proxy_maxconn": 10}),
        ("-m 512", {"memory_limit_mb": 512}),
        ("-C /etc", {"directory": "/etc"}),
        ("-sf 12 13", {"stop_pids": (12, 13)}),
        ("-sf", {}),
        ("-st 12", {"stop_pids": (12,), "stop_at_once": True}),
        (
            "-de -dp -dS -dG -dR",
            {
                "disabled_features": frozenset(
                    {"noepoll", "nopoll", "nosplice", "nogetaddrinfo", "noreuseport"}
                )
            },
        ),
        ("-dM0x50,tag -dI -dM", {"ignored": ("-dM0x50,tag", "-dI", "-dM")}),
        ("-dK all", None),
        ("-dKall -dt -dtall -dZ -dF", {"ignored": ("-dKall", "-dt", "-dtall", "-dZ", "-dF")}),
    ],
)
def test_options(text: str, changed: dict[str, object] | None) -> None:
    if changed is None:
        with pytest.raises(UsageError, match="unexpected argument 'all'"):
            parse(f"{text} -f x")
        return
    expected = CommandLine(paths=("x",), **changed)  # type: ignore[arg-type]
    assert parse(f"{text} -f x") == expected
    assert parse(f"-f x {text}") == expected


def test_a_condition_and_the_versions_need_no_file() -> None:
    assert parse_args(["-cc", "1 && 0"]).condition == "1 && 0"
    assert parse_args(["-cc", ""]).condition == ""
    assert (parse("-v").version, parse("-vv").version, parse("--version").version) == (1, 2, 1)
    # whatever begins so is one of the two, as in HAProxy
    assert (parse("-version").version, parse("-vvv").version) == (1, 2)
    assert parse("--help").help
    assert parse("-h").help


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no configuration file"),
        (["-c"], "no configuration file"),
        (["-f"], "'-f' expects an argument"),
        (["-f", ""], "'-f' expects a file or a directory"),
        (["-cc"], "'-cc' expects an argument"),
        (["x.cfg"], "unexpected argument 'x.cfg'; a configuration file stands behind '-f'"),
        (["-fx.cfg"], "unknown option '-fx.cfg'"),
        (["-cc1"], "unknown option '-cc1'; did you mean '-cc'?"),
        (["--halp"], "unknown option '--halp'; did you mean '--help'?"),
        (["-f", "x", "-n", "many"], "'-n' expects a number (got 'many')"),
        (["-f", "x", "-n", "-1"], "'-n' expects a number"),
        (["-f", "x", "-sf", "1", "b"], "'-sf' expects a number (got 'b')"),
        (["-f", "x", "-L", ""], "'-L' expects a name"),
        (["-f", "x", "-Ws"], "'-Ws' : the master process"),
        (["-f", "x", "-W"], "not supported by mtproxy yet"),
        (["-f", "x", "-S", "/run/x"], "'-S' : the master process"),
        (["-f", "x", "-x", "/run/x"], "'-x' : taking over the listeners"),
    ],
)
def test_faults(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_args(arguments)
    assert message in str(caught.value)


def test_the_help_speaks_of_every_option() -> None:
    words = set(re.findall(r"-[-\w]+|--", HELP))
    # What other systems' kernels would need is accepted and not worth a line of the help.
    silent = {"-h", "--help", "--version", "-dk", "-dv"}
    assert set(known_options()) - silent <= words
    assert all(IGNORED.values())


@pytest.mark.parametrize("option", ["-W", "-Ws"])
def test_a_check_does_not_care_about_the_master(option: str) -> None:
    """Service units check with the options that they start with."""
    assert parse(f"{option} -c -f x").check
    assert parse(f"-c -f x {option}").check

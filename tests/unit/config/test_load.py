"""`load`: files, directories, the environment, and what the command line changes."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from mtproxy.base.commandline import CommandLine
from mtproxy.base.errors import Diagnostics
from mtproxy.base.settings import Settings
from mtproxy.config import has_listener, load

LISTEN = (
    "defaults\n timeout connect 1s\n timeout client 1s\n timeout server 1s\nlisten {}\n bind :{}\n"
)


def write(path: Path, text: str) -> str:
    path.write_bytes(text.encode("latin-1"))
    return str(path)


def messages(diagnostics: Diagnostics) -> list[str]:
    return [item.text() for item in diagnostics]


def valid(found: tuple[Settings | None, Diagnostics]) -> Settings:
    settings, diagnostics = found
    assert settings is not None, messages(diagnostics)
    return settings


def test_several_files_are_one_configuration(tmp_path: Path) -> None:
    first = write(tmp_path / "a.cfg", LISTEN.format("a", 80))
    second = write(tmp_path / "b.cfg", "global\n maxconn 7\nfrontend b\n bind :81\n")
    settings = valid(load([first, second]))
    assert [proxy.name for proxy in settings.proxies] == ["a", "b"]
    assert settings.proxies[1].timeouts.client == 1000  # defaults reach into the next file
    assert settings.global_.maxconn == 7
    assert settings.files == (first, second)
    assert settings.environment["HAPROXY_CFGFILES"] == f"{first};{second}"


def test_a_section_ends_with_its_file(tmp_path: Path) -> None:
    first = write(tmp_path / "a.cfg", LISTEN.format("a", 80))
    second = write(tmp_path / "b.cfg", " bind :81\n")
    settings, diagnostics = load([first, second])
    assert settings is None
    assert messages(diagnostics) == [
        f"parsing [{second}:1] : unknown keyword 'bind' out of section"
    ]


def test_a_directory_stands_for_its_visible_cfg_files_in_byte_order(tmp_path: Path) -> None:
    for number, name in enumerate(("b.cfg", "B.cfg", "a.cfg", "10.cfg")):
        write(tmp_path / name, LISTEN.format(name[:-4], 80 + number))
    for name in (".hidden.cfg", "c.cfg~", "d.txt"):
        write(tmp_path / name, "nonsense\n")
    settings = valid(load([str(tmp_path)]))
    assert [proxy.name for proxy in settings.proxies] == ["10", "B", "a", "b"]


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.cfg")
    empty = tmp_path / "empty"
    empty.mkdir()
    for paths, message in (
        ([missing], "cannot open configuration file"),
        ([str(empty)], "no configuration file"),
        (["a\0b"], "cannot open configuration"),
    ):
        settings, diagnostics = load(paths)
        assert settings is None
        assert message in messages(diagnostics)[0]


def test_the_last_line_feed_must_be_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.cfg", LISTEN.format("a", 80).rstrip("\n"))
    settings, diagnostics = load([path])
    assert settings is None
    (message,) = messages(diagnostics)
    assert "[" + path + ":6]" in message
    assert "missing line feed on the last line" in message
    assert "position 9" in message


def test_nul_bytes_are_errors_and_carriage_returns_are_not(tmp_path: Path) -> None:
    text = LISTEN.format("a", 80).replace("\n", "\r\n")
    assert valid(load([write(tmp_path / "a.cfg", text)])).proxies[0].binds[0].address.port == 80
    settings, diagnostics = load([write(tmp_path / "b.cfg", "global\n max\0conn 1\n")])
    assert settings is None
    assert "stray NUL character at position 5" in messages(diagnostics)[0]


def test_all_errors_are_reported_in_one_run(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.cfg",
        "global\n nbthraed 2\n tune.bufsize x\nlisten l\n bnid :80\n bind :80 nmae x\n"
        " server s 192.0.2.1 chek\n option httplgo\n timeout cilent 1s\n balance leastcon\n",
    )
    settings, diagnostics = load([path])
    assert settings is None
    found = [
        (item.location.line, item.word, item.suggestion)
        for item in diagnostics
        if item.severity == "alert" and item.location
    ]
    assert found == [
        (2, "nbthraed", "nbthread"),
        (3, "x", None),
        (5, "bnid", "bind"),
        (6, "nmae", "name"),
        (7, "chek", "check"),
        (8, "httplgo", "httplog"),
        (9, "cilent", "client"),
        (10, "leastcon", "leastconn"),
    ]


def test_variables_set_in_the_configuration_reach_what_follows(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.cfg",
        "global\n setenv NAME web\n presetenv NAME other\n presetenv PORT 8080\n unsetenv GONE\n"
        'frontend "$NAME"\n timeout client 1s\n bind ":$PORT" name "x${GONE}y"\n',
    )
    environ = {"GONE": "1", "KEPT": "1"}
    settings = valid(load([path], environ=environ))
    proxy = settings.proxies[0]
    assert (proxy.name, proxy.binds[0].address.port, proxy.binds[0].name) == ("web", 8080, "xy")
    assert settings.environment["KEPT"] == "1"
    assert "GONE" not in settings.environment
    assert environ == {"GONE": "1", "KEPT": "1"}  # the caller's is not touched


def test_resetenv_keeps_what_it_names(tmp_path: Path) -> None:
    path = write(tmp_path / "a.cfg", "global\n resetenv A\n setenv C 1\n")
    assert valid(load([path], environ={"A": "1", "B": "1"})).environment == {"A": "1", "C": "1"}


def test_the_local_peer(tmp_path: Path) -> None:
    named = write(tmp_path / "a.cfg", 'global\n localpeer p1\n node "${HAPROXY_LOCALPEER}"\n')
    plain = write(tmp_path / "b.cfg", 'global\n node "${HAPROXY_LOCALPEER}"\n')
    assert valid(load([named])).global_.node == "p1"
    both = valid(load([named], CommandLine(local_peer="p2"))).global_
    assert (both.localpeer, both.node) == ("p2", "p2")
    assert valid(load([plain])).global_.localpeer == socket.gethostname()


def test_the_command_line_wins(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.cfg",
        "global\n maxconn 10\n pidfile /a\n daemon\n quiet\n nosplice\n" + LISTEN.format("l", 80),
    )
    plain = valid(load([path])).global_
    assert (plain.maxconn, plain.pidfile, plain.daemon, plain.quiet) == (10, "/a", True, True)
    cmdline = CommandLine(
        maxconn=20,
        pidfile="/b",
        foreground=True,
        verbose=True,
        proxy_maxconn=5,
        disabled_features=frozenset({"noepoll"}),
    )
    settings = valid(load([path], cmdline))
    changed = settings.global_
    assert (changed.maxconn, changed.pidfile, changed.daemon) == (20, "/b", False)
    assert not changed.quiet
    assert changed.disabled_features == {"noepoll", "nosplice"}
    assert settings.proxies[0].maxconn == 5


def test_warnings_are_fatal_when_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "a.cfg", "listen l\n bind :80\n")
    strict = write(tmp_path / "b.cfg", "global\n zero-warning\nlisten l\n bind :80\n")
    settings, diagnostics = load([path])
    assert settings is not None
    assert diagnostics.warnings == 1
    for found in (load([path], CommandLine(zero_warning=True)), load([strict])):
        assert found[0] is None
        assert "zero-warning" in messages(found[1])[-1]


@pytest.mark.parametrize(
    ("text", "listens"),
    [
        ("global\n", False),
        ("global\n stats socket /tmp/x\n", True),
        ("frontend f\n bind :80\n timeout client 1s\n", True),
        ("frontend f\n bind :80\n disabled\n", False),
        ("backend b\n", False),
    ],
)
def test_something_to_listen_on(tmp_path: Path, text: str, listens: bool) -> None:
    assert has_listener(valid(load([write(tmp_path / "a.cfg", text)]))) is listens


def test_settings_do_not_change_between_equal_loads(tmp_path: Path) -> None:
    path = write(tmp_path / "a.cfg", LISTEN.format("l", 80) + " server s 192.0.2.1:80 check\n")
    first, second = valid(load([path])), valid(load([path]))
    assert first == second
    assert replace(first.proxies[0], id=2) != second.proxies[0]


def test_variables_made_of_each_other_do_not_grow_without_an_end(tmp_path: Path) -> None:
    """Each line doubles the last value: 40 lines would make 10 TB."""
    lines = "global\n setenv A0 x123456789\n"
    for number in range(40):
        lines += f' setenv A{number + 1} "$A{number}$A{number}"\n'
    path = write(tmp_path / "a.cfg", lines)
    settings, diagnostics = load([path])
    assert settings is None
    first = messages(diagnostics)[0]
    # 10 bytes, doubled 12 times, are 40960; the next value would be longer than 65536
    assert first.startswith(
        f"parsing [{path}:15] : line too long: more than 65536 bytes with the value of 'A12' at"
        " position "
    )


def test_presetenv_is_bounded_too(tmp_path: Path) -> None:
    path = write(tmp_path / "a.cfg", 'global\n presetenv B "${A}"\n')
    settings, diagnostics = load([path], environ={"A": "x" * 65537})
    assert settings is None
    assert f"parsing [{path}:2] : line too long" in messages(diagnostics)[0]
    assert valid(load([path], environ={"A": "x" * 65536})).environment["B"] == "x" * 65536


def test_a_duplicate_server_does_not_hide_what_else_is_wrong_with_its_line(tmp_path: Path) -> None:
    text = LISTEN.format("a", 80) + " server s 127.0.0.1:1\n server s nowhere::x wieght 3\n"
    path = write(tmp_path / "a.cfg", text)
    settings, diagnostics = load([path])
    assert settings is None
    found = messages(diagnostics)
    assert len(found) == 3
    assert "another server named 's' was already defined at line 7" in found[0]
    assert "unknown keyword 'wieght'; did you mean 'weight'?" in found[1]
    assert "nowhere" in found[2]


def test_bad_times_name_the_units(tmp_path: Path) -> None:
    path = write(tmp_path / "a.cfg", "defaults\n timeout client 5x\n")
    _, diagnostics = load([path])
    assert (
        "unexpected character 'x' (a time is a number and one of the units us, ms, s, m, h, d)"
        in (messages(diagnostics)[0])
    )

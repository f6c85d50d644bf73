"""Single keywords whose meaning needs more than a golden file."""

from __future__ import annotations

import socket
from pathlib import Path

from mtproxy.base.commandline import CommandLine
from mtproxy.base.errors import Diagnostics
from mtproxy.base.settings import Settings
from mtproxy.config import load


def read(tmp_path: Path, text: str) -> tuple[Settings | None, Diagnostics]:
    path = tmp_path / "a.cfg"
    path.write_text(text)
    return load([str(path)], CommandLine())


def alerts(tmp_path: Path, text: str) -> list[str]:
    return [item.message for item in read(tmp_path, text)[1] if item.severity == "alert"]


def test_an_inherited_descriptor_must_be_a_socket(tmp_path: Path) -> None:
    with socket.socket() as listener, (tmp_path / "file").open("w") as file:
        good = f"global\n stats socket fd@{listener.fileno()} level admin\n"
        settings, _ = read(tmp_path, good)
        assert settings is not None
        (stats,) = settings.global_.stats_sockets
        assert (stats.bind.address.fd, stats.bind.level) == (listener.fileno(), "admin")
        opened = file.fileno()
        (message,) = alerts(tmp_path, f"frontend f\n bind fd@{opened}\n")
        assert message.endswith(f"file descriptor {opened} is not a socket")
    for number in (opened, 10**30):
        (message,) = alerts(tmp_path, f"frontend f\n bind fd@{number}\n")
        assert message.endswith(f"file descriptor {number} is not open")


def test_all_faults_of_one_line_are_reported(tmp_path: Path) -> None:
    found = alerts(
        tmp_path, "backend b\n server s 192.0.2.1:80 weight 999 ssl rise 0 verify none fall x\n"
    )
    assert len(found) == 4
    assert "'ssl', 'verify' : known but not supported by mtproxy yet (TLS)" in found[-1]


def test_an_unsupported_option_takes_its_argument_along(tmp_path: Path) -> None:
    """The file name behind `crt` is no unknown option."""
    (message,) = alerts(tmp_path, "frontend f\n bind :443 ssl crt backlog name n\n")
    assert message.count("'ssl', 'crt'") == 1


def test_zero_gives_tunes_back_their_default(tmp_path: Path) -> None:
    settings, _ = read(tmp_path, "global\n tune.runqueue-depth 40\n tune.runqueue-depth 0\n")
    assert settings is not None
    assert settings.global_.tune == {}


def test_the_first_user_holds(tmp_path: Path) -> None:
    settings, diagnostics = read(tmp_path, "global\n uid 5\n uid 6\n gid 7\n")
    assert settings is not None
    assert (settings.global_.uid, settings.global_.gid) == (5, 7)
    assert diagnostics.warnings == 1


def test_a_message_knows_the_column_of_its_word(tmp_path: Path) -> None:
    text = "listen l\n bnid :80\n\tbind :80 'nmae' x\n option  httplgo\n timeout client \"1x\"\n"
    found = {item.word: item.column for item in read(tmp_path, text)[1] if item.word}
    assert found == {"bnid": 2, "nmae": 11, "httplgo": 10, "1x": 17}

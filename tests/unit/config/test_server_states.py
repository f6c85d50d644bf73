"""What a configuration may say of a server's state: `track` and its faults, `init-state`."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtproxy.base.settings import Settings
from mtproxy.config import load

HEAD = """\
defaults
 timeout connect 1s
 timeout client 1s
 timeout server 1s
backend far
 server f1 192.0.2.1:1 check
backend app
"""


def read(tmp_path: Path, *servers: str) -> tuple[Settings | None, list[str]]:
    path = tmp_path / "a.cfg"
    lines = [f" server {text}" for text in servers]
    path.write_text(HEAD + "\n".join(lines) + "\n")
    found, diagnostics = load([str(path)], resolver=lambda name, family: [])
    return found, [item.text() for item in diagnostics]


def test_what_may_be_tracked(tmp_path: Path) -> None:
    found, messages = read(
        tmp_path,
        "a 192.0.2.1:1 check",
        "b 192.0.2.1:1 track a",
        "c 192.0.2.1:1 track app/b",
        "d 192.0.2.1:1 track far/f1",
    )
    assert messages == []
    assert found is not None
    tracked = [server.states.track for server in found.proxies[-1].servers]
    assert tracked == ["", "a", "app/b", "far/f1"]


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        (["a 192.0.2.1:1 check track far/f1"], "checks and tracking at the same time"),
        (["a 192.0.2.1:1 track nope"], "unable to find the server 'nope' of backend 'app'"),
        (["a 192.0.2.1:1 track fra/f1"], "find the backend 'fra' for tracking; did you mean 'far'"),
        (["a 192.0.2.1:1 track far/f2"], "server 'f2' of backend 'far' for tracking"),
        (["a 192.0.2.1:1 track b", "b 192.0.2.1:1"], "app/b for tracking as it has neither"),
        (["a 192.0.2.1:1 track a"], "unable to track app/a as it belongs to a tracking chain"),
        (["a 192.0.2.1:1 track"], "'track' expects [backend/]server as argument"),
        (["a 192.0.2.1:1 check init-state dwon"], "(got 'dwon'); did you mean 'down'?"),
    ],
)
def test_faults(tmp_path: Path, servers: list[str], words: str) -> None:
    found, messages = read(tmp_path, *servers)
    assert found is None
    assert len([text for text in messages if words in text]) == 1, messages


def test_a_loop_is_told_of_each_of_its_servers(tmp_path: Path) -> None:
    found, messages = read(
        tmp_path,
        "a 192.0.2.1:1 track b",
        "b 192.0.2.1:1 track c",
        "c 192.0.2.1:1 track a",
        "d 192.0.2.1:1 track a",
    )
    assert found is None
    assert [text.split("'")[1] for text in messages if "loop" in text] == [
        "server app/a",
        "server app/b",
        "server app/c",
    ]


def test_default_server_hands_it_down(tmp_path: Path) -> None:
    path = tmp_path / "a.cfg"
    path.write_text(
        HEAD + " default-server track far/f1 init-state down\n server a 192.0.2.1:1\n"
        " server b 192.0.2.1:1 init-state up\n"
    )
    found, _ = load([str(path)], resolver=lambda name, family: [])
    assert found is not None
    one, two = found.proxies[-1].servers
    assert (one.states.track, one.states.init_state) == ("far/f1", "down")
    assert (two.states.track, two.states.init_state) == ("far/f1", "up")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["option external-check"], "unable to find required 'external-check command'"),
        (
            ["option external-check", "external-check command x"],
            "'x' does not have a leading '/' and 'external-check path' is not set",
        ),
        (["external-check comand x"], "(got 'comand'); did you mean 'command'?"),
        (["external-check command"], "expects a command as argument"),
        (["server z 192.0.2.1:1 agent-check"], "needs the port of the agent"),
        (["mode tcp", "server z 192.0.2.1:1 check observe layer7"], "only be used in mode http"),
        (["server z 192.0.2.1:1 check error-limit 0"], "error-limit"),
    ],
)
def test_faults_of_checks(tmp_path: Path, lines: list[str], words: str) -> None:
    path = tmp_path / "a.cfg"
    text = "\n".join(f" {line}" for line in lines)
    path.write_text(f"global\n external-check\n{HEAD}{text}\n")
    found, diagnostics = load([str(path)], resolver=lambda name, family: [])
    assert found is None
    messages = [item.text() for item in diagnostics]
    assert [message for message in messages if words in message], messages


def test_external_checks_have_to_be_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.cfg"
    path.write_text(f"{HEAD} option external-check\n external-check command /bin/true\n")
    found, diagnostics = load([str(path)], resolver=lambda name, family: [])
    assert found is None
    assert "global.external-check" in next(item.text() for item in diagnostics)


def test_tracking_needs_the_same_meaning_of_404(tmp_path: Path) -> None:
    path = tmp_path / "a.cfg"
    text = " mode http\n option httpchk\n http-check disable-on-404\n"
    path.write_text(f"{HEAD}{text} server a 192.0.2.1:1 track far/f1\n")
    found, diagnostics = load([str(path)], resolver=lambda name, family: [])
    assert found is None
    assert "disable-on-404" in next(item.text() for item in diagnostics)

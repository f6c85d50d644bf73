"""docs/mtproxy.service: its command lines are ones that the program understands."""

from __future__ import annotations

import re
from pathlib import Path

from mtproxy.cli.args import parse_args

UNIT = Path(__file__).parents[3] / "docs" / "mtproxy.service"


def test_command_lines() -> None:
    text = UNIT.read_text()
    commands = re.findall(r"^Exec(\w+)=\S+/mtproxy (.*)$", text, re.MULTILINE)
    assert [name for name, _ in commands] == ["StartPre", "Start", "Reload", "Reload"]
    values = {"CONFIG": "/etc/a.cfg", "PIDFILE": "/run/a.pid", "MAINPID": "42"}
    parsed = [
        parse_args(re.sub(r"\$(\w+)", lambda m: values[m[1]], words).split())
        for _, words in commands
    ]
    assert [one.check for one in parsed] == [True, False, True, False]
    assert all(one.paths == ("/etc/a.cfg",) for one in parsed)
    assert parsed[1].daemon
    assert parsed[1].pidfile == parsed[3].pidfile == "/run/a.pid"
    assert parsed[3].stop_pids == (42,)
    assert not parsed[3].stop_at_once
    pid_file = re.search(r"^PIDFile=(.*)$", text, re.MULTILINE)
    assert pid_file is not None
    assert f"PIDFILE={pid_file[1]}" in text

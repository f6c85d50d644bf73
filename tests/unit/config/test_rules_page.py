"""The examples of docs/rules.md load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mtproxy
from mtproxy.config.load import load

PAGE = Path(mtproxy.__file__).parent.parent / "docs" / "rules.md"
EXAMPLES = re.findall(r"```haproxy\n(.*?)```", PAGE.read_text(), re.DOTALL)
REST = """
backend app
    mode http
    server s 127.0.0.1:1
backend shop
    mode {mode}
    server s 127.0.0.1:1
backend other
    mode {mode}
    server s 127.0.0.1:1
"""
HEAD = "defaults\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n"


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_loads(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.map").write_text("www.example.com shop\n")
    (tmp_path / "allowed.lst").write_text("127.0.0.1\n")
    (tmp_path / "maintenance.http").write_text("HTTP/1.1 503 Away\r\n\r\n")
    text = text.replace("/etc/mtproxy/", f"{tmp_path}/")
    if text.startswith(" "):
        text = f"frontend f\n    mode http\n    bind :80\n    default_backend app\n{text}"
    head = HEAD
    if "defaults web" in text:
        head = ""
        text = text.replace("    mode http\n", "    mode http\n" + HEAD.partition("\n")[2], 1)
    rest = REST.format(mode="tcp" if "mode tcp" in text else "http")
    (tmp_path / "a.cfg").write_text(head + text + HEAD + rest)
    settings, diagnostics = load([str(tmp_path / "a.cfg")])
    assert [item.text() for item in diagnostics] == []
    assert settings is not None


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6

"""Exit codes of `-c` for many small inputs: as recorded, and the same as HAProxy's own.

A file holds cases: `=== CODE` or `=== CODE haproxy CODE: REASON` (where the two differ, and why),
then the configuration. `@D` stands for a defaults section with timeouts, `@NUL@` and `@CR@` for
those bytes. The variables V and E are set.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from mtproxy.base.commandline import CommandLine
from mtproxy.cli.check import check_configuration

FOLDER = Path(__file__).parent / "agreement"
FILES = sorted(path.name for path in FOLDER.glob("*.txt"))
DEFAULTS = b"defaults\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n"
VARIABLES = {"V": "a b  c", "E": ""}
HEADER = re.compile(rb"^=== (\d)(?: haproxy (-?\d+): (.+))?\n", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One input: the line of its header, both exit codes, its bytes."""

    line: int
    code: int
    haproxy: int
    data: bytes


def read(name: str) -> list[Case]:
    text = (FOLDER / name).read_bytes()
    headers = list(HEADER.finditer(text))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    cases = []
    for header, end in zip(headers, ends, strict=True):
        data = text[header.end() : end].replace(b"@D\n", DEFAULTS)
        data = data.replace(b"@NUL@", b"\0").replace(b"@CR@", b"\r")
        code = int(header[1])
        line = text.count(b"\n", 0, header.start()) + 1
        cases.append(Case(line, code, int(header[2] or code), data))
    return cases


@pytest.mark.parametrize("name", FILES)
def test_exit_codes_are_as_recorded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    wrong = []
    for case in read(name):
        path = tmp_path / "case.cfg"
        path.write_bytes(case.data)
        output = StringIO()
        code = check_configuration(CommandLine(paths=(str(path),), check=True), output)
        if code != case.code:
            wrong.append(f"{name}:{case.line}: exit {code}, not {case.code}\n{output.getvalue()}")
    assert not wrong, "\n".join(wrong)


def haproxy_version() -> str:
    program = shutil.which("haproxy")
    if program is None:
        return ""
    text = subprocess.run([program, "-v"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"HAProxy version (\d+\.\d+)", text)
    return found[1] if found else ""


@pytest.mark.parametrize("name", FILES)
def test_haproxy_exits_as_recorded(name: str, tmp_path: Path) -> None:
    version = haproxy_version()
    if version != "2.6":
        pytest.skip(f"needs HAProxy 2.6, whose language is followed (found: {version or 'none'})")
    cases = read(name)

    def run(number: int) -> int:
        path = tmp_path / f"{number}.cfg"
        path.write_bytes(cases[number].data)
        command = ["haproxy", "-c", "-f", str(path)]
        environment = {**os.environ, **VARIABLES}
        return subprocess.run(
            command, capture_output=True, env=environment, check=False, timeout=60
        ).returncode

    with ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(run, range(len(cases))))
    wrong = [
        f"{name}:{case.line}: HAProxy exits with {code}, not {case.haproxy}"
        for case, code in zip(cases, codes, strict=True)
        if code != case.haproxy
    ]
    assert not wrong, "\n".join(wrong)

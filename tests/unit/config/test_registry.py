"""The keyword tables: complete, consistent, and knowing what HAProxy knows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mtproxy.config import registry
from mtproxy.config.keywords_bind import BIND_OPTIONS
from mtproxy.config.keywords_server import SERVER_OPTIONS
from mtproxy.config.model import (
    GLOBAL,
    HTTP_ERRORS,
    LOG_FORWARD,
    PROXY,
    RESOLVERS,
    RING,
    USERLIST,
    Support,
)


def test_a_keyword_is_parsed_or_says_why_not() -> None:
    for keyword in registry.ALL:
        parsed = keyword.support in (Support.YES, Support.NO_EFFECT)
        assert (keyword.parse is not None) == parsed, keyword.name
        assert bool(keyword.note) == (keyword.support is not Support.YES), keyword.name
        assert keyword.sections <= PROXY | {
            GLOBAL,
            RING,
            RESOLVERS,
            HTTP_ERRORS,
            USERLIST,
            LOG_FORWARD,
        }, keyword.name
    for option in (*BIND_OPTIONS, *SERVER_OPTIONS):
        assert (option.apply is None) == (option.support is Support.LATER), option.name
        assert bool(option.note) == (option.support is not Support.YES), option.name


def test_option_tables_have_no_name_twice() -> None:
    for table in (BIND_OPTIONS, SERVER_OPTIONS):
        names = [option.name for option in table]
        assert len(names) == len(set(names))


def test_two_words_win_over_one() -> None:
    found = registry.find("listen", ("option", "httplog"))
    assert found is not None
    assert found.name == "option httplog"
    found = registry.find("listen", ("stats", "enable"))
    assert found is not None
    assert found.name == "stats enable"
    assert registry.find("global", ("stats", "enable")) is None


def test_families() -> None:
    assert "client" in registry.family("defaults", "timeout")
    assert registry.family("global", "timeout") == []
    assert set(registry.family("global", "stats")) >= {"socket", "timeout", "maxconn"}


def dumped() -> list[tuple[str, list[str]]]:
    """(section, words) of every keyword that the installed HAProxy registers."""
    program = shutil.which("haproxy")
    if program is None:
        pytest.skip("haproxy is not installed")
    result = subprocess.run(
        [program, "-dKcfg", "-q", "-c", "-f", "/dev/null"],
        capture_output=True,
        text=True,
        check=False,
    )
    found = []
    section = ""
    for line in result.stdout.splitlines():
        if re.fullmatch(r"[a-z-]+", line):
            section = line
        elif line.startswith("\t"):
            found.append((section, line.split()))
    assert len(found) > 300
    return found


def test_every_keyword_that_haproxy_registers_is_known() -> None:
    bind = {option.name for option in BIND_OPTIONS}
    server = {option.name for option in SERVER_OPTIONS}
    unknown = []
    for section, words in dumped():
        if section not in ("global", "listen"):
            continue
        if words[0] == "bind":
            known = [word for word in words[2:] if not word.startswith("+")][-1] in bind
        elif words[0] == "server":
            known = words[3] in server
        else:
            known = registry.find(section, tuple(words)) is not None
            known = known or bool(registry.family(section, words[0]) and len(words) == 1)
        if not known:
            unknown.append(f"{section}: {' '.join(words)}")
    assert not unknown


MANUAL = Path("/usr/share/doc/haproxy/configuration.txt.gz")


def test_sections_of_supported_keywords_are_the_manuals() -> None:
    """Section 4.1, the matrix; `option tcplog` is ignored in backends with a warning."""
    if not MANUAL.exists():
        pytest.skip("haproxy-doc is not installed")
    import gzip

    text = gzip.decompress(MANUAL.read_bytes()).decode("utf-8", "replace")
    matrix = text[text.index(" keyword                              defaults   frontend") :]
    row = re.compile(
        r"([a-z_-]+(?: [a-z0-9-]+)*)\s+(\(\*\))?\s*(X|-)(?: \(!\))?\s+(X|-)\s+(X|-)\s+(X|-)\s*"
    )
    columns = ("defaults", "frontend", "listen", "backend")
    seen = 0
    for line in matrix[: matrix.index("\n4.2. ")].splitlines():
        found = row.fullmatch(line)
        keyword = found and registry.find("listen", tuple(found[1].split()))
        if not found or not keyword or keyword.parse is None:
            continue
        seen += 1
        marked = {
            name for name, mark in zip(columns, found.groups()[2:], strict=True) if mark == "X"
        }
        if keyword.name == "option tcplog":
            marked.discard("backend")
        assert keyword.sections - {GLOBAL} == marked, keyword.name
        assert keyword.negatable == bool(found[2]), keyword.name
    assert seen > 60

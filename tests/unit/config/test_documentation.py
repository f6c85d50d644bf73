"""docs/configuration.md says what the tables of the program say.

MTPROXY_UPDATE_GOLDEN=1 writes the tables of the page anew.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mtproxy.cli.args import IGNORED, known_options
from mtproxy.config import registry
from mtproxy.config.conditions import PREDICATES
from mtproxy.config.keywords_bind import BIND_OPTIONS, BindOption
from mtproxy.config.keywords_server import SERVER_OPTIONS, ServerOption
from mtproxy.config.known import SECTIONS_LATER
from mtproxy.config.model import (
    BACKEND,
    DEFAULTS,
    FRONTEND,
    GLOBAL,
    HTTP_ERRORS,
    LISTEN,
    LOG_FORWARD,
    PROXY,
    RESOLVERS,
    RING,
    USERLIST,
    Keyword,
    Support,
)
from mtproxy.rules import points
from mtproxy.rules import registry as rules
from mtproxy.rules.tables import Converter, Fetch

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
MARKED = re.compile(r"(<!-- table: ([a-z ]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
WIDTH = 110

Entry = Keyword | BindOption | ServerOption


def names(entries: Iterable[str]) -> str:
    """Names in code type, as wrapped lines."""
    lines = [""]
    for name in entries:
        word = f"`{name}`"
        if lines[-1] and len(lines[-1]) + len(word) >= WIDTH:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def grouped(entries: Iterable[Entry], support: Support) -> dict[str, list[str]]:
    """Note -> names."""
    found: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        if entry.support is support:
            found[entry.note].append(entry.name)
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def table(head: tuple[str, str], rows: dict[str, list[str]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|"]
    lines += [
        f"| {note} | {' '.join(f'`{name}`' for name in sorted(words))} |"
        for note, words in rows.items()
    ]
    return "\n".join(lines)


def described(entries: tuple[Entry, ...], supported: str) -> str:
    parts = [f"**Supported**\n\n{supported}"]
    for support, title, head in (
        (Support.NO_EFFECT, "No effect", "because"),
        (Support.LATER, "Not yet", "feature"),
        (Support.REMOVED, "Gone", "today"),
    ):
        rows = grouped(entries, support)
        if rows:
            parts.append(f"**{title}**\n\n{table((head, 'keywords'), rows)}")
    return "\n\n".join(parts)


def global_keywords() -> str:
    entries = tuple(keyword for keyword in registry.ALL if GLOBAL in keyword.sections)
    supported = sorted(
        keyword.name + (" (no)" if keyword.negatable else "")
        for keyword in entries
        if keyword.support is Support.YES
    )
    return described(entries, names(supported).replace(" (no)`", "` (no)"))


def proxy_keywords() -> str:
    entries = tuple(keyword for keyword in registry.ALL if keyword.sections & PROXY)
    rows = ["| keyword | where |", "|---|---|"]
    for keyword in sorted(entries, key=lambda keyword: keyword.name):
        if keyword.support is Support.YES:
            order = (DEFAULTS, FRONTEND, LISTEN, BACKEND)
            where = "".join(s[0] if s in keyword.sections else "-" for s in order)
            rows.append(f"| `{keyword.name}`{' (no)' if keyword.negatable else ''} | {where} |")
    return described(entries, "\n".join(rows))


def options(entries: tuple[Entry, ...]) -> str:
    return described(entries, names(sorted(e.name for e in entries if e.support is Support.YES)))


def entries(known: tuple[Fetch | Converter, ...]) -> str:
    """Everything that can be used, then what is known and refused."""
    text = names(sorted(e.name for e in known if e.later is None))
    waiting: dict[str, list[str]] = {}
    for entry in known:
        if entry.later is not None:
            waiting.setdefault(entry.later, []).append(entry.name)
    if waiting:
        rows = {reason: sorted(found) for reason, found in sorted(waiting.items())}
        text += "\n\n" + table(("refused until there is", "names"), rows)
    return text


def actions() -> str:
    """The actions of each rule set."""
    rows: dict[str, list[str]] = {}
    for name in points.RULE_SETS:
        usable = [a for a in rules.ACTIONS.values() if name in a.sets and a.later is None]
        rows[name] = sorted(a.name.rstrip("(") for a in usable)
    text = table(("rule set", "actions"), rows)
    waiting: dict[str, list[str]] = {}
    for action in rules.ACTIONS.values():
        if action.later is not None:
            waiting.setdefault(action.later, []).append(action.name.rstrip("("))
    return text + "\n\n" + table(("refused until there is", "actions"), waiting)


TABLES: dict[str, Callable[[], str]] = {
    "ignored options": lambda: table(
        ("because", "options"),
        {reason: [name.replace("*", "...")] for name, reason in sorted(IGNORED.items())},
    ),
    "predicates": lambda: names(
        f"{name}({', '.join('ABC'[:count])})" for name, (count, _) in PREDICATES.items()
    ),
    "sections": lambda: names(sorted(SECTIONS_LATER)),
    "global": global_keywords,
    "proxies": proxy_keywords,
    "bind": lambda: options(BIND_OPTIONS),
    "server": lambda: options(SERVER_OPTIONS),
    "actions": actions,
    "fetches": lambda: entries(tuple(f for f in rules.FETCHES.values() if not f.acl_only)),
    "acl fetches": lambda: entries(tuple(f for f in rules.FETCHES.values() if f.acl_only)),
    "converters": lambda: entries(tuple(rules.CONVERTERS.values())),
    "ring": lambda: options(tuple(k for k in registry.ALL if RING in k.sections)),
    "userlist": lambda: options(tuple(k for k in registry.ALL if USERLIST in k.sections)),
    "error pages": lambda: options(tuple(k for k in registry.ALL if HTTP_ERRORS in k.sections)),
    "log forward": lambda: options(tuple(k for k in registry.ALL if LOG_FORWARD in k.sections)),
    "resolvers": lambda: options(tuple(k for k in registry.ALL if RESOLVERS in k.sections)),
}


def test_the_page_has_every_table() -> None:
    found = [match[2] for match in MARKED.finditer(PAGE.read_text())]
    assert found == list(TABLES)


def write_table(page: Path, name: str, table: str) -> None:
    """Replace one table. Several test processes may do so at once: they take turns by a lock on the
    folder, and readers see the old page or the new one.
    """
    folder = os.open(page.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        text = page.read_text()
        text = MARKED.sub(lambda m: m[1] + table + m[4] if m[2] == name else m[0], text)
        new = page.with_name(f".{page.name}.{os.getpid()}")
        new.write_text(text)
        new.chmod(page.stat().st_mode)
        new.replace(page)
    finally:
        os.close(folder)


def test_tables_written_at_once_are_all_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- table: {n} -->\nold<!-- end -->\n" for n in TABLES))
    # each opens the folder by itself, so the lock is between threads as between processes
    with ThreadPoolExecutor(len(TABLES)) as pool:
        for done in [pool.submit(write_table, page, n, f"new {n}") for n in TABLES]:
            done.result(60)
    found = {match[2]: match[3] for match in MARKED.finditer(page.read_text())}
    assert found == {name: f"new {name}" for name in TABLES}
    assert list(tmp_path.iterdir()) == [page]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_current(name: str) -> None:
    expected = "\n" + TABLES[name]() + "\n\n"
    if os.environ.get("MTPROXY_UPDATE_GOLDEN"):
        write_table(PAGE, name, expected)
    text = PAGE.read_text()
    current = {match[2]: match[3] for match in MARKED.finditer(text)}
    assert current[name] == expected


def test_every_option_of_the_command_line_is_on_the_page() -> None:
    section = PAGE.read_text().partition("## Command line")[2].partition("\n## ")[0]
    words = set(re.findall(r"-[-\w]+|--", section))
    assert set(known_options()) - {"-h", "--version"} <= words

"""Every label is some lock's, and every lock of the program has a label."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import mtproxy
from mtproxy.sync.labels import LABELS, LockLabel

ROOT = Path(mtproxy.__file__).parent
#: everything of the standard library that makes threads wait for each other, by module
RAW = {
    "_thread": {"allocate_lock", "allocate", "LockType", "lock", "RLock"},
    "threading": {
        "Lock",
        "RLock",
        "Condition",
        "Event",
        "Semaphore",
        "BoundedSemaphore",
        "Barrier",
    },
    "queue": {"Queue", "LifoQueue", "PriorityQueue", "SimpleQueue"},
    "_queue": {"SimpleQueue"},
}
#: modules that have locks inside, whatever is used of them
WHOLE = {"asyncio", "concurrent", "logging", "multiprocessing", "sched"}

#: file -> what it may use, and why it is in no statistics
ALLOWED: dict[str, tuple[set[str], str]] = {
    "sync/locks.py": ({"_thread.allocate_lock"}, "the mutex of a labelled lock"),
    "sync/seeklock.py": ({"_thread.allocate_lock"}, "the guard of a labelled lock's state"),
    "sync/parking.py": ({"_thread.allocate_lock"}, "what a thread that waits for one sleeps on"),
    "sync/cells.py": ({"_thread.allocate_lock"}, "held for a comparison and a store"),
    "sched/pool.py": ({"threading.Barrier"}, "the threads' common start, once"),
    "sched/watchdog.py": ({"_thread.allocate_lock"}, "ends the watchdog, which alone waits for it"),
    "cli/demo.py": ({"threading.Event"}, "the demonstration is not the proxy"),
}
#: the tests' own tools
TOOLS = {"testing"}


def sources() -> list[tuple[Path, ast.Module]]:
    return [
        (path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(ROOT.rglob("*.py"))
    ]


def test_values_are_ranks() -> None:
    assert [label.value for label in LABELS] == list(range(len(LABELS)))


def test_no_label_without_a_lock() -> None:
    used = {
        node.attr
        for path, tree in sources()
        if path.parts[:2] != ("sync", "labels.py")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "LockLabel"
    }
    assert {label.name for label in LABELS} - used <= {LockLabel.OTHER.name}


def raw_locks(tree: ast.Module) -> set[str]:
    """What a module uses of RAW and WHOLE, under whatever name it imports it."""
    modules: dict[str, str] = {}  # local name -> module
    used = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                if alias.name in RAW:
                    modules[alias.asname or alias.name] = alias.name
                elif top in WHOLE:
                    used.add(top)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            if node.module.partition(".")[0] in WHOLE:
                used.add(node.module.partition(".")[0])
            elif node.module in RAW:
                names = {alias.name for alias in node.names}
                used |= {f"{node.module}.{name}" for name in names & (RAW[node.module] | {"*"})}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.attr in RAW.get(modules.get(node.value.id, ""), ())
        ):
            used.add(f"{modules[node.value.id]}.{node.attr}")
    return used


def test_no_lock_without_a_label() -> None:
    found = {
        str(path): used
        for path, tree in sources()
        if path.parts[0] not in TOOLS and (used := raw_locks(tree))
    }
    assert found == {path: used for path, (used, _) in ALLOWED.items()}


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("import threading\nx = threading.Lock()", {"threading.Lock"}),
        ("import threading as t\ndef f():\n  return t.RLock", {"threading.RLock"}),
        ("from threading import Condition as C", {"threading.Condition"}),
        ("def f():\n    import _thread\n    _thread.allocate_lock()", {"_thread.allocate_lock"}),
        ("from queue import SimpleQueue", {"queue.SimpleQueue"}),
        ("from threading import *", {"threading.*"}),
        ("import queue", set()),
        ("import queue, threading\nqueue.Queue(); threading.Event()",
         {"queue.Queue", "threading.Event"}),
        ("import asyncio", {"asyncio"}),
        ("from concurrent.futures import ThreadPoolExecutor", {"concurrent"}),
        ("import multiprocessing.pool", {"multiprocessing"}),
        ("import threading\nthreading.Thread(target=print)", set()),
        ("from mtproxy.sync.locks import Lock", set()),
    ],
)  # fmt: skip
def test_the_search_finds_locks(source: str, used: set[str]) -> None:
    assert raw_locks(ast.parse(source)) == used


def test_every_lock_is_given_a_label() -> None:
    """Each `Lock(...)` and `SeekLock(...)` of the program names a label, and none is OTHER."""
    made = []
    for path, tree in sources():
        if path.parts[0] in (*TOOLS, "sync"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Lock", "SeekLock"):
                (argument,) = node.args
                made.append(ast.unparse(argument))
    assert made
    assert set(made) <= {f"LockLabel.{label.name}" for label in LABELS} - {"LockLabel.OTHER"}


def test_every_label_is_documented() -> None:
    page = (ROOT.parent / "docs" / "locking.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|", page.partition("## Labels, in order")[2], re.MULTILINE)
    assert rows[: len(LABELS)] == [label.name for label in LABELS]

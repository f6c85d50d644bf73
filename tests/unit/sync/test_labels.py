"""Every label is some lock's, and every lock of the program has a label."""

from __future__ import annotations

import ast
from pathlib import Path

import mtproxy
from mtproxy.sync.labels import LABELS, LockLabel

ROOT = Path(mtproxy.__file__).parent
#: makes of mutexes; a lock made of one of these would not be in `show locks`
RAW = {"allocate_lock", "Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"}
#: the packages that build labelled locks from raw ones, and the tests' own tools
MAKERS = {"sync", "testing"}


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


def test_no_lock_without_a_label() -> None:
    raw = []
    for path, tree in sources():
        if path.parts[0] in MAKERS:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in ("threading", "_thread"):
                raw += [f"{path}: {alias.name}" for alias in node.names if alias.name in RAW]
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in ("threading", "_thread")
                and node.attr in RAW
            ):
                raw.append(f"{path}: {node.value.id}.{node.attr}")
    assert raw == []

"""Locks without statistics: what `show locks` costs is measured against them (perf/locks.py).

`strip` compiles the sources of `Lock` and `SeekLock` once more with every trace of the statistics
taken out, and puts the result into the two classes. There is one source, so the two cannot drift
apart. What is taken out:

- counting: `slot[...] += 1` and the look-up of the slot;
- timing: the clock, `record_wait`, and the attempt that does not block before the one that does,
  which is there only to know whether a wait has to be timed.

Main thread, before other threads start and before -dL or profiling touch the classes. Cannot be
undone but by `restore`, which is for tests.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from mtproxy.sync import locks, seeklock
from mtproxy.sync.locks import Lock
from mtproxy.sync.seeklock import SeekLock

#: names that only the statistics use; none of them is left
TRACES = frozenset({"slot", "_slots", "record_wait", "perf_counter_ns", "start", "_enter_slow"})
#: made by the constructor, which stays; and the two that are no longer called
_KEPT = frozenset({"__init__", "_take_slow", "_enter_slow"})

_originals: dict[tuple[type[Lock | SeekLock], str], Callable[..., Any]] = {}


class _Stripper(ast.NodeTransformer):
    """Takes the statistics out of the methods of a class."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | None:
        """`slot[4] += 1`, `self._slots[tid][4] += 1`"""
        return None if _names(node.target) & TRACES else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        """`slot = self._slots[tid]`, `start = perf_counter_ns()`"""
        return None if _names(node) & TRACES else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """`record_wait(...)`"""
        return None if _names(node) & TRACES else node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """`if self._acquire(False): count; else: slow` and `if not self._enter(False): slow`"""
        call = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
        slow = node.body if isinstance(node.test, ast.UnaryOp) else node.orelse
        if len(slow) == 1 and _names(slow[0]) & {"_take_slow", "_enter_slow"} and _tries(call):
            assert isinstance(call, ast.Call)
            call.args.clear()
            return [ast.Expr(call)]
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        return node


def _tries(node: ast.expr) -> bool:
    """Whether it is `self._acquire(False)` or `self._enter(False)`."""
    return isinstance(node, ast.Call) and len(node.args) == 1


def _names(node: ast.AST) -> set[str]:
    found = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return found | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def _stripped(cls: type[Lock | SeekLock]) -> dict[str, Callable[..., Any]]:
    """The methods of `cls` without statistics, by name."""
    module = seeklock if cls is SeekLock else locks
    tree = ast.parse(inspect.getsource(module))
    # One class of one function each would do; a whole module keeps line numbers right.
    (body,) = [
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__
    ]
    body.body = [
        _Stripper().visit(node)
        for node in body.body
        if isinstance(node, ast.FunctionDef)
        and (node.name not in _KEPT or (cls is SeekLock and node.name == "_take_slow"))
    ]
    traces = _names(body) & TRACES
    assert not traces, f"statistics are left in {cls.__name__}: {traces}"
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom)][:1]
    code = compile(
        ast.fix_missing_locations(ast.Module([*future, body], [])), module.__file__ or "", "exec"
    )
    namespace: dict[str, Any] = {}
    exec(code, vars(module), namespace)  # noqa: S102 - our own source
    return {
        name: value
        for name, value in vars(namespace[cls.__name__]).items()
        if isinstance(value, FunctionType)
    }


def strip() -> None:
    """Build the two lock classes without statistics from now on."""
    if _originals:
        return
    for cls in (Lock, SeekLock):
        for name, method in _stripped(cls).items():
            _originals[cls, name] = getattr(cls, name)
            setattr(cls, name, method)


def restore() -> None:
    """Put the statistics back; for tests. No lock may be held."""
    for (cls, name), method in _originals.items():
        setattr(cls, name, method)
    _originals.clear()


def is_stripped() -> bool:
    """Whether locks count nothing."""
    return bool(_originals)

"""Takes the statistics out of the source of the lock classes; see `sync.bare`.

A module of its own, since only the benchmark's programs need a compiler. Main thread, at start.
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
#: the constructor, which stays, and two that are no longer called
_KEPT = {Lock: {"__init__", "_take_slow"}, SeekLock: {"__init__", "_enter_slow"}}


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


def stripped(cls: type[Lock | SeekLock]) -> dict[str, Callable[..., Any]]:
    """The methods of `cls` without statistics, by name."""
    module = seeklock if cls is SeekLock else locks
    tree = ast.parse(inspect.getsource(module))
    (body,) = [
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__
    ]
    body.body = [
        _Stripper().visit(node)
        for node in body.body
        if isinstance(node, ast.FunctionDef) and node.name not in _KEPT[cls]
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

"""At which lines of the loop a thread waits for work: what a sampler has to know to call it idle.

A stack tells the line of a function, but not the C function that it has called, and the loop polls
with waiting and without. The lines are read from the code object, so that a change of the loop is
followed. Pure; any thread, but not one that serves traffic: it takes milliseconds.
"""

from __future__ import annotations

import dis
import types
from pathlib import Path


def poll_lines(code: types.CodeType, name: str = "poll") -> list[int]:
    """The lines of `code` that call the local variable `name` so that it may wait: with anything
    but the literal 0 as its first argument. A thread whose stack ends there is idle.
    """
    found: set[int] = set()
    waiting: set[tuple[int, int]] = set()
    instructions = list(dis.get_instructions(code))
    for at, one in enumerate(instructions):
        place = one.positions
        if place is None or place.lineno is None or place.col_offset is None:
            continue
        start = place.lineno, place.col_offset
        if one.opname.startswith("LOAD_FAST") and _names(one.argval, name):
            following = [i for i in instructions[at + 1 : at + 4] if i.opname != "PUSH_NULL"]
            first = following[0]
            if not (first.opname == "LOAD_CONST" and first.argval == 0):
                waiting.add(start)
        elif one.opname.startswith("CALL") and start in waiting:
            found.add(place.lineno)
    return sorted(found)


def _names(loaded: object, name: str) -> bool:
    """Two variables may be loaded by one instruction; the callee is the first of an expression."""
    return loaded == name or (isinstance(loaded, tuple) and name in loaded)


def function_in(path: str, name: str) -> types.CodeType | None:
    """The code of a module-level function of a source file, which is not run. None if the file is
    not there or has none of that name.
    """
    try:
        module = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return None
    for one in module.co_consts:
        if isinstance(one, types.CodeType) and one.co_name == name:
            return one
    return None

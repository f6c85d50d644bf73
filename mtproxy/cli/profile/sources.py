"""Names of functions: from what a stack tells (file, line, bare name) to `Class.method`, where it
is defined, and a short path. Reads the source files, if they are at hand, and compiles them without
running anything.
"""

from __future__ import annotations

import re
import types
import warnings
from pathlib import Path

from mtproxy.cli.profile.stacks import Frame

#: a path up to here says nothing that a reader needs
_LIBRARY = re.compile(r"^.*/(?:site-packages|dist-packages|lib/python3\.\d+t?)/")


class Sources:
    """Answers `frame`; remembers what it has read. `root` is a folder that paths are told from."""

    def __init__(self, root: str = "", *, by_line: bool = False) -> None:
        """With `by_line` each line is a frame of its own; else a function is one frame."""
        self._root = root.rstrip("/") + "/" if root else ""
        self._by_line = by_line
        self._files: dict[str, dict[tuple[int, str], tuple[str, int]]] = {}
        self._known: dict[tuple[str, int, str], Frame] = {}

    def frame(self, file: str, line: int, name: str) -> Frame:
        """The function `name` that was at `line` of `file`; `name` may be qualified already."""
        key = (file, line, name)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._make(file, line, name)
        return found

    def _make(self, file: str, line: int, name: str) -> Frame:
        functions = self._files.get(file)
        if functions is None:
            functions = self._files[file] = _functions(file)
        bare = name.rpartition(".")[2]
        qualified, first = functions.get((line, bare), (name, 0))
        return Frame(qualified, self.short(file), line if self._by_line else first)

    def short(self, file: str) -> str:
        """The path without what is the same for all."""
        if self._root and file.startswith(self._root):
            return file[len(self._root) :]
        return _LIBRARY.sub("", file)


def _functions(file: str) -> dict[tuple[int, str], tuple[str, int]]:
    """(line, bare name) -> (qualified name, first line) of every function in a source file."""
    try:
        text = Path(file).read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of somebody's source
            module = compile(text, file, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}  # then the stack's own words have to do
    found: dict[tuple[int, str], tuple[str, int]] = {}
    waiting = [module]
    while waiting:
        code = waiting.pop()
        place = (code.co_qualname, code.co_firstlineno)
        for line in {code.co_firstlineno, *(line for _, _, line in code.co_lines() if line)}:
            found[line, code.co_name] = place
        waiting.extend(one for one in code.co_consts if isinstance(one, types.CodeType))
    return found

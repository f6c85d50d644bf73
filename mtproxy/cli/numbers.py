"""Numbers in runtime commands, read as C's `atoi` does: HAProxy takes `10x` for 10, `x` for 0."""

from __future__ import annotations

import re

_INTEGER = re.compile(r"[ \t]*([+-]?[0-9]+)", re.ASCII)
_LONGEST = 18


def c_integer(text: str) -> int:
    """The number that `text` begins with, 0 if it begins with none."""
    match = _INTEGER.match(text)
    return 0 if match is None else int(match[1][:_LONGEST])

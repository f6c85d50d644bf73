"""Long reports in pieces, so that whoever sends them lets others go on in between. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

#: bytes that are sent at once, about
_SIZE: Final = 131072
#: ns after which others have a turn
_TIME: Final = 2_000_000


def in_pieces(texts: Iterator[str]) -> Iterator[bytes]:
    """The texts joined to pieces of some 128 kB. An empty one stands where making them has taken
    two milliseconds already: nothing to send, but others shall have a turn.
    """
    parts: list[str] = []
    size = 0
    clock = time.perf_counter_ns
    until = clock() + _TIME
    for text in texts:
        parts.append(text)
        size += len(text)
        if size >= _SIZE:
            yield "".join(parts).encode("utf-8", "surrogateescape")
            parts.clear()
            size = 0
        elif clock() >= until:
            yield b""
        else:
            continue
        until = clock() + _TIME
    if parts:
        yield "".join(parts).encode("utf-8", "surrogateescape")

"""What options do to whole heads: the case of names for peers that need it, names that are let in.

Manual 3.1 `h1-case-adjust`, 4.2 `option h1-case-adjust-bogus-client` and `-server`, `option
http-restrict-req-hdr-names`. Pure but for the memory of `CaseAdjuster`, which its thread owns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtproxy.http.headers import Header

#: header blocks that are remembered in their other form, per thread and side
_KNOWN_BLOCKS = 512
_NAME = re.compile(rb"(?m)^[^:\r\n]+(?=:)")
_narrow = re.compile(rb"[0-9A-Za-z-]+").fullmatch


class CaseAdjuster:
    """Gives names of fields the spelling that the configuration asks for."""

    __slots__ = ("_known", "_names")

    def __init__(self, names: Mapping[bytes, bytes]) -> None:
        self._names = names
        self._known: dict[bytes, bytes] = {}

    def head(self, head: bytes) -> bytes:
        """A start line with the lines of fields behind it, up to the empty line or not."""
        line, end, block = head.partition(b"\r\n")
        return line + end + self.block(block)

    def block(self, block: bytes) -> bytes:
        """The lines of fields, in lower case as the proxy writes them."""
        known = self._known.get(block)
        if known is None:
            names = self._names
            known = _NAME.sub(lambda match: names.get(match[0], match[0]), block)
            if len(self._known) >= _KNOWN_BLOCKS:
                self._known.clear()
            self._known[block] = known
        return known


def odd_names(headers: Sequence[Header]) -> bool:
    """Whether a name holds anything but letters, digits and `-`."""
    return any(header[0] and _narrow(header[0]) is None for header in headers)


def without_odd_names(headers: Sequence[Header]) -> list[Header]:
    """The fields whose names hold nothing but letters, digits and `-`."""
    return [header for header in headers if not header[0] or _narrow(header[0]) is not None]

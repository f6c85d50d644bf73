"""What indexes are made of: entries, tables of them, ordered lists of them, and their base class.

One writer at a time; readers take no lock: `Lookup` and `Ordered` say how that is possible.
"""

from __future__ import annotations

from typing import Any

from mtproxy.rules.patterns.methods import Key
from mtproxy.rules.types import Ip4, Ip6


class Entry:
    """One pattern of a list, with a map's value. The text never changes, the value may.

    `keys` is what the text means to each expression of the list, in their order.
    `as_int` and `as_ip` are the value for maps that give those. `number` grows with each entry of
    the process and is its name on the runtime socket.
    """

    __slots__ = ("as_int", "as_ip", "generation", "key", "keys", "line", "number", "value")

    def __init__(
        self, number: int, key: bytes, value: bytes | None, generation: int, line: int
    ) -> None:
        self.number = number
        self.key = key
        self.value = value
        self.generation = generation
        self.line = line
        self.keys: tuple[Key, ...] = ()
        self.as_int: int | None = None
        self.as_ip: Ip4 | Ip6 | None = None


class Lookup[K](dict[K, Entry]):
    """Entries by key, to be read by any thread as `lookup[key]`: None where there is none.

    Never `get`: in CPython 3.13 without GIL it holds the dict's lock, and wants it once more if the
    key that it finds (bytes, int or tuple; not str) was made by another thread; that second time it
    gives up its processor 40 times, which makes a look-up of 0.1 us one of 20. Subscripts and `in`
    hold no lock.
    """

    __slots__ = ()

    def __missing__(self, _key: K) -> None:
        return None


class Table[K]:
    """Entries by key; of equal keys the first one counts. Reading `first` needs no lock."""

    __slots__ = ("equal", "first")

    def __init__(self) -> None:
        self.first: Lookup[K] = Lookup()
        #: all entries of the keys that have several, in order; for writers
        self.equal: dict[K, list[Entry]] = {}

    def add(self, key: K, entry: Entry) -> None:
        first = self.first.setdefault(key, entry)
        if first is not entry:
            self.equal.setdefault(key, [first]).append(entry)

    def remove(self, key: K, entry: Entry) -> None:
        if key not in self.equal:
            if self.first[key] is entry:
                del self.first[key]
            return
        equal = self.equal[key]
        equal.remove(entry)
        self.first[key] = equal[0]
        if len(equal) == 1:
            del self.equal[key]

    def all(self, key: K) -> list[Entry]:
        """Every entry of a key, in order."""
        if key in self.equal:
            return self.equal[key].copy()
        first: Entry | None = self.first[key]
        return [] if first is None else [first]

    def _check(self) -> None:
        """Assert what always holds; only while nobody writes."""
        for key, entries in self.equal.items():
            assert len(entries) > 1, key
            assert self.first[key] is entries[0], key
            assert len({entry.number for entry in entries}) == len(entries), key


class Ordered[K]:
    """Entries with their keys in the order of the list, for methods that try one after the other.

    Readers use `items()`: a copy that is made anew when something has changed. The version is read
    before the copy is made, so a copy may be newer than its version says, never older.
    """

    __slots__ = ("_copy", "_entries", "version")

    def __init__(self) -> None:
        self._entries: dict[Entry, K] = {}
        self.version = 0
        self._copy: tuple[int, tuple[tuple[Entry, K], ...]] = (0, ())

    def add(self, key: K, entry: Entry) -> None:
        self._entries[entry] = key
        self.version += 1

    def remove(self, entry: Entry) -> None:
        if self._entries.pop(entry, None) is not None:
            self.version += 1

    def items(self) -> tuple[tuple[Entry, K], ...]:
        copy = self._copy
        version = self.version
        if copy[0] == version:
            return copy[1]
        # dict.copy is atomic, its iteration is not
        items = tuple(self._entries.copy().items())
        self._copy = (version, items)
        return items

    def __len__(self) -> int:
        return len(self._entries)


class Index:
    """Base. `tree` tells whether HAProxy has a tree for it, as `get map` shows."""

    __slots__ = ()
    tree = False

    def add(self, key: Key, entry: Entry) -> None:
        raise NotImplementedError

    def remove(self, key: Key, entry: Entry) -> None:
        raise NotImplementedError

    def find(self, value: Any) -> Entry | None:
        raise NotImplementedError

    def test(self, value: Any) -> bool:
        return self.find(value) is not None

    def found_in_tree(self, _entry: Entry, _key: Key) -> bool:
        return self.tree

    def _check(self) -> None:
        """Assert what always holds; only while nobody writes."""

"""Indexes for texts: `str`, `bin`, `meth`, `beg`, `end`, `sub`, `dir`, `dom`. See `index`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from sortedcontainers import SortedDict

from mtproxy.rules.patterns.entries import Entry, Index, Lookup, Ordered, Table
from mtproxy.rules.patterns.methods import DELIMITERS, KNOWN_METHODS, Key

#: prefixes, or words, that are compared one by one: up to so many that is the fastest way
FEW: Final = 16


class Always(Index):
    """`found` and `bool`: patterns are of no interest."""

    __slots__ = ()

    def add(self, key: Key, entry: Entry) -> None:
        pass

    def remove(self, key: Key, entry: Entry) -> None:
        pass

    def find(self, value: Any) -> Entry | None:
        return None

    def test(self, value: Any) -> bool:
        return bool(value)


class Exact(Index):
    """`str`, `bin` and `meth`: the whole value."""

    __slots__ = ("_lower", "_table", "first", "tree")

    def __init__(self, *, lower: bool, tree: bool) -> None:
        self._table: Table[Key] = Table()
        self.first: Lookup[Any] = self._table.first
        self._lower = lower
        self.tree = tree

    def add(self, key: Key, entry: Entry) -> None:
        self._table.add(key, entry)

    def remove(self, key: Key, entry: Entry) -> None:
        self._table.remove(key, entry)

    def find(self, value: bytes) -> Entry | None:
        return self.first[value.lower() if self._lower else value]

    def test(self, value: bytes) -> bool:
        return (value.lower() if self._lower else value) in self.first

    def _check(self) -> None:
        self._table._check()


class Methods(Exact):
    """`meth`: with -i, names that HAProxy does not know are compared without regard to case."""

    __slots__ = ()

    def __init__(self, *, lower: bool) -> None:
        super().__init__(lower=lower, tree=False)

    def find(self, value: bytes) -> Entry | None:
        if self._lower and value not in KNOWN_METHODS:
            value = value.lower()
        return self.first[value]

    def test(self, value: bytes) -> bool:
        return self.find(value) is not None


class Affixes(Index):
    """`beg` and `end`: a table for each length of a pattern, longest first.

    `longest`: the longest one is found (`beg`), else the first in order.
    """

    __slots__ = ("_levels", "_longest", "_lower", "_suffix", "_tables", "few", "tree")

    def __init__(self, *, lower: bool, suffix: bool) -> None:
        self._lower = lower
        self._suffix = suffix
        self._longest = self.tree = not lower and not suffix
        self._tables: SortedDict[int, Table[bytes]] = SortedDict()
        #: length (negative for suffixes: where to cut) and entries, what readers use
        self._levels: tuple[tuple[int, Lookup[bytes]], ...] = ()
        #: all keys while they are few, else None
        self.few: tuple[bytes, ...] | None = ()

    def add(self, key: Key, entry: Entry) -> None:
        assert isinstance(key, bytes)
        if len(key) in self._tables:
            self._tables[len(key)].add(key, entry)
        else:
            table: Table[bytes] = Table()
            table.add(key, entry)
            self._tables[len(key)] = table
            self._publish()
        few = self.few
        if few is not None and key not in few:
            self.few = (*few, key) if len(few) < FEW else None

    def remove(self, key: Key, entry: Entry) -> None:
        assert isinstance(key, bytes)
        table = self._tables[len(key)]
        table.remove(key, entry)
        if not table.first:
            del self._tables[len(key)]
            self._publish()
        if len(self._tables) <= FEW:
            count = sum(len(one.first) for one in self._tables.values())
            if count <= FEW:
                self.few = tuple(key for one in self._tables.values() for key in one.first)

    def _publish(self) -> None:
        self._levels = tuple(
            (-length if self._suffix else length, table.first)
            for length, table in reversed(self._tables.items())
        )

    def find(self, value: bytes) -> Entry | None:
        if self._lower:
            value = value.lower()
        best: Entry | None = None
        longest = self._longest
        for length, entries in self._levels:
            part = (value[length:] if length else b"") if self._suffix else value[:length]
            entry: Entry | None = entries[part]
            if entry is not None:
                if longest:
                    return entry
                if best is None or entry.number < best.number:
                    best = entry
        return best

    def test(self, value: bytes) -> bool:
        if self._lower:
            value = value.lower()
        few = self.few
        if few is not None:
            return value.endswith(few) if self._suffix else value.startswith(few)
        if self._suffix:
            for length, entries in self._levels:
                if (value[length:] if length else b"") in entries:
                    return True
        else:
            for length, entries in self._levels:
                if value[:length] in entries:
                    return True
        return False

    def _check(self) -> None:
        keys: set[bytes] = set()
        for length, table in self._tables.items():
            table._check()
            assert table.first, length
            assert all(len(key) == length for key in table.first)
            keys |= table.first.keys()
        assert [abs(length) for length, _ in self._levels] == list(reversed(self._tables))
        assert self.few is None or set(self.few) == keys


class Substrings(Index):
    """`sub`: one after the other."""

    __slots__ = ("_list", "_lower")

    def __init__(self, *, lower: bool) -> None:
        self._lower = lower
        self._list: Ordered[bytes] = Ordered()

    def add(self, key: Key, entry: Entry) -> None:
        self._list.add(cast("bytes", key), entry)

    def remove(self, key: Key, entry: Entry) -> None:
        self._list.remove(entry)

    def find(self, value: bytes) -> Entry | None:
        if self._lower:
            value = value.lower()
        for entry, key in self._list.items():
            # an empty pattern is found before the end of a value only where a character is: never
            if key in value and key:
                return entry
        return None


class Words(Index):
    """`dir` and `dom`: runs of whole words, by a table of the runs that are looked for."""

    __slots__ = ("_delimiters", "_few", "_list", "_lower", "_most", "_table", "_words")

    def __init__(self, method: str, *, lower: bool) -> None:
        self._lower = lower
        self._delimiters = DELIMITERS[method]
        self._words = re.compile(b"[^" + re.escape(self._delimiters) + b"]+").finditer
        self._table: Table[bytes] = Table()
        self._list: Ordered[bytes] = Ordered()
        #: all of them while they are few, else None
        self._few: tuple[tuple[Entry, bytes], ...] | None = ()
        #: words in the longest pattern that there ever was
        self._most = 0

    def add(self, key: Key, entry: Entry) -> None:
        assert isinstance(key, bytes)
        self._most = max(self._most, sum(1 for _ in self._words(key)))
        self._table.add(key, entry)
        self._list.add(key, entry)
        self._few = self._list.items() if len(self._list) <= FEW else None

    def remove(self, key: Key, entry: Entry) -> None:
        assert isinstance(key, bytes)
        self._table.remove(key, entry)
        self._list.remove(entry)
        self._few = self._list.items() if len(self._list) <= FEW else None

    def find(self, value: bytes) -> Entry | None:
        if self._lower:
            value = value.lower()
        few = self._few
        if few is not None:
            for entry, key in few:
                if key in value and self._stands_alone(key, value):
                    return entry
            return None
        best: Entry | None = None
        for entry in self._candidates(value):
            if best is None or entry.number < best.number:
                best = entry
        return best

    def test(self, value: bytes) -> bool:
        if self._lower:
            value = value.lower()
        few = self._few
        if few is not None:
            for pair in few:  # noqa: SIM110
                if pair[1] in value and self._stands_alone(pair[1], value):
                    return True
            return False
        return any(True for _ in self._candidates(value))

    def _candidates(self, value: bytes) -> Iterator[Entry]:
        places = [found.span() for found in self._words(value)]
        first = self._table.first
        for number, (start, _) in enumerate(places):
            for _, end in places[number : number + self._most]:
                entry: Entry | None = first[value[start:end]]
                if entry is not None:
                    yield entry

    def _stands_alone(self, key: bytes, value: bytes) -> bool:
        if not key:
            return False
        delimiters = self._delimiters
        start = value.find(key)
        while start >= 0:
            end = start + len(key)
            if (start == 0 or value[start - 1] in delimiters) and (
                end == len(value) or value[end] in delimiters
            ):
                return True
            start = value.find(key, start + 1)
        return False

    def _check(self) -> None:
        self._table._check()
        assert (self._few is None) == (len(self._list) > FEW)
        assert self._few is None or self._few == self._list.items()

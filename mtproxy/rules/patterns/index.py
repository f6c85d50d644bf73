"""Indexes: the patterns of one list, arranged for one match method, found without a scan.

`find(value)` gives the entry that HAProxy would: for `str` the first of equal ones, for `beg` and
`ip` the longest prefix, for everything else the first in the order of the list. `value` is of the
type that the method takes. `test(value)` only tells whether there is one.

Threads: one writer at a time (`PatternRef.lock`); `add` and `remove` change dicts by single atomic
steps or replace tuples as a whole, so a reader, who takes no lock, sees an entry or does not see
it, and nothing in between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from sortedcontainers import SortedDict

from mtproxy.rules.patterns.methods import DELIMITERS, KNOWN_METHODS, Key, Network, Range
from mtproxy.rules.regex import Groups, Regex
from mtproxy.rules.regex import compile as compile_regex
from mtproxy.rules.types import Ip4, Ip6

#: prefixes, or words, that are compared one by one: up to so many that is the fastest way
FEW: Final = 16
_MAPPED: Final = 0xFFFF << 32


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


class Table[K]:
    """Entries by key; of equal keys the first one counts. Reading `first` needs no lock."""

    __slots__ = ("equal", "first")

    def __init__(self) -> None:
        self.first: dict[K, Entry] = {}
        #: all entries of the keys that have several, in order; for writers
        self.equal: dict[K, list[Entry]] = {}

    def add(self, key: K, entry: Entry) -> None:
        first = self.first.setdefault(key, entry)
        if first is not entry:
            self.equal.setdefault(key, [first]).append(entry)

    def remove(self, key: K, entry: Entry) -> None:
        equal = self.equal.get(key)
        if equal is None:
            if self.first.get(key) is entry:
                del self.first[key]
            return
        equal.remove(entry)
        self.first[key] = equal[0]
        if len(equal) == 1:
            del self.equal[key]

    def all(self, key: K) -> list[Entry]:
        """Every entry of a key, in order."""
        equal = self.equal.get(key)
        if equal is not None:
            return equal.copy()
        first = self.first.get(key)
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

    __slots__ = ("_copy", "_entries", "_version")

    def __init__(self) -> None:
        self._entries: dict[Entry, K] = {}
        self._version = 0
        self._copy: tuple[int, tuple[tuple[Entry, K], ...]] = (0, ())

    def add(self, key: K, entry: Entry) -> None:
        self._entries[entry] = key
        self._version += 1

    def remove(self, entry: Entry) -> None:
        if self._entries.pop(entry, None) is not None:
            self._version += 1

    def items(self) -> tuple[tuple[Entry, K], ...]:
        copy = self._copy
        version = self._version
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
        self.first = cast("dict[Any, Entry]", self._table.first)
        self._lower = lower
        self.tree = tree

    def add(self, key: Key, entry: Entry) -> None:
        self._table.add(key, entry)

    def remove(self, key: Key, entry: Entry) -> None:
        self._table.remove(key, entry)

    def find(self, value: bytes) -> Entry | None:
        return self.first.get(value.lower() if self._lower else value)

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
        return self.first.get(value)

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
        self._levels: tuple[tuple[int, dict[bytes, Entry]], ...] = ()
        #: all keys while they are few, else None
        self.few: tuple[bytes, ...] | None = ()

    def add(self, key: Key, entry: Entry) -> None:
        assert isinstance(key, bytes)
        table = self._tables.get(len(key))
        if table is None:
            table = self._tables[len(key)] = Table()
            table.add(key, entry)
            self._publish()
        else:
            table.add(key, entry)
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
            entry = entries.get(part)
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

    __slots__ = ("_delimiters", "_list", "_lower", "_most", "_table", "_words")

    def __init__(self, method: str, *, lower: bool) -> None:
        self._lower = lower
        self._delimiters = DELIMITERS[method]
        self._words = re.compile(b"[^" + re.escape(self._delimiters) + b"]+").finditer
        self._table: Table[bytes] = Table()
        self._list: Ordered[bytes] = Ordered()
        #: words in the longest pattern that there ever was
        self._most = 0

    def add(self, key: Key, entry: Entry) -> None:
        assert isinstance(key, bytes)
        self._most = max(self._most, sum(1 for _ in self._words(key)))
        self._table.add(key, entry)
        self._list.add(key, entry)

    def remove(self, key: Key, entry: Entry) -> None:
        assert isinstance(key, bytes)
        self._table.remove(key, entry)
        self._list.remove(entry)

    def find(self, value: bytes) -> Entry | None:
        if self._lower:
            value = value.lower()
        if len(self._list) <= FEW:
            for entry, key in self._list.items():
                if key in value and self._stands_alone(key, value):
                    return entry
            return None
        best: Entry | None = None
        for entry in self._candidates(value):
            if best is None or entry.number < best.number:
                best = entry
        return best

    def test(self, value: bytes) -> bool:
        if len(self._list) <= FEW:
            return self.find(value) is not None
        if self._lower:
            value = value.lower()
        return any(True for _ in self._candidates(value))

    def _candidates(self, value: bytes) -> Iterator[Entry]:
        places = [found.span() for found in self._words(value)]
        get = self._table.first.get
        for number, (start, _) in enumerate(places):
            for _, end in places[number : number + self._most]:
                entry = get(value[start:end])
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


class Ranges(Index):
    """`int`, `len` and `ver`: single numbers by a table, ranges one after the other."""

    __slots__ = ("_length", "_ranges", "_single")

    def __init__(self, *, length: bool) -> None:
        self._length = length
        self._single: Table[int] = Table()
        self._ranges: Ordered[Range] = Ordered()

    def add(self, key: Key, entry: Entry) -> None:
        low, high = cast("Range", key)
        if low is not None and low == high:
            self._single.add(low, entry)
        else:
            self._ranges.add((low, high), entry)

    def remove(self, key: Key, entry: Entry) -> None:
        low, high = cast("Range", key)
        if low is not None and low == high:
            self._single.remove(low, entry)
        else:
            self._ranges.remove(entry)

    def find(self, value: Any) -> Entry | None:
        number: int = len(value) if self._length else value
        best = self._single.first.get(number)
        for entry, (low, high) in self._ranges.items():
            if (low is None or low <= number) and (high is None or number <= high):
                if best is None or entry.number < best.number:
                    best = entry
                break
        return best

    def _check(self) -> None:
        self._single._check()


class Networks(Index):
    """`ip`: for each length of prefix a table of networks, longest first.

    An IPv4 address is looked for among IPv4 networks, then as a mapped one among IPv6 networks; an
    IPv6 address among IPv6 networks, then, if it carries an IPv4 address (::ffff:0:0/96, ::/96,
    2002::/16), that one among IPv4 networks. Masks that are no prefixes come last.
    """

    __slots__ = ("_four", "_levels4", "_levels6", "_masks", "_six")
    tree = True

    def __init__(self) -> None:
        self._four: SortedDict[int, Table[int]] = SortedDict()
        self._six: SortedDict[int, Table[int]] = SortedDict()
        #: how far to shift an address, and networks by what is left; what readers use
        self._levels4: tuple[tuple[int, dict[int, Entry]], ...] = ()
        self._levels6: tuple[tuple[int, dict[int, Entry]], ...] = ()
        self._masks: Ordered[tuple[int, int]] = Ordered()

    def add(self, key: Key, entry: Entry) -> None:
        family, number, length = cast("Network", key)
        if family == 0:
            self._masks.add((number, length), entry)
            return
        tables, bits = (self._four, 32) if family == 4 else (self._six, 128)
        table = tables.get(length)
        if table is None:
            table = tables[length] = Table()
        table.add(number >> bits - length, entry)
        if len(table.first) == 1:
            self._publish()

    def remove(self, key: Key, entry: Entry) -> None:
        family, number, length = cast("Network", key)
        if family == 0:
            self._masks.remove(entry)
            return
        tables, bits = (self._four, 32) if family == 4 else (self._six, 128)
        table = tables[length]
        table.remove(number >> bits - length, entry)
        if not table.first:
            del tables[length]
            self._publish()

    def _publish(self) -> None:
        self._levels4 = tuple((32 - n, t.first) for n, t in reversed(self._four.items()))
        self._levels6 = tuple((128 - n, t.first) for n, t in reversed(self._six.items()))

    def find(self, value: Ip4 | Ip6) -> Entry | None:
        address = int(value)
        four: int | None = None
        if type(value) is Ip4:
            four = address
            for shift, entries in self._levels4:
                entry = entries.get(address >> shift)
                if entry is not None:
                    return entry
            address |= _MAPPED
        for shift, entries in self._levels6:
            entry = entries.get(address >> shift)
            if entry is not None:
                return entry
        if four is None:
            four = _embedded(address)
            if four is None:
                return None
            for shift, entries in self._levels4:
                entry = entries.get(four >> shift)
                if entry is not None:
                    return entry
        for entry, (number, mask) in self._masks.items():
            if four & mask == number:
                return entry
        return None

    def found_in_tree(self, _entry: Entry, key: Key) -> bool:
        return key[0] != 0

    def _check(self) -> None:
        for tables, levels, bits in (
            (self._four, self._levels4, 32),
            (self._six, self._levels6, 128),
        ):
            assert [bits - shift for shift, _ in levels] == list(reversed(tables))
            for length, table in tables.items():
                table._check()
                assert table.first
                assert all(key >> length == 0 for key in table.first)


def _embedded(address: int) -> int | None:
    """The IPv4 address that an IPv6 address carries."""
    if address >> 32 in (0, 0xFFFF):
        return address & 0xFFFFFFFF
    if address >> 112 == 0x2002:
        return address >> 80 & 0xFFFFFFFF
    return None


class Regexes(Index):
    """`reg` and `regm`: one after the other. `bind` gives a thread its own."""

    __slots__ = ("_ignore_case", "_list")

    def __init__(self, *, ignore_case: bool) -> None:
        self._ignore_case = ignore_case
        self._list: Ordered[bytes] = Ordered()

    def add(self, key: Key, entry: Entry) -> None:
        self._list.add(cast("bytes", key), entry)

    def remove(self, key: Key, entry: Entry) -> None:
        self._list.remove(entry)

    def items(self) -> tuple[tuple[Entry, bytes], ...]:
        return self._list.items()

    def compiled(self) -> list[tuple[Entry, Regex]]:
        """The patterns now, for the calling thread."""
        return [(entry, compile_regex(key, self._ignore_case)) for entry, key in self.items()]

    def find(self, value: bytes) -> Entry | None:
        for entry, one in self.compiled():
            if one.search(value):
                return entry
        return None


def make_index(method: str, ignore_case: bool) -> Index:
    """An empty index for a match method."""
    match method:
        case "str":
            return Exact(lower=ignore_case, tree=not ignore_case)
        case "bin":
            return Exact(lower=False, tree=False)
        case "meth":
            return Methods(lower=ignore_case)
        case "beg" | "end":
            return Affixes(lower=ignore_case, suffix=method == "end")
        case "sub":
            return Substrings(lower=ignore_case)
        case "dir" | "dom":
            return Words(method, lower=ignore_case)
        case "int" | "len" | "ver":
            return Ranges(length=method == "len")
        case "ip":
            return Networks()
        case "reg" | "regm":
            return Regexes(ignore_case=ignore_case)
    return Always()


def bind_regexes(current: Callable[[], Index]) -> Callable[[bytes], tuple[Entry, Regex] | None]:
    """A thread's own look-up in a list of expressions that `current` gives, as it is now."""
    seen: object = None
    mine: list[tuple[Entry, Regex]] = []

    def find(value: bytes) -> tuple[Entry, Regex] | None:
        nonlocal seen, mine
        index = current()
        assert isinstance(index, Regexes)
        items = index.items()
        if items is not seen:
            seen, mine = items, index.compiled()
        for pair in mine:
            if pair[1].search(value):
                return pair
        return None

    return find


def groups_of(found: tuple[Entry, Regex], value: bytes) -> Groups:
    """Where the groups of a match stand."""
    groups = found[1].groups(value)
    assert groups is not None
    return groups

"""Indexes: the patterns of one list, arranged for one match method, found without a scan.

`find(value)` gives the entry that HAProxy would: for `str` the first of equal ones, for `beg` and
`ip` the longest prefix, for everything else the first in the order of the list. `value` is of the
type that the method takes. `test(value)` only tells whether there is one.

Threads: one writer at a time (`PatternRef.lock`); `add` and `remove` change dicts by single atomic
steps or replace tuples as a whole, so a reader, who takes no lock, sees an entry or does not see
it, and nothing in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from sortedcontainers import SortedDict

from mtproxy.rules.patterns.entries import Entry, Index, Lookup, Ordered, Table
from mtproxy.rules.patterns.index_text import Affixes, Always, Exact, Methods, Substrings, Words
from mtproxy.rules.patterns.methods import Key, Network, Range
from mtproxy.rules.regex import Groups, Regex
from mtproxy.rules.regex import compile as compile_regex
from mtproxy.rules.types import Ip4, Ip6

_MAPPED: Final = 0xFFFF << 32


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
        best: Entry | None = self._single.first[number]
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
        self._levels4: tuple[tuple[int, Lookup[int]], ...] = ()
        self._levels6: tuple[tuple[int, Lookup[int]], ...] = ()
        self._masks: Ordered[tuple[int, int]] = Ordered()

    def add(self, key: Key, entry: Entry) -> None:
        family, number, length = cast("Network", key)
        if family == 0:
            self._masks.add((number, length), entry)
            return
        tables, bits = (self._four, 32) if family == 4 else (self._six, 128)
        if length in tables:
            tables[length].add(number >> bits - length, entry)
        else:
            table: Table[int] = Table()
            table.add(number >> bits - length, entry)
            tables[length] = table
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
                entry = entries[address >> shift]
                if entry is not None:
                    return entry
            address |= _MAPPED
        for shift, entries in self._levels6:
            entry = entries[address >> shift]
            if entry is not None:
                return entry
        if four is None:
            four = _embedded(address)
            if four is None:
                return None
            for shift, entries in self._levels4:
                entry = entries[four >> shift]
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
    """`reg` and `regm`: one after the other. Threads look up by functions of `bind_regexes`."""

    __slots__ = ("_ignore_case", "ordered")

    def __init__(self, *, ignore_case: bool) -> None:
        self._ignore_case = ignore_case
        self.ordered: Ordered[bytes] = Ordered()

    def add(self, key: Key, entry: Entry) -> None:
        self.ordered.add(cast("bytes", key), entry)

    def remove(self, key: Key, entry: Entry) -> None:
        self.ordered.remove(entry)

    def compiled(self) -> list[tuple[Entry, Regex]]:
        """The patterns now, for the calling thread."""
        items = self.ordered.items()
        return [(entry, compile_regex(key, self._ignore_case)) for entry, key in items]

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


class _HasRegexes(Protocol):
    """What has a list of expressions, another one from time to time."""

    index: Any


def bind_regexes(source: _HasRegexes) -> Callable[[bytes], tuple[Entry, Regex] | None]:
    """A thread's own look-up in the list that `source` has at that moment."""
    index: Any = None
    ordered: Ordered[bytes] = Ordered()
    version = -1
    mine: list[tuple[Entry, Regex]] = []

    def find(value: bytes) -> tuple[Entry, Regex] | None:
        nonlocal index, ordered, version, mine
        now = source.index
        if now is not index or ordered.version != version:
            index, ordered = now, now.ordered
            # read before the patterns are: they may be newer than that, never older
            version = ordered.version
            mine = now.compiled()
        for pair in mine:
            if pair[1].search(value):
                return pair
        return None

    return find


def bind_regex_test(source: _HasRegexes) -> Callable[[bytes], bool]:
    """As `bind_regexes`, where only the yes or no counts; it costs less."""
    index: Any = None
    ordered: Ordered[bytes] = Ordered()
    version = -1
    searches: list[Callable[[bytes], bool]] = []

    def test(value: bytes) -> bool:
        nonlocal index, ordered, version, searches
        now = source.index
        if now is not index or ordered.version != version:
            index, ordered = now, now.ordered
            version = ordered.version
            searches = [one.search for _, one in now.compiled()]
        for search in searches:  # noqa: SIM110
            if search(value):
                return True
        return False

    return test


def groups_of(found: tuple[Entry, Regex], value: bytes) -> Groups:
    """Where the groups of a match stand."""
    groups = found[1].groups(value)
    assert groups is not None
    return groups

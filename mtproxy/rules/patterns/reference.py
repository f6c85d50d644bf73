"""A list of patterns that can change while the proxy runs: an ACL line's own, a file's, a map's.

A `PatternRef` holds the entries in their order, by generation: look-ups see the current one;
others are prepared in the background and take its place as a whole (`commit`). Each way in which
the list is used is a `PatternExpr`: match method, case, kind of value, with an index of its own
for each generation. A look-up reads `PatternExpr.index`, one attribute, and the index; it takes no
lock. Whoever changes anything holds `lock` (PATREF): methods that take a `tid` take it themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Final

from mtproxy.base.location import Location
from mtproxy.base.ruleset import NOWHERE
from mtproxy.rules.patterns.entries import Entry, Index, Table
from mtproxy.rules.patterns.index import bind_regex_test, bind_regexes, make_index
from mtproxy.rules.patterns.methods import Key, PatternError, parse
from mtproxy.rules.regex import Regex
from mtproxy.rules.types import Ip4, Ip6, clamp, parse_ip
from mtproxy.sync.labels import LockLabel
from mtproxy.sync.locks import Lock

_WRAP: Final = 1 << 32
#: numbers of entries: one for each entry of the process
_numbers: Final = itertools.count(0x10000000, 0x20)
#: methods that share one list in HAProxy, hence one line in `get map`
_FAMILIES: Final = {"sub": "list", "dir": "list", "dom": "list", "end": "list", "len": "int"}


def signed(number: int) -> int:
    """A difference of two generations as a C int."""
    return (number + (_WRAP >> 1)) % _WRAP - (_WRAP >> 1)


class PatternExpr:
    """One way to use a list. `index` is that of the current generation.

    `kind` is the type of value that a map gives: "str", "int" or "ip"; None: no map.
    """

    __slots__ = ("dns", "ignore_case", "index", "kind", "method", "ref", "shown")

    def __init__(
        self, ref: PatternRef, method: str, ignore_case: bool, kind: str | None, dns: bool
    ) -> None:
        self.ref = ref
        self.method = method
        self.ignore_case = ignore_case
        self.kind = kind
        self.dns = dns
        self.index: Index = make_index(method, ignore_case)
        #: whether `get map` has a line for it
        self.shown = True

    def same(self, method: str, ignore_case: bool, kind: str | None, dns: bool) -> bool:
        return (self.method, self.ignore_case, self.kind, self.dns) == (
            method,
            ignore_case,
            kind,
            dns,
        )

    def key(self, text: bytes) -> Key:
        """Raises PatternError."""
        return parse(self.method, text, ignore_case=self.ignore_case, dns=self.dns)

    def finder(self) -> Callable[[object], Entry | None]:
        """The calling thread's look-up."""
        if self.method in ("reg", "regm"):
            search = bind_regexes(self)

            def find(value: object) -> Entry | None:
                pair = search(value)  # type: ignore[arg-type]
                return None if pair is None else pair[0]

            return find

        def look_up(value: object) -> Entry | None:
            return self.index.find(value)  # the index of this moment: a commit replaces it

        return look_up

    def tester(self) -> Callable[[object], bool]:
        """The calling thread's test whether a value is matched."""
        if self.method in ("reg", "regm"):
            return bind_regex_test(self)  # type: ignore[return-value]

        def test(value: object) -> bool:
            return self.index.test(value)

        return test

    def matcher(self) -> Callable[[bytes], tuple[Entry, Regex] | None]:
        """The calling thread's look-up in a list of regular expressions."""
        return bind_regexes(self)


class Generation:
    """The entries of one generation: in order by number, by text, and an index per expression."""

    __slots__ = ("entries", "indexes", "texts")

    def __init__(self, exprs: list[PatternExpr]) -> None:
        self.entries: dict[int, Entry] = {}
        self.texts: Table[bytes] = Table()
        self.indexes: list[Index] = [make_index(e.method, e.ignore_case) for e in exprs]


def read_value(kind: str, text: bytes, entry: Entry) -> None:
    """Note what `text` is as a value of `kind`. Raises PatternError."""
    value: int | Ip4 | Ip6 | None = None
    if kind == "int":
        digits = text[1:] if text[:1] in (b"+", b"-") else text
        if not text:
            value = 0
        elif digits.isdigit():
            value = clamp(int(text[:30]))
        entry.as_int = value
    elif kind == "ip":
        value = parse_ip(text.decode("latin-1"))
        entry.as_ip = value if isinstance(value, Ip4 | Ip6) else None
    else:
        return
    if value is None:
        raise PatternError(f"unable to parse '{text.decode('utf-8', 'surrogateescape')}'")


class Changes:
    """Whether any list of patterns has changed: `token` is another object then.

    Whoever remembers what came of a look-up reads it before, by one load; changes store it behind.
    """

    __slots__ = ("token",)

    def __init__(self) -> None:
        self.token = object()


class PatternRef:
    """A list of patterns.

    `name` is the file's, empty for the patterns of an ACL line; `number` is the id by which the
    runtime socket knows it, -1 until the configuration has been read. `for_map`, `for_acl`: who
    uses it. `has_values`: its lines have two columns.
    """

    __slots__ = (
        "changes",
        "current",
        "display",
        "exprs",
        "for_acl",
        "for_map",
        "generations",
        "has_values",
        "location",
        "lock",
        "name",
        "next",
        "number",
    )

    def __init__(
        self,
        name: str,
        display: str,
        *,
        has_values: bool = False,
        changes: Changes | None = None,
    ) -> None:
        self.changes = Changes() if changes is None else changes
        self.name = name
        self.display = display
        self.number = -1
        self.for_map = False
        self.for_acl = False
        self.has_values = has_values
        self.location: Location = NOWHERE
        self.exprs: list[PatternExpr] = []
        #: the generation that look-ups see, and the newest that was given out
        self.current = 0
        self.next = 0
        self.generations: dict[int, Generation] = {0: Generation([])}
        self.lock = Lock(LockLabel.PATREF)

    def __repr__(self) -> str:
        return f"<PatternRef {self.name or 'inline'}>"

    # --- while the configuration is read: one thread
    def expr(
        self, method: str, *, ignore_case: bool = False, kind: str | None = None, dns: bool = False
    ) -> PatternExpr:
        """This way to use the list; entries that exist are indexed. Raises PatternError."""
        for one in self.exprs:
            if one.same(method, ignore_case, kind, dns):
                return one
        expr = PatternExpr(self, method, ignore_case, kind, dns)
        family = _FAMILIES.get(method, method)
        expr.shown = not any(
            _FAMILIES.get(one.method, one.method) == family
            and (one.ignore_case, one.kind, one.dns) == (ignore_case, kind, dns)
            for one in self.exprs
        )
        generation = self.generations[self.current]
        for entry in generation.entries.values():
            try:
                if kind is not None and entry.value is not None:
                    read_value(kind, entry.value, entry)
                key = expr.key(entry.key)
            except PatternError as error:
                if entry.line > 0:
                    place = f"at line {entry.line} of file '{self.name}'"
                    raise PatternError(f"{error} {place}") from None
                raise
            expr.index.add(key, entry)
            entry.keys += (key,)
        self.exprs.append(expr)
        generation.indexes.append(expr.index)
        return expr

    def load(self, key: bytes, value: bytes | None = None, line: int = -1) -> Entry:
        """Append to the current generation. Raises PatternError."""
        return self._append(self.current, key, value, line)

    # --- changes; the caller holds the lock where threads run
    def _append(self, number: int, key: bytes, value: bytes | None, line: int = -1) -> Entry:
        if number not in self.generations:
            self.generations[number] = Generation(self.exprs)
        generation = self.generations[number]
        entry = Entry(next(_numbers), key, value, number, line)
        keys: list[Key] = []
        for expr in self.exprs:
            if expr.kind is not None and value is not None:
                read_value(expr.kind, value, entry)
            keys.append(expr.key(key))
        entry.keys = tuple(keys)
        for index, one in zip(generation.indexes, keys, strict=True):
            index.add(one, entry)
        generation.entries[entry.number] = entry
        generation.texts.add(key, entry)
        return entry

    def _remove(self, entry: Entry) -> None:
        generation = self.generations[entry.generation]
        for index, key in zip(generation.indexes, entry.keys, strict=True):
            index.remove(key, entry)
        generation.texts.remove(entry.key, entry)
        del generation.entries[entry.number]

    def _change(self, entry: Entry, value: bytes) -> None:
        probe = Entry(0, entry.key, value, 0, -1)
        for expr in self.exprs:
            if expr.kind is not None:
                read_value(expr.kind, value, probe)
        entry.as_int, entry.as_ip, entry.value = probe.as_int, probe.as_ip, value

    def _all(self, key: bytes) -> list[Entry]:
        """Every entry of a text, in all generations."""
        return [e for one in self.generations.values() for e in one.texts.all(key)]

    # --- changes by any thread
    def add(self, key: bytes, value: bytes | None, tid: int, generation: int | None = None) -> None:
        """Append an entry to a generation, None: the current one. Raises PatternError."""
        self.lock.take(tid)
        try:
            self._append(self.current if generation is None else generation, key, value)
        finally:
            self.changes.token = object()
            self.lock.drop(tid)

    def add_once(self, key: bytes, tid: int) -> None:
        """`add-acl`: append unless the text is there. Raises PatternError."""
        self.lock.take(tid)
        try:
            if not self._all(key):
                self._append(self.current, key, None)
        finally:
            self.changes.token = object()
            self.lock.drop(tid)

    def set(self, key: bytes, value: bytes, tid: int) -> bool:
        """Change the value of all entries of a text; whether there is one. Raises PatternError."""
        self.lock.take(tid)
        try:
            entries = self._all(key)
            for entry in entries:
                self._change(entry, value)
        finally:
            self.changes.token = object()
            self.lock.drop(tid)
        return bool(entries)

    def set_or_add(self, key: bytes, value: bytes, tid: int) -> None:
        """`set-map`: change the entries of a text, or append one. Raises PatternError."""
        self.lock.take(tid)
        try:
            entries = self._all(key)
            for entry in entries:
                self._change(entry, value)
            if not entries:
                self._append(self.current, key, value)
        finally:
            self.changes.token = object()
            self.lock.drop(tid)

    def delete(self, key: bytes, tid: int) -> bool:
        """Remove all entries of a text; whether there was one."""
        self.lock.take(tid)
        try:
            entries = self._all(key)
            for entry in entries:
                self._remove(entry)
        finally:
            self.changes.token = object()
            self.lock.drop(tid)
        return bool(entries)

    def set_number(self, number: int, value: bytes, tid: int) -> bool:
        """As `set`, for the entry with a number."""
        self.lock.take(tid)
        try:
            entry = self._numbered(number)
            if entry is not None:
                self._change(entry, value)
        finally:
            self.changes.token = object()
            self.lock.drop(tid)
        return entry is not None

    def delete_number(self, number: int, tid: int) -> bool:
        """As `delete`, for the entry with a number."""
        self.lock.take(tid)
        try:
            entry = self._numbered(number)
            if entry is not None:
                self._remove(entry)
        finally:
            self.changes.token = object()
            self.lock.drop(tid)
        return entry is not None

    def _numbered(self, number: int) -> Entry | None:
        for generation in self.generations.values():
            if number in generation.entries:
                return generation.entries[number]
        return None

    def prepare(self, tid: int) -> int:
        """The number of a new generation, which is empty and seen by nobody."""
        self.lock.take(tid)
        self.next = number = (self.next + 1) % _WRAP
        self.lock.drop(tid)
        return number

    def clear(self, number: int, tid: int) -> None:
        """Remove all entries of a generation. Look-ups see all of them or none."""
        gone: list[Generation] = []  # a big one takes a while to be freed: without the lock
        self.lock.take(tid)
        try:
            if number in self.generations:
                gone.append(self.generations.pop(number))
            if number == self.current:
                self._switch(number, Generation(self.exprs))
        finally:
            self.changes.token = object()
            self.lock.drop(tid)

    def commit(self, number: int, tid: int) -> bool:
        """Make a generation the current one and drop the older ones. False: out of range."""
        gone: list[Generation] = []  # as in `clear`
        self.lock.take(tid)
        try:
            given_out = (self.next - self.current) % _WRAP
            if (number - self.current - 1) % _WRAP >= given_out:
                return False
            known = number in self.generations
            self._switch(number, self.generations[number] if known else Generation(self.exprs))
            older = [old for old in self.generations if signed(old - number) < 0]
            gone.extend(self.generations.pop(old) for old in older)
        finally:
            self.changes.token = object()
            self.lock.drop(tid)
        return True

    def _switch(self, number: int, generation: Generation) -> None:
        self.generations[number] = generation
        self.current = number
        for expr, index in zip(self.exprs, generation.indexes, strict=True):
            expr.index = index

    # --- reading, any thread, without the lock
    def entries(self, number: int | None = None) -> Iterator[Entry]:
        """The entries of a generation at one moment, in order."""
        generation = self.generations.get(self.current if number is None else number)
        return iter(() if generation is None else list(generation.entries.copy().values()))

    def entry_count(self) -> int:
        """Entries of all generations, once for each way of use."""
        shown = sum(expr.shown for expr in self.exprs)
        return shown * sum(len(one.entries) for one in list(self.generations.copy().values()))

    def _check(self) -> None:
        """Assert what always holds; only while nobody writes."""
        assert self.current in self.generations
        assert not self.lock.locked()
        for expr, index in zip(self.exprs, self.generations[self.current].indexes, strict=True):
            assert expr.index is index
        for number, generation in self.generations.items():
            generation.texts._check()
            assert list(generation.entries) == sorted(generation.entries)
            assert len(generation.indexes) == len(self.exprs)
            for entry in generation.entries.values():
                assert entry.generation == number
                assert entry in generation.texts.all(entry.key)
            for index in generation.indexes:
                index._check()

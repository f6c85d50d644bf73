"""Hold times and call sites of locks: lock profiling, switched at run time, free when off.

`switch_on` replaces the methods of `Lock` and `SeekLock`, on the classes, by wrappers that read the
clock when a lock was got and before it is given back, and note from which function and line;
`switch_off` puts back the very functions that were there. So a program that does not profile runs
the same code as one that has never heard of it. A bound method that somebody keeps (`lock.take`
stored for speed) goes on as it was: whoever keeps one makes it anew after a switch
(`Backend.rebind`).

What a thread holds, and what it has noted, is in tables of its own, which nobody else writes:
nothing here needs a lock. A switch begins with new tables, so a hold that began before it, or under
an earlier profile, is in none of them and is not counted. `switch_on` replaces the methods that
give a lock back first and those that take one last, `switch_off` the other way round: a thread that
was between the two at a switch may give back what was not noted, but never forgets a note. A hold
is counted when it ends; the time it takes to upgrade or downgrade belongs to what was held before.

With -dL the wrappers go around the checking methods (`sync.debug`), which must be there before.

`switch_on`, `switch_off`, `reset`: one thread at a time (runtime socket). Everything else: any
thread. Statistics must not have been built out (`sync.bare`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os.path import dirname
from sys import _getframe
from time import perf_counter_ns
from types import CodeType, FunctionType
from typing import Any

from mtproxy.sync import bare
from mtproxy.sync.labels import LABELS, LockLabel
from mtproxy.sync.locks import Lock
from mtproxy.sync.seeklock import SeekLock
from mtproxy.sync.stats import READ_WAIT_NS, slots_of, thread_count

#: what a lock was taken as; the order is that of the positions in a statistics slot
READ, SEEK, WRITE = range(3)
KINDS = ("read", "seek", "write")

# Positions in what a thread notes about a site.
HOLDS, HOLD_NS, LONGEST_HOLD_NS, WAITS, WAIT_NS, LONGEST_WAIT_NS, CODE, AT = range(8)

#: a code object's flag: the function stands in another one (inspect.CO_NESTED, which costs a start)
_CO_NESTED = 0x10

type _Entry = list[Any]
#: by address of the code object plus offset of the instruction in it: the code lies in the object,
#: so no other object has that address
type _Sites = dict[int, _Entry]

# class, method, kind it takes (None: gives back), kind it gives back (None: takes)
_METHODS: tuple[tuple[type[Lock | SeekLock], str, int | None, int | None], ...] = (
    (Lock, "drop", None, WRITE),
    (SeekLock, "drop_read", None, READ),
    (SeekLock, "drop_seek", None, SEEK),
    (SeekLock, "drop_write", None, WRITE),
    (SeekLock, "try_read_to_seek", SEEK, READ),
    (SeekLock, "seek_to_write", WRITE, SEEK),
    (SeekLock, "write_to_seek", SEEK, WRITE),
    (SeekLock, "write_to_read", READ, WRITE),
    (SeekLock, "seek_to_read", READ, SEEK),
    (Lock, "take", WRITE, None),
    (Lock, "try_take", WRITE, None),
    (SeekLock, "take_read", READ, None),
    (SeekLock, "take_seek", SEEK, None),
    (SeekLock, "take_write", WRITE, None),
    (SeekLock, "try_take_read", READ, None),
    (SeekLock, "try_take_seek", SEEK, None),
    (SeekLock, "try_take_write", WRITE, None),
)


class Tables:
    """What one thread holds, and what it has noted; written by that thread alone."""

    __slots__ = ("held", "sites")

    def __init__(self) -> None:
        #: identity of the lock -> since when (ns), and the site that took it
        self.held: dict[int, tuple[int, _Entry]] = {}
        #: by label's rank * 3 + kind
        self.sites: list[_Sites] = [{} for _ in LABELS for _ in KINDS]


#: by tid; filled anew by each switch
_tables: list[Tables] = []

#: what the profile that goes on has replaced
_replaced: list[tuple[type[Lock | SeekLock], str, Callable[..., Any]]] = []


class ProfilingUnavailable(Exception):
    """Lock profiling cannot be switched on; the text says why."""


# -- the wrappers ----------------------------------------------------------------------------------


def _new_site(sites: _Sites, code: CodeType, at: int) -> _Entry:
    entry = [0, 0, 0, 0, 0, 0, code, at]  # with the code, so that its address stays its own
    sites[id(code) + at] = entry
    return entry


def _note_wait(entry: _Entry, waited: int) -> None:
    entry[3] += 1
    entry[4] += waited
    if waited > entry[5]:
        entry[5] = waited


def _note_hold(entry: _Entry, held: int) -> None:
    entry[0] += 1
    entry[1] += held
    if held > entry[2]:
        entry[2] = held


def _shareable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, not marked as nested: CPython then shares it among threads without
    counting references, as it does with functions of modules and classes.
    """
    assert isinstance(function, FunctionType)
    assert function.__closure__ is None
    code = function.__code__
    return FunctionType(
        code.replace(co_flags=code.co_flags & ~_CO_NESTED),
        function.__globals__,
        function.__name__,
        function.__defaults__,
    )


# Of the wrappers' constants `wait_ns` is where the kind's waiting time stands in a slot: what the
# original adds there is how long this very call has waited, since only this thread writes to it.
# They are defaults and not free variables, whose cells all threads would have to lock. The site is
# looked up before the lock is taken, to keep the others waiting as short as can be.


def _taking(original: Callable[..., Any], kind: int) -> Callable[..., Any]:
    def method(
        lock: Lock | SeekLock,
        tid: int,
        original: Callable[..., Any] = original,
        kind: int = kind,
        wait_ns: int = READ_WAIT_NS + kind,
        tables: list[Tables] = _tables,
    ) -> Any:
        mine = tables[tid]
        sites = mine.sites[lock.label._value_ * 3 + kind]
        frame = _getframe(1)
        code = frame.f_code
        at = frame.f_lasti
        entry = sites.get(id(code) + at) or _new_site(sites, code, at)
        slot = lock._slots[tid]
        before = slot[wait_ns]
        taken = original(lock, tid)
        if taken is not False:
            mine.held[id(lock)] = (perf_counter_ns(), entry)
        if slot[wait_ns] != before:
            _note_wait(entry, slot[wait_ns] - before)
        return taken

    return _shareable(method)


def _changing(original: Callable[..., Any], kind: int) -> Callable[..., Any]:
    def method(
        lock: SeekLock,
        tid: int,
        original: Callable[..., Any] = original,
        kind: int = kind,
        wait_ns: int = READ_WAIT_NS + kind,
        tables: list[Tables] = _tables,
    ) -> Any:
        mine = tables[tid]
        sites = mine.sites[lock.label._value_ * 3 + kind]
        frame = _getframe(1)
        code = frame.f_code
        at = frame.f_lasti
        entry = sites.get(id(code) + at) or _new_site(sites, code, at)
        slot = lock._slots[tid]
        before = slot[wait_ns]
        changed = original(lock, tid)
        if changed is not False:
            now = perf_counter_ns()
            held = mine.held.get(id(lock))
            mine.held[id(lock)] = (now, entry)
            if held is not None:
                _note_hold(held[1], now - held[0])
        if slot[wait_ns] != before:
            _note_wait(entry, slot[wait_ns] - before)
        return changed

    return _shareable(method)


def _dropping(original: Callable[..., Any], kind: int) -> Callable[..., Any]:
    def method(
        lock: Lock | SeekLock,
        tid: int,
        original: Callable[..., Any] = original,
        kind: int = kind,
        wait_ns: int = READ_WAIT_NS + kind,
        tables: list[Tables] = _tables,
    ) -> None:
        mine = tables[tid]
        slot = lock._slots[tid]
        before = slot[wait_ns]
        now = perf_counter_ns()
        original(lock, tid)
        held = mine.held.pop(id(lock), None)
        if held is not None:
            _note_hold(held[1], now - held[0])
        if slot[wait_ns] != before:  # for the mutex inside a SeekLock
            sites = mine.sites[lock.label._value_ * 3 + kind]
            frame = _getframe(1)
            code, at = frame.f_code, frame.f_lasti
            entry = sites.get(id(code) + at) or _new_site(sites, code, at)
            _note_wait(entry, slot[wait_ns] - before)

    return _shareable(method)


#: wrappers that were made before; CPython never frees such a function
_made: dict[tuple[Callable[..., Any], int | None, int | None], Callable[..., Any]] = {}


def _wrapper(original: Callable[..., Any], kind: int | None, held_kind: int | None) -> Any:
    key = (original, kind, held_kind)
    made = _made.get(key)
    if made is None:
        if kind is None:
            assert held_kind is not None
            made = _dropping(original, held_kind)
        elif held_kind is None:
            made = _taking(original, kind)
        else:
            made = _changing(original, kind)
        made.__doc__ = original.__doc__
        _made[key] = made
    return made


# -- switching -------------------------------------------------------------------------------------


def is_on() -> bool:
    """Whether holds are timed now."""
    return bool(_replaced)


def switch_on() -> bool:
    """Begin a new profile; False if one goes on already. Raises ProfilingUnavailable.

    Whoever keeps a bound method of a lock makes it anew afterwards.
    """
    if is_on():
        return False
    if bare.is_stripped():
        raise ProfilingUnavailable("lock statistics are built out (tune.lock-stats off)")
    # in one step; a thread that still runs a wrapper of the last profile has its table already
    _tables[:] = [Tables() for _ in range(_slot_count())]
    for cls, name, kind, held_kind in _METHODS:
        original = getattr(cls, name)
        _replaced.append((cls, name, original))
        setattr(cls, name, _wrapper(original, kind, held_kind))
    return True


def switch_off() -> bool:
    """End the profile; False if there is none. What it has found stays until the next, or a reset.

    Whoever keeps a bound method of a lock makes it anew afterwards.
    """
    if not is_on():
        return False
    while _replaced:
        setattr(*_replaced.pop())
    return True


def _slot_count() -> int:
    # tests configure fewer threads than before, and slots are never taken away
    return max(thread_count() + 1, *(len(slots_of(label)) for label in LABELS))


def reset(label: LockLabel | None = None) -> None:
    """Forget what was found about one label, or all. What is held now is not counted at its end."""
    for tables in _tables:
        for one in LABELS if label is None else (label,):
            for kind in range(len(KINDS)):
                tables.sites[one.value * 3 + kind] = {}


def status_line() -> str:
    """The line of `show profiling`."""
    state = "on" if is_on() else "off"
    return f"Lock profiling                      : {state:<14}# set profiling locks {{on|off}}\n"


# -- what was found --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Site:
    """Where locks of a label were taken as `kind`. Times in ns."""

    kind: str
    function: str
    file: str
    line: int
    count: int
    total_ns: int
    longest_ns: int

    def __str__(self) -> str:
        return f"{self.function}:{self.line} ({self.file})"


@dataclass(frozen=True, slots=True)
class Holds:
    """Holds of one kind that have ended. Times in ns."""

    count: int = 0
    total_ns: int = 0
    longest_ns: int = 0

    @property
    def mean_ns(self) -> float:
        return self.total_ns / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class LabelProfile:
    """What the profile has found about one label. Sites stand with the longest first."""

    label: str
    holds: dict[str, Holds]
    wait_sites: tuple[Site, ...]
    hold_sites: tuple[Site, ...]

    @property
    def found(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.wait_sites or self.hold_sites)


#: where the package lies; files of it are named from there
_ROOT = dirname(dirname(dirname(__file__))) + "/"


def _line_of(code: CodeType, at: int) -> int:
    """The line of the instruction at byte `at`; where the call began if it has several lines."""
    for start, end, line in code.co_lines():
        if start <= at < end and line is not None:
            return line
    return code.co_firstlineno


def _sites(label: LockLabel, count: int, total: int, longest: int) -> tuple[Site, ...]:
    """Sums over the threads, by site. The last three are positions in an entry."""
    sums: dict[tuple[str, str, str, int], list[int]] = {}
    for rank, kind in enumerate(KINDS, label.value * 3):
        for tables in _tables:
            # atomic copies: the threads go on meanwhile
            for entry in [one.copy() for one in tables.sites[rank].copy().values()]:
                if not entry[count]:
                    continue
                code, at = entry[CODE], entry[AT]
                file = code.co_filename.removeprefix(_ROOT)
                function = code.co_qualname.rpartition("<locals>.")[2]
                one = sums.setdefault((kind, function, file, _line_of(code, at)), [0, 0, 0])
                one[0] += entry[count]
                one[1] += entry[total]
                one[2] = max(one[2], entry[longest])
    sites = [Site(*site, *figures) for site, figures in sums.items()]
    sites.sort(key=lambda site: (-site.longest_ns, -site.total_ns, site.file, site.line))
    return tuple(sites)


def profile_of(label: LockLabel) -> LabelProfile:
    """What was found about a label since the switch or the last reset."""
    hold_sites = _sites(label, HOLDS, HOLD_NS, LONGEST_HOLD_NS)
    holds = {}
    for kind in KINDS:
        those = [site for site in hold_sites if site.kind == kind]
        holds[kind] = Holds(
            sum(site.count for site in those),
            sum(site.total_ns for site in those),
            max((site.longest_ns for site in those), default=0),
        )
    return LabelProfile(
        label.name, holds, _sites(label, WAITS, WAIT_NS, LONGEST_WAIT_NS), hold_sites
    )

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
from inspect import CO_NESTED
from pathlib import Path
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

#: a site is counted in [how often, ns in all, longest ns, code, instruction, kind]
type _Entry = list[Any]
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
    """What one thread holds, and what it has noted for each label; written by that thread alone."""

    __slots__ = ("held", "holds", "waits")

    def __init__(self) -> None:
        #: identity of the lock -> since when (ns), code and instruction that took it
        self.held: dict[int, tuple[int, CodeType, int]] = {}
        #: by label's rank
        self.waits: list[_Sites] = [{} for _ in LABELS]
        self.holds: list[_Sites] = [{} for _ in LABELS]


class _State:
    """The profile that goes on, or the last one."""

    #: by tid; replaced as a whole
    tables: tuple[Tables, ...] = ()
    originals: list[tuple[type[Lock | SeekLock], str, Callable[..., Any]]] = []  # noqa: RUF012


class ProfilingUnavailable(Exception):
    """Lock profiling cannot be switched on; the text says why."""


# -- the wrappers ----------------------------------------------------------------------------------


def _note(sites: _Sites, kind: int, code: CodeType, at: int, ns: int) -> None:
    """Count `ns` for a site. Its key is one integer: the code's address, instruction and kind (the
    entry keeps the code alive, so that its address stays its own).
    """
    key = (id(code) << 24) + (at << 2) + kind
    entry = sites.get(key)
    if entry is None:
        sites[key] = [1, ns, ns, code, at, kind]
    else:
        entry[0] += 1
        entry[1] += ns
        if ns > entry[2]:
            entry[2] = ns


def _shareable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, not marked as nested: CPython then shares it among threads without
    counting references, as it does with functions of modules and classes.
    """
    assert isinstance(function, FunctionType)
    assert function.__closure__ is None
    code = function.__code__
    return FunctionType(
        code.replace(co_flags=code.co_flags & ~CO_NESTED),
        function.__globals__,
        function.__name__,
        function.__defaults__,
    )


# Of the wrappers' constants `wait_ns` is where the kind's waiting time stands in a slot: what the
# original adds there is how long this very call has waited, since only this thread writes to it.
# They are defaults and not free variables, whose cells all threads would have to lock.


def _taking(original: Callable[..., Any], kind: int) -> Callable[..., Any]:
    def method(
        lock: Lock | SeekLock,
        tid: int,
        original: Callable[..., Any] = original,
        kind: int = kind,
        wait_ns: int = READ_WAIT_NS + kind,
    ) -> Any:
        tables = _State.tables[tid]
        slot = lock._slots[tid]
        before = slot[wait_ns]
        frame = _getframe(1)
        code, at = frame.f_code, frame.f_lasti
        taken = original(lock, tid)
        if taken is not False:
            tables.held[id(lock)] = (perf_counter_ns(), code, at)
        waited = slot[wait_ns] - before
        if waited:
            _note(tables.waits[lock.label._value_], kind, code, at, waited)
        return taken

    return _shareable(method)


def _changing(original: Callable[..., Any], kind: int, held_kind: int) -> Callable[..., Any]:
    def method(
        lock: SeekLock,
        tid: int,
        original: Callable[..., Any] = original,
        kind: int = kind,
        held_kind: int = held_kind,
        wait_ns: int = READ_WAIT_NS + kind,
    ) -> Any:
        tables = _State.tables[tid]
        slot = lock._slots[tid]
        before = slot[wait_ns]
        frame = _getframe(1)
        code, at = frame.f_code, frame.f_lasti
        changed = original(lock, tid)
        rank = lock.label._value_
        if changed is not False:
            now = perf_counter_ns()
            held = tables.held.get(id(lock))
            tables.held[id(lock)] = (now, code, at)
            if held is not None:
                _note(tables.holds[rank], held_kind, held[1], held[2], now - held[0])
        waited = slot[wait_ns] - before
        if waited:
            _note(tables.waits[rank], kind, code, at, waited)
        return changed

    return _shareable(method)


def _dropping(original: Callable[..., Any], held_kind: int) -> Callable[..., Any]:
    def method(
        lock: Lock | SeekLock,
        tid: int,
        original: Callable[..., Any] = original,
        held_kind: int = held_kind,
        wait_ns: int = READ_WAIT_NS + held_kind,
    ) -> None:
        tables = _State.tables[tid]
        slot = lock._slots[tid]
        before = slot[wait_ns]
        now = perf_counter_ns()
        original(lock, tid)
        rank = lock.label._value_
        held = tables.held.pop(id(lock), None)
        if held is not None:
            _note(tables.holds[rank], held_kind, held[1], held[2], now - held[0])
        waited = slot[wait_ns] - before
        if waited:  # for the mutex inside a SeekLock
            frame = _getframe(1)
            _note(tables.waits[rank], held_kind, frame.f_code, frame.f_lasti, waited)

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
            made = _changing(original, kind, held_kind)
        made.__doc__ = original.__doc__
        _made[key] = made
    return made


# -- switching -------------------------------------------------------------------------------------


def is_on() -> bool:
    """Whether holds are timed now."""
    return bool(_State.originals)


def switch_on() -> bool:
    """Begin a new profile; False if one goes on already. Raises ProfilingUnavailable.

    Whoever keeps a bound method of a lock makes it anew afterwards.
    """
    if is_on():
        return False
    if bare.is_stripped():
        raise ProfilingUnavailable("lock statistics are built out (tune.lock-stats off)")
    # a thread that still runs a wrapper of the last profile has read `tables` before
    _State.tables = tuple(Tables() for _ in range(_slot_count()))
    for cls, name, kind, held_kind in _METHODS:
        original = getattr(cls, name)
        _State.originals.append((cls, name, original))
        setattr(cls, name, _wrapper(original, kind, held_kind))
    return True


def switch_off() -> bool:
    """End the profile; False if there is none. What it has found stays until the next, or a reset.

    Whoever keeps a bound method of a lock makes it anew afterwards.
    """
    if not is_on():
        return False
    while _State.originals:
        setattr(*_State.originals.pop())
    return True


def _slot_count() -> int:
    # tests configure fewer threads than before, and slots are never taken away
    return max(thread_count() + 1, *(len(slots_of(label)) for label in LABELS))


def reset(label: LockLabel | None = None) -> None:
    """Forget what was found about one label, or all. A hold that goes on is counted at its end."""
    for tables in _State.tables:
        for one in LABELS if label is None else (label,):
            tables.waits[one.value] = {}
            tables.holds[one.value] = {}


def status_line() -> str:
    """The line of `show profiling`."""
    state = "on" if is_on() else "off"
    return f"Lock profiling                      : {state:<8}# set profiling locks {{on|off}}\n"


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


_ROOT = Path(__file__).parents[2]


def _line_of(code: CodeType, at: int) -> int:
    """The line of the instruction at byte `at`; where the call began if it has several lines."""
    for start, end, line in code.co_lines():
        if start <= at < end and line is not None:
            return line
    return code.co_firstlineno


def _sites(tables_of_label: list[_Sites]) -> tuple[Site, ...]:
    """Sums over the threads, by site."""
    sums: dict[tuple[str, str, str, int], list[int]] = {}
    for table in tables_of_label:
        # atomic copies: the threads go on meanwhile
        for entry in table.copy().values():
            count, total, longest, code, at, kind = entry.copy()
            path = Path(code.co_filename)
            file = str(path.relative_to(_ROOT)) if path.is_relative_to(_ROOT) else str(path)
            function = code.co_qualname.rpartition("<locals>.")[2]
            one = sums.setdefault((KINDS[kind], function, file, _line_of(code, at)), [0, 0, 0])
            one[0] += count
            one[1] += total
            one[2] = max(one[2], longest)
    sites = [Site(*site, *figures) for site, figures in sums.items()]
    sites.sort(key=lambda site: (-site.longest_ns, -site.total_ns, site.file, site.line))
    return tuple(sites)


def profile_of(label: LockLabel) -> LabelProfile:
    """What was found about a label since the switch or the last reset."""
    rank = label.value
    hold_sites = _sites([tables.holds[rank] for tables in _State.tables])
    holds = {}
    for kind in KINDS:
        those = [site for site in hold_sites if site.kind == kind]
        holds[kind] = Holds(
            sum(site.count for site in those),
            sum(site.total_ns for site in those),
            max((site.longest_ns for site in those), default=0),
        )
    wait_sites = _sites([tables.waits[rank] for tables in _State.tables])
    return LabelProfile(label.name, holds, wait_sites, hold_sites)

"""What the tables of fetches, converters and actions are made of.

Each family is a module that exports `FETCHES`, `CONVERTERS` or `ACTIONS`; `registry` lists them.
Entries are constants. Their `make` and `build` run on every thread, before it serves, and return
functions that belong to that thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from mtproxy.rules.points import Need
from mtproxy.rules.types import Type, Value

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.verdict import Verdict
    from mtproxy.rules.view import View

#: what a thread evaluates: the value for this stream, None if there is none (yet)
type Evaluate = Callable[[View], Value | None]
#: all values that an ACL compares, where a fetch has several
type Every = Callable[[View], Iterable[Value]]
#: makes what a thread evaluates out of arguments
type Maker = Callable[[tuple[Any, ...], Build], Evaluate]
#: one step behind a fetch
type Convert = Callable[[Value, View], Value | None]
#: a condition or an ACL
type Test = Callable[[View], bool]
#: an action at work
type Act = Callable[[View], Verdict | None]


class ArgKind(StrEnum):
    """Kinds of arguments, and what their text becomes (see `arguments.parse_arguments`)."""

    SINT = "integer"  # int
    STR = "string"  # bytes
    TIME = "delay"  # int, ms
    SIZE = "size"  # int, bytes
    IPV4 = "IPv4 address"  # Ip4
    MASK4 = "IPv4 mask"  # int; a number of bits or a dotted mask
    IPV6 = "IPv6 address"  # Ip6
    MASK6 = "IPv6 mask"  # int
    FRONTEND = "frontend"  # str; empty: the current one
    BACKEND = "backend"
    PROXY = "proxy"
    SERVER = "server"  # (backend, server) or ("", server)
    TABLE = "table"  # str; empty: the current proxy's
    USERLIST = "userlist"  # str
    VARIABLE = "variable"  # str: "txn.name", checked
    OPERAND = "integer or variable name"  # int of 64 bits, or str as VARIABLE; empty: 0
    PLACE = "integer or variable"  # the same, but never empty
    REGEX = "regex"  # str
    MAP = "map"  # str: the file
    SINK = "event sink"  # str: a ring, "stdout" or "stderr"


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument. Optional ones stand behind the others; a missing one is None."""

    kind: ArgKind
    optional: bool = False


def required(*kinds: ArgKind) -> tuple[Arg, ...]:
    """Arguments that have to be given."""
    return tuple(Arg(kind) for kind in kinds)


def optional(*kinds: ArgKind) -> tuple[Arg, ...]:
    """Arguments that may be left out; behind the required ones."""
    return tuple(Arg(kind, optional=True) for kind in kinds)


#: a check of parsed arguments: None, or what is wrong with them
type ArgCheck = Callable[[tuple[Any, ...]], str | None]


@dataclass(frozen=True, slots=True)
class Fetch:
    """A sample fetch. Exactly one of `call` (no arguments to prepare) and `make` is given.

    `needs` are alternatives (see `points.Point.missing`). `match` is the default match method of
    an ACL whose keyword has one of its own ("path_beg" is "path" with "beg"): such keywords are
    entries with `acl_only`. `every`: in ACLs, all values are compared instead of the one that
    `call` or `make` would give; it returns None where the arguments choose a single one. `acl`:
    in ACLs, the name stands for this entry.
    """

    name: str
    out: Type
    needs: Need = Need.NOTHING
    call: Evaluate | None = None
    make: Callable[[tuple[Any, ...], Build], Evaluate] | None = None
    args: tuple[Arg, ...] = ()
    check: ArgCheck | None = None
    every: Callable[[tuple[Any, ...], Build], Every | None] | None = None
    acl: str | None = None
    #: the match method of an ACL that names none; None: by the type
    match: str | None = None
    acl_only: bool = False
    #: known to HAProxy, refused here: what it waits for
    later: str | None = None
    #: exists in `mode http` alone
    http: bool = False


@dataclass(frozen=True, slots=True)
class Converter:
    """A converter: samples of `takes` in, of `gives` out (ANY as `gives`: known at run time).

    `make(args, build)` returns `convert(value, view)`; `value` is of `takes` already, and a result
    of None ends the expression without a sample.
    """

    name: str
    takes: Type
    gives: Type
    make: Callable[[tuple[Any, ...], Build], Convert] | None = None
    args: tuple[Arg, ...] = ()
    check: ArgCheck | None = None
    #: run once, when the configuration is read: what `make` is given instead of `args`; raises
    #: PatternError
    load: Callable[[tuple[Any, ...], RuleReader], tuple[Any, ...]] | None = None
    later: str | None = None
    #: results may be of another type than `gives` says at load
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """An action of rule sets. `parse` reads its words and returns what `build` will be given.

    `name` may end with "(" where the word carries an argument: "set-var(". An action that stands
    for several words ("track-sc0") lists them in `names`.
    """

    name: str
    sets: frozenset[str]
    parse: Callable[[RuleReader], object] | None = None
    build: Callable[[Any, Build], Act] | None = None
    #: nothing behind it in its rule set is reached, when it has no condition
    final: bool = False
    #: whether, with these arguments, it does the same to every head and nothing else
    fixed: Callable[[Any], bool] | None = None
    later: str | None = None

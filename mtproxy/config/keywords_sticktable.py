"""Stick tables: `stick-table`, `stick` (manual 4.2). Exports `KEYWORDS`, `check` and `words_of`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.base.sticktable import (
    ALIASES,
    BY_NAME,
    DEFAULT_LEN,
    KEY_TYPES,
    MAX_ARRAY,
    Kind,
    StickRule,
    StickTableSettings,
    Stored,
    Track,
)
from mtproxy.base.units import UnitError, parse_integer, parse_size, parse_time
from mtproxy.config.keywords_rules import reader_of
from mtproxy.config.model import BACK_ONLY, PROXY_ONLY, Keyword, Statement
from mtproxy.rules import points
from mtproxy.rules.casts import can_cast
from mtproxy.rules.sticktables import SAMPLE_TYPES
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.base.location import Location
    from mtproxy.base.ruleset import Expression
    from mtproxy.config.context import Context
    from mtproxy.config.drafts import ProxyDraft

_WORDS = ("type", "size", "expire", "nopurge", "store", "srvkey", "peers", "write-to")
#: bytes of a key at most; HAProxy's buffers are no larger
_MAX_LEN = 16384
_STORED = re.compile(r"([^(),]+)(?:\(([^()]*)\))?(?:,|$)")
#: pairs of data types of which the one is an element of the other
_TWICE = (
    ("gpt", "gpt0"),
    ("gpc", "gpc0"),
    ("gpc", "gpc1"),
    ("gpc_rate", "gpc0_rate"),
    ("gpc_rate", "gpc1_rate"),
)


class _Words:
    """The words behind the keyword, one after the other."""

    def __init__(self, st: Statement) -> None:
        self.words = st.words
        self.position = 1

    def more(self) -> bool:
        return self.position < len(self.words)

    def next(self) -> str:
        word = self.words[self.position]
        self.position += 1
        return word

    def value(self, name: str) -> str:
        if not self.more() or not self.words[self.position]:
            raise _wrong(f"missing argument after '{name}'", name)
        return self.next()


def _wrong(message: str, word: str | None = None, suggestion: str | None = None) -> ConfigError:
    return ConfigError(f"'stick-table' : {message}", word=word, suggestion=suggestion)


def _unit[V](parse: Callable[[str], V], name: str, text: str) -> V:
    try:
        return parse(text)
    except UnitError as error:
        raise _wrong(f"'{name}' : {error}", text) from None


def _stick_table(ctx: Context, st: Statement) -> None:
    proxy = ctx.proxy
    for other in ctx.proxies:
        table = other.stick_table
        if table is not None and other.name == proxy.name and not other.disabled:
            raise ConfigError(
                f"stick-table name '{proxy.name}' conflicts with table declared in"
                f" {other.title()} at {table.location}",
                word=st.words[0],
            )
    words = _Words(st)
    kind, size, length, expire = "", 0, DEFAULT_LEN, 0
    nopurge, srvkey = False, "name"
    stored: dict[str, Stored] = {}
    while words.more():
        word = words.next()
        match word:
            case "type":
                kind, length = _type(words)
            case "size":
                size = _unit(parse_size, word, words.value(word))
            case "expire":
                expire = _unit(parse_time, word, words.value(word))
            case "nopurge":
                nopurge = True
            case "store":
                _store(ctx, st, words.value(word), stored)
            case "srvkey":
                srvkey = words.value(word)
                if srvkey not in ("name", "addr"):
                    raise _wrong(f"unknown server key type '{srvkey}', expects 'name' or 'addr'",
                                 srvkey, nearest(srvkey, ("name", "addr")))  # fmt: skip
            case "peers" | "write-to" | "recv-only":
                raise _wrong(
                    f"'{word}' is known but not supported by mtproxy yet: tables are not shared"
                    " with other processes (peers)",
                    word,
                )
            case _:
                raise _wrong(f"unknown argument '{word}'", word, nearest(word, _WORDS))
    if not size:
        raise _wrong("missing size")
    if not kind:
        raise _wrong("missing type")
    proxy.stick_table = StickTableSettings(
        proxy.name, kind, size, length, expire, nopurge, srvkey, tuple(stored.values()), st.location
    )


def _type(words: _Words) -> tuple[str, int]:
    kind = words.value("type")
    if kind not in KEY_TYPES:
        raise _wrong(f"unknown type '{kind}'", kind, nearest(kind, KEY_TYPES))
    length = DEFAULT_LEN
    if kind in ("string", "binary") and words.more() and words.words[words.position] == "len":
        words.next()
        text = words.value("len")
        length = _unit(lambda one: parse_integer(one, 1, _MAX_LEN), "len", text)
    elif kind == "string":
        # HAProxy's 32 bytes hold the end of the string too
        length = DEFAULT_LEN - 1
    return kind, length


def _store(ctx: Context, st: Statement, text: str, stored: dict[str, Stored]) -> None:
    """The list behind `store`: names, some with arguments in parentheses."""
    position = 0
    while position < len(text):
        found = _STORED.match(text, position)
        if found is None:
            raise _wrong(f"cannot understand store option '{text[position:]}'", text)
        position = found.end()
        name = ALIASES.get(found[1], found[1])
        data = BY_NAME.get(name)
        if data is None:
            raise _wrong(f"unknown store option '{name}'", name, nearest(name, BY_NAME))
        if name in stored:
            ctx.warn(st.location, f"'stick-table' : store option '{name}' already enabled, ignored")
            continue
        args = [] if found[2] is None else found[2].split(",")
        count = 1
        if data.array:
            if not args or not args[0]:
                raise _wrong(f"missing argument to store option '{name}'", text)
            count = _unit(lambda one: parse_integer(one, 1, MAX_ARRAY), name, args.pop(0).strip())
        period = 0
        if data.kind is Kind.RATE:
            if not args or not args[0]:
                raise _wrong(f"missing argument to store option '{name}'", text)
            period = _unit(parse_time, name, args.pop(0).strip())
            if not period:
                raise _wrong(f"the period of '{name}' must be above 0", text)
        if args:
            raise _wrong(f"unexpected argument to store option '{name}'", text)
        stored[name] = Stored(name, period, count)
    for array, element in _TWICE:
        if array in stored and element in stored:
            raise _wrong(
                f"simultaneous usage of '{array}' and '{element}' in a same table is not permitted"
                f" as '{array}' overrides '{element}'",
                text,
            )


_ACTIONS = {
    "on": (True, True, False),
    "match": (True, False, False),
    "store-request": (False, True, False),
    "store": (False, True, False),
    "store-response": (False, True, True),
}


def _stick(ctx: Context, st: Statement) -> None:
    action = st.required(1, "'on', 'match', 'store-request' or 'store-response'")
    if action not in _ACTIONS:
        raise ConfigError(
            f"'stick' expects 'on', 'match', 'store-request' or 'store-response', not '{action}'",
            word=action,
            suggestion=nearest(action, _ACTIONS),
        )
    match, store, response = _ACTIONS[action]
    point = points.STICK_RESPONSE if response else points.STICK_REQUEST
    reader = reader_of(ctx, st, point, 2)
    expression = reader.expression()
    table = ""
    if reader.peek() == "table":
        reader.next()
        table = reader.value("the name of a table")
    words = reader.words[1 : reader.position]
    condition = reader.condition()
    reader.end()
    reader.refer("table", table, table or "stick")
    rule = StickRule(expression, table, condition, match, store, response, st.location, words)
    ctx.proxy.rules.stick.append(rule)


def tables(ctx: Context) -> dict[str, StickTableSettings]:
    """All stick tables of the configuration by name."""
    return {
        one.stick_table.name: one.stick_table for one in ctx.proxies if one.stick_table is not None
    }


def check(ctx: Context, proxy: ProxyDraft) -> None:
    """What can be said when all tables are known: keys that no sample can become. Adds alerts."""
    known = tables(ctx)
    for what, name, expression, location in _uses(proxy):
        table = known.get(name or proxy.name)
        if table is None:
            continue  # said already: a reference to nothing
        if not can_cast(Type(expression.type), SAMPLE_TYPES[table.type]):
            ctx.diagnostics.alert(
                f"{proxy.title()} : '{what}' : '{expression.text}' gives {expression.type}, which"
                f" cannot be a key of stick-table '{table.name}' of type {table.type}",
                location,
                word=expression.text,
            )


def _uses(proxy: ProxyDraft) -> Iterator[tuple[str, str, Expression, Location]]:
    for rule in proxy.rules.stick:
        yield "stick", rule.table, rule.expression, rule.location
    for rules in proxy.rules.sets.values():
        for one in rules:
            if one.action.startswith("track-sc") and isinstance(one.args, tuple):
                track = one.args[1]
                if isinstance(track, Track):
                    yield one.action, track.table, track.expression, one.location


def words_of(table: StickTableSettings) -> list[str]:
    """The table as a statement."""
    words = ["stick-table", "type", table.type]
    if table.type in ("string", "binary"):
        words += ["len", str(table.len)]
    words += ["size", str(table.size)]
    if table.expire:
        words += ["expire", f"{table.expire}ms"]
    if table.nopurge:
        words.append("nopurge")
    words += ["srvkey", table.srvkey]
    items = []
    for one in table.store:
        args = [str(one.count)] if BY_NAME[one.name].array else []
        args += [f"{one.period}ms"] if one.period else []
        items.append(f"{one.name}({','.join(args)})" if args else one.name)
    if items:
        words += ["store", ",".join(items)]
    return words


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("stick-table", PROXY_ONLY, _stick_table),
    Keyword("stick", BACK_ONLY, _stick),
)

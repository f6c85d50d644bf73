"""Rules of a proxy: acl, http-request, http-response, tcp-request, use_backend, ... (manual 4.2).

Exports `KEYWORDS`. The words behind a keyword are read by `rules/`; this module only knows which
rule set they belong to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.base.ruleset import Choice, Rule
from mtproxy.config.model import (
    BACK,
    DEFAULTS,
    FRONT,
    FRONT_ONLY,
    PROXY,
    Keyword,
    Parser,
    Statement,
    check_name,
)
from mtproxy.config.model import time as parse_time
from mtproxy.config.rule_order import warn_misplaced, warn_unreachable
from mtproxy.rules import points, registry
from mtproxy.rules.acl import parse_acl, scoped
from mtproxy.rules.points import Point
from mtproxy.rules.reader import RuleReader

if TYPE_CHECKING:
    from mtproxy.config.context import Context
    from mtproxy.rules.tables import Action

#: where an `acl` line stands is not where it is used: it may read everything
_ANYWHERE = Point("acl", ~points.Need.NOTHING)


def reader_of(ctx: Context, st: Statement, point: Point, taken: int, title: str = "") -> RuleReader:
    """A reader of the words behind the first `taken` ones."""
    proxy = ctx.proxy
    return RuleReader(
        st.words,
        st.location,
        point,
        proxy=proxy.name,
        kind=proxy.kind,
        mode=proxy.mode,
        position=taken,
        title=title or " ".join(st.words[:taken]),
        acls=proxy.rules.acls,
        patterns=ctx.patterns,
        references=proxy.rules.references,
        warn=lambda message: ctx.warn(st.location, message),
        draft=proxy,
        global_draft=ctx.global_,
    )


def find_action(reader: RuleReader, ruleset: str) -> Action:
    """The action that the next word names; the reader stands behind it."""
    word = reader.value("an action")
    name, parenthesis, rest = word.partition("(")
    entry = registry.ACTIONS.get(name + parenthesis)
    if entry is None and not parenthesis:
        entry = registry.ACTIONS.get(name + "(")
        if entry is not None and ruleset in entry.sets:
            raise reader.error(f"'{name}' expects an argument in parentheses", word)
    if entry is None and name.startswith("lua."):
        raise reader.error(f"'{name}' : Lua is known but not supported by mtproxy yet", word)
    if entry is None or ruleset not in entry.sets:
        known = [one for one, action in registry.ACTIONS.items() if ruleset in action.sets]
        raise ConfigError(
            f"'{ruleset}' : unknown action '{word}'",
            word=word,
            suggestion=nearest(name, [one.rstrip("(") for one in known]),
        )
    reader.title = f"{ruleset} {name}"
    if entry.later is not None:
        raise reader.error(f"known but not supported by mtproxy yet ({entry.later})", word)
    if parenthesis:
        if not rest.endswith(")"):
            raise reader.error(f"missing closing ')' in '{word}'", word)
        reader.argument = rest[:-1]
    return entry


def parse_rule(reader: RuleReader, ruleset: str) -> Rule:
    """An action, its words and its condition, to the end of the statement."""
    start = reader.position
    entry = find_action(reader, ruleset)
    assert entry.parse is not None
    args = entry.parse(reader)
    words = reader.words[start : reader.position]
    condition = reader.condition()
    reader.end()
    return Rule(entry.name, args, condition, reader.location, words)


def _rule_set(point: Point) -> Parser:
    taken = len(point.name.split(" "))

    def parse(ctx: Context, st: Statement) -> None:
        _refuse_in_anonymous_defaults(ctx, " ".join(st.words[:taken]))
        reader = reader_of(ctx, st, point, taken)
        rule = parse_rule(reader, point.name)
        warn_misplaced(ctx, st, point.name)
        warn_unreachable(ctx, st, point.name)
        ctx.proxy.rules.sets.setdefault(point.name, []).append(rule)

    return parse


def _refuse_in_anonymous_defaults(ctx: Context, what: str) -> None:
    """Rules of `defaults` are shared by name only (manual 4.2)."""
    if ctx.proxy.kind == DEFAULTS and not ctx.proxy.name:
        raise ConfigError(f"'{what}' not allowed in anonymous 'defaults' section", word=what)


def _acl(ctx: Context, st: Statement) -> None:
    name = st.required(1, "a name")
    check_name(name, "acl")
    if name.lower() == "or":
        raise ConfigError(
            f"acl name '{name}' will never match: 'or' separates alternatives in a condition",
            word=name,
        )
    _refuse_in_anonymous_defaults(ctx, "acl")
    reader = reader_of(ctx, st, _ANYWHERE, 2, f"acl {name}")
    line = parse_acl(reader)
    key = scoped(reader.kind, reader.proxy, name)
    ctx.proxy.rules.acls.setdefault(key, []).append(line)


def _use_backend(ctx: Context, st: Statement) -> None:
    warn_misplaced(ctx, st, "use_backend")
    reader = reader_of(ctx, st, points.USE_BACKEND, 1)
    ctx.proxy.rules.use_backend.append(parse_choice(reader, "backend"))


def parse_choice(reader: RuleReader, kind: str) -> Choice:
    """A name, fixed or made by a format, and its condition."""
    word = reader.value(f"a {kind} name")
    name = reader.format(word)
    if name.constant is not None:
        reader.refer(kind, word, word)
    condition = reader.condition()
    return Choice(name, condition, reader.location)


def _monitor(ctx: Context, st: Statement) -> None:
    warn_misplaced(ctx, st, "monitor fail")
    reader = reader_of(ctx, st, points.MONITOR, 1)
    reader.choice(("fail",))
    condition = reader.condition()
    if condition is None:
        raise reader.error("expects 'if' or 'unless' behind 'fail'")
    ctx.proxy.rules.monitor_fail.append(condition)


def _inspect_delay(field: str) -> Parser:
    def parse(ctx: Context, st: Statement) -> None:
        _refuse_in_anonymous_defaults(ctx, " ".join(st.words[:2]))
        value = parse_time(" ".join(st.words[:2]), st.required(2, "a time", taken=2))
        st.at_most(1, taken=2)
        rules = ctx.proxy.rules
        if getattr(rules, field):
            ctx.warn(
                st.location,
                f"ignoring '{' '.join(st.words[:2])}' (was already defined) in {ctx.proxy.title()}",
            )
            return
        setattr(rules, field, value)

    return parse


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("acl", PROXY, _acl),
    Keyword("tcp-request connection", FRONT, _rule_set(points.TCP_CONNECTION), strict=True),
    Keyword("tcp-request session", FRONT, _rule_set(points.TCP_SESSION), strict=True),
    Keyword("tcp-request content", PROXY, _rule_set(points.TCP_CONTENT)),
    Keyword("tcp-request inspect-delay", PROXY, _inspect_delay("inspect_delay")),
    Keyword("tcp-response content", BACK, _rule_set(points.TCP_RESPONSE), strict=True),
    Keyword("tcp-response inspect-delay", BACK, _inspect_delay("response_delay"), strict=True),
    Keyword("http-request", PROXY, _rule_set(points.HTTP_REQUEST)),
    Keyword("http-response", PROXY, _rule_set(points.HTTP_RESPONSE)),
    Keyword("http-after-response", PROXY, _rule_set(points.HTTP_AFTER_RESPONSE)),
    Keyword("use_backend", FRONT_ONLY, _use_backend),
    Keyword("monitor", FRONT_ONLY, _monitor),
)

"""The rule language as lines of haproxy.cfg, for `explain`. Pure.

Rules that a proxy has from a named `defaults` section stay in a section of that name: the ACLs
there are known to those rules alone, and some of them may stand nowhere else. ACLs of a section
that another one of its kind began with cannot be named by any rule: they are left out. The
statements of a section keep their order, which numbers slots of captures and lists of patterns.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator
from dataclasses import fields

from mtproxy.base.location import Location
from mtproxy.base.ruleset import (
    AclLine,
    Capture,
    Choice,
    Condition,
    Inherited,
    ProxyRules,
    ReplySpec,
    Rule,
    StatsPage,
)
from mtproxy.base.settings import CookieSettings, ProxySettings
from mtproxy.config.quoting import duration, line, text
from mtproxy.rules.acl import scoped
from mtproxy.rules.actions.capture import Take

#: a statement: where it stands, its words, and the slot for a capture that it makes
type _Statement = tuple[Location, tuple[str, ...], int | None]

#: fields of ProxyRules that have lines
_KNOWN = frozenset({
    "sets", "acls", "use_backend", "use_server", "persist", "monitor_fail", "stick",
    "inspect_delay", "response_delay", "captures", "formats", "unique_id_header", "inherited",
    "stats",
})  # fmt: skip


class Sections:
    """The `defaults` sections that proxies have rules from, each before the first of them."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, Location], str] = {}
        #: a proxy that names no section would begin with the last one
        self._empty = True

    def lines(self, proxy: ProxySettings) -> Iterator[str]:
        """The line that begins `proxy`, and what has to stand before it."""
        base = proxy.rules.inherited
        if base is None:
            if not self._empty:
                yield from ("", "defaults")
                self._empty = True
            yield from ("", f"{proxy.kind} {proxy.name}")
            return
        name = self._names.get((base.name, base.location))
        if name is None:
            name = self._names[base.name, base.location] = self._free(base.name)
            yield from ("", f"defaults {name}", *self._rules(proxy.rules, base))
            self._empty = False
        yield from ("", f"{proxy.kind} {proxy.name} from {name}")

    def _free(self, name: str) -> str:
        """`name`, or another one where two sections have it."""
        taken = self._names.values()
        names = itertools.chain([name], (f"{name}.{number}" for number in itertools.count(2)))
        return next(one for one in names if one not in taken)

    def _rules(self, rules: ProxyRules, base: Inherited) -> Iterator[str]:
        yield line("mode", base.mode)
        scope = scoped("defaults", base.name, "")
        statements = list(_acls(rules, scope))
        for kind, count in base.counts.items():
            statements += _rules(kind, rules.sets[kind][:count], scope)
        yield from _in_order(statements)


def rule_lines(proxy: ProxySettings) -> Iterator[str]:
    """ACLs, captures and rules of the proxy's own; delays."""
    rules = proxy.rules
    statements = list(_acls(rules, ""))
    counts = rules.inherited.counts if rules.inherited is not None else {}
    for kind, all_of_them in rules.sets.items():
        statements += _rules(kind, all_of_them[counts.get(kind, 0) :], "")
    for condition in rules.monitor_fail:
        statements.append((condition.location, ("monitor", "fail", *words(condition)), None))
    for choice in rules.use_backend:
        statements.append(_choice("use_backend", choice))
    for choice in rules.use_server:
        statements.append(_choice("use-server", choice))
    for force, condition in rules.persist:
        keyword = "force-persist" if force else "ignore-persist"
        statements.append((condition.location, (keyword, *words(condition)), None))
    for stick in rules.stick:
        statement = ("stick", *stick.words, *words(stick.condition))
        statements.append((stick.location, statement, None))
    if rules.inspect_delay is not None:
        yield line("tcp-request", "inspect-delay", duration(rules.inspect_delay))
    if rules.response_delay is not None and proxy.is_backend:
        yield line("tcp-response", "inspect-delay", duration(rules.response_delay))
    if rules.stats is not None:
        yield from _stats_words(rules.stats)
        statements += _stats_rules(rules.stats)
    captures = rules.captures
    request: tuple[Capture, ...] = ()
    if captures is not None and proxy.is_frontend:
        if captures.cookie is not None:
            yield line("capture", "cookie", text(captures.cookie.name), "len",
                       captures.cookie.length)  # fmt: skip
        for slot in captures.response:
            yield _slot("response", slot)
        request = captures.request
    inherited = {
        _new_slot(rule) for kind, count in counts.items() for rule in rules.sets[kind][:count]
    }
    yield from _in_order(statements, request, inherited)
    for item in fields(rules):
        value = getattr(rules, item.name)
        if item.name not in _KNOWN and value:
            yield f" # {item.name} = {value!r}"


def _stats_words(page: StatsPage) -> Iterator[str]:
    """The statistics page, but who may see and use it."""
    yield line("stats", "uri", text(page.uri))
    if page.refresh:
        yield line("stats", "refresh", page.refresh)
    if page.realm is not None:
        yield line("stats", "realm", text(page.realm))
    for name, password in page.users:
        yield line("stats", "auth", f"{text(name)}:{text(password)}")
    for name_ in page.scope:
        yield line("stats", "scope", name_)
    for field in ("hide_version", "legends", "modules"):
        if getattr(page, field):
            yield line("stats", _STATS_FLAGS[field])
    for keyword, shown in (("show-node", page.node), ("show-desc", page.description)):
        if shown is not None:
            yield line("stats", keyword, *filter(None, [shown]))


_STATS_FLAGS = {
    "hide_version": "hide-version",
    "legends": "show-legends",
    "modules": "show-modules",
}


def _stats_rules(page: StatsPage) -> Iterator[_Statement]:
    for condition in page.admin:
        yield condition.location, ("stats", "admin", *words(condition)), None
    for rule in page.access:
        statement = ("stats", "http-request", *rule.words, *words(rule.condition))
        yield rule.location, statement, None


def words(condition: Condition | None, scope: str = "") -> tuple[str, ...]:
    """A condition with its first word; nothing for none. `scope` is not said with names of ACLs."""
    if condition is None:
        return ()
    result = ["unless" if condition.unless else "if"]
    for number, suite in enumerate(condition.suites):
        if number:
            result.append("or")
        for term in suite:
            sign = "!" if term.negated else ""
            if isinstance(term.acl, AclLine):
                result += (f"{sign}{{", *term.acl.words, "}")
            else:
                result.append(sign + term.acl.removeprefix(scope))
    return tuple(result)


def _acls(rules: ProxyRules, scope: str) -> Iterator[_Statement]:
    """The named ACLs of one scope, predefined ones that are used among them."""
    for key, lines in rules.acls.items():
        prefix, slash, name = key.rpartition("/")
        if prefix + slash == scope:
            for one in lines:
                yield one.patterns.location, ("acl", name, *one.words), None


def _rules(kind: str, rules: Iterable[Rule], scope: str) -> Iterator[_Statement]:
    for rule in rules:
        statement = (*kind.split(" "), *rule.words, *words(rule.condition, scope))
        yield rule.location, statement, _new_slot(rule)


def _new_slot(rule: Rule) -> int | None:
    """The slot that a `capture` rule makes (`len`); None where it takes a declared one (`id`)."""
    if isinstance(rule.args, Take) and "len" in rule.words[-2:-1]:
        return rule.args.slot
    return None


def _choice(keyword: str, choice: Choice) -> _Statement:
    return choice.location, (keyword, choice.name.text, *words(choice.condition)), None


def _in_order(
    statements: list[_Statement],
    slots: tuple[Capture, ...] = (),
    inherited: Container[int | None] = (),
) -> Iterator[str]:
    """The statements as they stood; slots that no rule makes, as soon as it is their turn.

    `inherited`: slots that are there already.
    """
    made = {slot for _, _, slot in statements}
    declared = [n for n in range(len(slots)) if n not in made and n not in inherited]
    for _, statement, slot in sorted(statements, key=lambda one: one[0].line):
        while declared and slot is not None and declared[0] < slot:
            yield _slot("request", slots[declared.pop(0)])
        yield line(*statement)
    for number in declared:
        yield _slot("request", slots[number])


def _slot(direction: str, slot: Capture) -> str:
    if slot.name:
        return line("capture", direction, "header", text(slot.name), "len", slot.length)
    return line("declare", "capture", direction, "len", slot.length)


def reply_lines(errors: Iterable[tuple[int, ReplySpec]]) -> Iterator[str]:
    """What is sent in place of the built-in replies."""
    for status, spec in errors:
        yield line(*spec.words) if spec.words else f" # errors[{status}] = {spec!r}"


def cookie_words(cookie: CookieSettings) -> list[str]:
    """A `cookie` statement."""
    result = ["cookie", text(cookie.name), *filter(None, [cookie.mode])]
    flags = ("indirect", "nocache", "postonly", "preserve", "httponly", "secure", "dynamic")
    result += [name for name in flags if getattr(cookie, name)]
    for domain in cookie.domains:
        result += ["domain", text(domain)]
    for name in ("maxidle", "maxlife"):
        value = getattr(cookie, name)
        if value:
            result += [name, f"{value}s"]
    for attribute in cookie.attributes:
        result += ["attr", text(attribute)]
    return result

"""From rules as data to functions: `Build`, one per proxy and thread, used while it sets up.

`RuleShared` is what all threads' rules share: variables of the process, pattern files, tables.
Made by the main thread before the others start; what guards each part is said where it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mtproxy.base.ruleset import AclLine, Condition, Expression, Format, ProxyRules, Rule
from mtproxy.rules import lookup
from mtproxy.rules.acl import Undecided, build_condition, build_undecided
from mtproxy.rules.expression import build_expression
from mtproxy.rules.patterns.store import PatternStore

if TYPE_CHECKING:
    from mtproxy.base.settings import ProxySettings, Settings
    from mtproxy.rules.reply import Reply
    from mtproxy.rules.tables import Act, Evaluate, Test
    from mtproxy.rules.types import Type
    from mtproxy.rules.view import View


def _no_rate(_key: tuple[object, ...], _total: int) -> int:
    """The rate of everything where nobody measures."""
    return 0


class RuleShared:
    """What the rules of all threads share."""

    __slots__ = ("patterns", "proc_vars", "rate", "services", "settings", "tables")

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: the current rate per second of a total, by its key: see stats.rates
        self.rate: Callable[[tuple[object, ...], int], int] = _no_rate
        #: variables of the process: name without scope -> value; single operations are atomic
        self.proc_vars: dict[str, Any] = {}
        #: pattern files and the patterns of ACL lines; guarded list by list, see rules.patterns
        self.patterns: PatternStore = getattr(settings, "patterns", None) or PatternStore()
        #: stick tables by name
        self.tables: dict[str, Any] = {}
        #: what `use-service` names but Python functions: makes one thread's answer
        self.services: dict[str, Callable[[Build], Reply]] = {}


class BuiltRule:
    """A rule at work. `test` is None where the rule has no condition."""

    __slots__ = ("act", "fixed", "rule", "test", "undecided")

    def __init__(self, rule: Rule, build: Build) -> None:
        self.rule = rule
        self.test: Test | None = None
        self.undecided: Undecided | None = None
        if rule.condition is not None:
            self.test = build.condition(rule.condition)
            self.undecided = build.undecided(rule.condition)
        entry = lookup.actions()[rule.action]
        assert entry.build is not None
        self.act: Act = entry.build(rule.args, build)
        #: it does the same to every head, always
        self.fixed = rule.condition is None and entry.fixed is not None and entry.fixed(rule.args)


class Build:
    """Makes the runtime functions of one proxy for the calling thread."""

    __slots__ = ("acls", "ctx", "proxy", "room", "shared", "thread")

    def __init__(
        self, shared: RuleShared, proxy: ProxySettings, ctx: Any, room: Any, thread: Any = None
    ) -> None:
        """`ctx` is the thread's context, `room` its runtime objects; `thread` keeps what the rules
        of all its proxies share on this thread (see the families).
        """
        self.shared = shared
        self.proxy = proxy
        self.ctx = ctx
        self.room = room
        self.thread = thread
        self.acls: Mapping[str, tuple[AclLine, ...]] = proxy.rules.acls

    def expression(self, expression: Expression, to: Type | None = None) -> Evaluate:
        return build_expression(expression, self, to)

    def condition(self, condition: Condition) -> Test:
        return build_condition(condition, self)

    def undecided(self, condition: Condition) -> Undecided:
        return build_undecided(condition, self)

    def format(self, fmt: Format) -> Callable[[View], bytes]:
        from mtproxy.rules.logformat.strings import build_format

        return build_format(fmt, self)

    def rules(self, rules: ProxyRules, name: str) -> tuple[BuiltRule, ...]:
        """A whole rule set; empty where the proxy has none."""
        return tuple(BuiltRule(rule, self) for rule in rules.sets.get(name, ()))

"""The words of one rule while they are read: cursor, place, and everything a parser may ask for.

Every statement of the rule language is read through a `RuleReader`; actions' `parse` get one whose
cursor stands behind the action's own word. What must be checked when the whole configuration is
known goes into `references`. Main thread, at load.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from mtproxy.base.errors import ConfigError
from mtproxy.base.location import Location
from mtproxy.base.nearest import nearest
from mtproxy.base.ruleset import AclLine, Condition, Expression, Format, Reference
from mtproxy.base.units import UnitError, parse_integer, parse_size, parse_time
from mtproxy.rules.patterns.store import PatternStore
from mtproxy.rules.points import Point
from mtproxy.rules.types import Type

#: what the numbers of HAProxy's configuration can be
_INT_MAX = 2**31 - 1


@dataclass(slots=True)
class RuleReader:
    """The words of a statement from `position` on, read for `proxy` at `point`.

    `acls` are the named ACLs of the proxy so far. `kind` and `mode` are the proxy's. `resolve`
    makes addresses of a host name. `read_file` gives the bytes of a file named in the rule.
    """

    words: tuple[str, ...]
    location: Location
    point: Point
    proxy: str = ""
    kind: str = "listen"
    mode: str = "http"
    position: int = 0
    #: how messages name the statement: "http-request deny"
    title: str = ""
    #: what stood in the parentheses of the action's own word: "set-var(txn.x)"; None: nothing
    argument: str | None = None
    acls: dict[str, list[AclLine]] = field(default_factory=dict)
    #: the pattern lists of the whole configuration
    patterns: PatternStore = field(default_factory=PatternStore)
    references: list[Reference] = field(default_factory=list)
    warn: Callable[[str], None] = lambda _message: None
    #: the draft of the proxy, for actions that add to it (captures); None in tests
    draft: object = None
    #: the draft of the global section
    global_draft: object = None

    # --- words
    def more(self) -> bool:
        return self.position < len(self.words)

    def peek(self) -> str:
        """The next word, or an empty string at the end."""
        return self.words[self.position] if self.more() else ""

    def at_condition(self) -> bool:
        """Whether the action's own words are over: `if`, `unless`, or the end."""
        return not self.more() or self.words[self.position] in ("if", "unless")

    def next(self) -> str:
        word = self.words[self.position]
        self.position += 1
        return word

    def value(self, what: str = "a value") -> str:
        """The next word, which has to be there."""
        if not self.more() or not self.words[self.position]:
            raise self.error(f"expects {what}")
        return self.next()

    def choice(self, allowed: Collection[str], what: str = "one of") -> str:
        text = self.value(f"{what} {', '.join(repr(word) for word in allowed)}")
        if text not in allowed:
            raise self.unknown(text, allowed)
        return text

    def integer(self, minimum: int | None = None, maximum: int | None = None) -> int:
        text = self.value("an integer")
        try:
            value = parse_integer(text, minimum, maximum)
            if maximum is None and value > _INT_MAX:
                raise UnitError(f"must be at most {_INT_MAX} (got {text})")
            return value
        except UnitError as error:
            raise self.error(str(error), text) from None

    def time(self, default_unit: str = "ms") -> int:
        text = self.value("a time")
        try:
            return parse_time(text, default_unit)
        except UnitError as error:
            raise self.error(str(error), text) from None

    def size(self) -> int:
        text = self.value("a size")
        try:
            return parse_size(text)
        except UnitError as error:
            raise self.error(str(error), text) from None

    # --- messages
    def error(
        self, message: str, word: str | None = None, suggestion: str | None = None
    ) -> ConfigError:
        return ConfigError(f"'{self.title}' : {message}", word=word, suggestion=suggestion)

    def unknown(self, word: str, allowed: Collection[str]) -> ConfigError:
        """The error for a word that is none of `allowed`."""
        return self.error(
            f"unexpected '{word}', expects {', '.join(repr(one) for one in allowed)}",
            word,
            nearest(word, allowed),
        )

    # --- parts of the language
    def expression(self, to: Type | None = None) -> Expression:
        """A sample expression that begins at the cursor; `to` is the type it has to be cast to."""
        from mtproxy.rules.expression import parse_expression

        return parse_expression(self, to)

    def format(self, text: str | None = None, *, point: Point | None = None) -> Format:
        """A log-format string: `text`, or the next word."""
        from mtproxy.rules.logformat.strings import parse_format

        if text is None:
            text = self.value("a log-format string")
        return parse_format(self, text, point or self.point)

    def condition(self) -> Condition | None:
        """`if ...` or `unless ...` up to the end of the statement; None at its end."""
        from mtproxy.rules.acl import parse_condition

        return parse_condition(self)

    def end(self) -> None:
        """Refuse whatever is left."""
        if self.more():
            word = self.peek()
            raise self.error(
                f"expects 'if', 'unless' or the end of the line, not '{word}'",
                word,
                nearest(word, ("if", "unless")),
            )

    def refer(self, kind: str, name: str, word: str) -> None:
        """Note something that has to exist in the whole configuration."""
        self.references.append(Reference(kind, name, word, self.location, self.proxy, self.title))

    def require_http(self, what: str) -> None:
        """Refuse what makes sense in `mode http` alone."""
        if self.mode != "http" and self.point.name.startswith("http"):
            raise self.error(f"{what} needs 'mode http'")

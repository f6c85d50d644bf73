"""set-var, set-var-fmt, unset-var (manual 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.base.ruleset import Assignment, Expression, Format
from mtproxy.rules import variables
from mtproxy.rules.arguments import action_variable
from mtproxy.rules.converters.variables import wrong_condition
from mtproxy.rules.logformat.strings import PLAIN, parse_format
from mtproxy.rules.tables import Action

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act
    from mtproxy.rules.view import View

_SETS = frozenset(
    {
        "tcp-request connection",
        "tcp-request session",
        "tcp-request content",
        "tcp-response content",
        "http-request",
        "http-response",
        "http-after-response",
        "tcp-check",
        "http-check",
    }
)


def parse_name(reader: RuleReader, *, conditions: bool = True) -> tuple[str, tuple[str, ...]]:
    """`name[,condition...]` in the parentheses of the action's word. Raises ConfigError."""
    name, *words = (reader.argument or "").split(",")
    name = action_variable(reader, name)
    found: list[str] = []
    for word in words:
        if not word:
            # HAProxy stops at the first empty one
            break
        if not conditions:
            raise reader.error(
                'unset-var does not expect parameters after the variable name. Only "set-var"'
                ' and "set-var-fmt" manage conditions',
                word,
            )
        if word not in variables.CONDITIONS:
            raise ConfigError(
                f"'{reader.title}' : {wrong_condition(word)}",
                word=word,
                suggestion=nearest(word, variables.CONDITIONS),
            )
        found.append(word)
    return name, tuple(found)


def parse_set(reader: RuleReader) -> Assignment:
    """`set-var(name[,condition...]) expression`."""
    name, conditions = parse_name(reader)
    return Assignment(name, conditions, reader.expression())


def parse_set_format(reader: RuleReader) -> Assignment:
    """`set-var-fmt(name[,condition...]) format`."""
    name, conditions = parse_name(reader)
    text = reader.value("a log-format string")
    return Assignment(name, conditions, parse_format(reader, text, reader.point, flags=PLAIN))


def _parse_unset(reader: RuleReader) -> Assignment:
    name, _ = parse_name(reader, conditions=False)
    return Assignment(name, (), None)


def build_assignment(store: Assignment, build: Build) -> Act:
    """The function that sets, or unsets, the variable for a stream."""
    write = variables.writer(store.name, build, store.conditions)
    value = store.value
    if isinstance(value, Expression):
        value_of = build.expression(value)

        def set_sample(view: View) -> None:
            sample = value_of(view)
            if sample is not None:
                write(view, sample)

        return set_sample
    if isinstance(value, Format):
        text_of = build.format(value)

        def set_text(view: View) -> None:
            write(view, text_of(view))

        return set_text

    def unset(view: View) -> None:
        write(view, None)

    return unset


ACTIONS: tuple[Action, ...] = (
    Action("set-var(", _SETS, parse_set, build_assignment),
    Action("set-var-fmt(", _SETS, parse_set_format, build_assignment),
    Action("unset-var(", _SETS, _parse_unset, build_assignment),
)

"""How the stream is treated: set-log-level, set-timeout, set-retries, ... (manual 4.2).

`set-log-level` is read by the log function. Timeouts and retries are changed in the stream's own
copy of its proxy's values (`View.own_limits`), for the current transaction only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.base.errors import ConfigError
from mtproxy.base.ruleset import Expression
from mtproxy.base.units import UnitError, parse_time
from mtproxy.rules.tables import Action
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act, Evaluate
    from mtproxy.rules.view import View

_REQUEST = frozenset({"http-request"})
_BOTH = frozenset({"http-request", "http-response"})
_CONTENT = frozenset({"tcp-request content", "tcp-response content"})

#: syslog levels by name, most severe first; "silent" is no message at all
LEVELS = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
SILENT = -1

#: timeout -> whether it belongs to the backend (and so needs one)
TIMEOUTS = {"client": False, "connect": True, "server": True, "tarpit": False, "tunnel": True}


# --- set-log-level


def _parse_log_level(reader: RuleReader) -> int:
    name = reader.choice((*LEVELS, "silent"), "a level:")
    return SILENT if name == "silent" else LEVELS.index(name)


def _build_log_level(level: int, _build: Build) -> Act:
    def act(view: View) -> None:
        view.txn.log_level = level

    return act


# --- set-timeout, set-retries


def _parse_timeout(reader: RuleReader) -> tuple[str, int | Expression]:
    name = reader.choice(tuple(TIMEOUTS), "a timeout:")
    if TIMEOUTS[name] and reader.kind == "frontend":
        raise reader.error(
            f"'{name}' is a timeout of backends: this rule needs a proxy with servers", name
        )
    return name, _number(reader, f"timeout {name}")


def _number(reader: RuleReader, what: str) -> int | Expression:
    """A number (ms) as it is written, or an expression that gives one."""
    word = reader.peek()
    try:
        value = parse_time(word, "ms")
    except UnitError:
        if not word or word[0].isdigit():
            raise reader.error(f"expects a time for the {what}, not '{word}'", word) from None
        try:
            return reader.expression(Type.SINT)
        except ConfigError as error:
            raise reader.error(
                f"expects a time or an expression for the {what}: {error.message}",
                word,
                error.suggestion,
            ) from None
    reader.next()
    if not value:
        raise reader.error(f"the {what} must not be 0", word)
    return value


def _constant_or(args: int | Expression, build: Build) -> tuple[int, Evaluate | None]:
    if isinstance(args, Expression):
        return 0, build.expression(args, Type.SINT)
    return args, None


def _build_timeout(args: tuple[str, int | Expression], build: Build) -> Act:
    name, number = args
    value, value_of = _constant_or(number, build)

    def act(view: View) -> None:
        ms = value
        if value_of is not None:
            found = value_of(view)
            if found is None or int(found) <= 0:
                return  # nothing to be had: the configured one stays
            ms = int(found)
        view.set_limit(name, ms)

    return act


def _parse_retries(reader: RuleReader) -> int | Expression:
    word = reader.peek()
    if word.isascii() and word.isdigit():
        return reader.integer(0, 100)
    return reader.expression(Type.SINT)


def _build_retries(args: int | Expression, build: Build) -> Act:
    value, value_of = _constant_or(args, build)

    def act(view: View) -> None:
        number = value
        if value_of is not None:
            found = value_of(view)
            if found is None or not 0 <= int(found) <= 100:
                return
            number = int(found)
        view.set_limit("retries", number)

    return act


def _parse_nothing(_reader: RuleReader) -> None:
    return None


def _build_no_retry(_args: None, _build: Build) -> Act:
    def act(view: View) -> None:
        view.txn.no_retry = True

    return act


ACTIONS: tuple[Action, ...] = (
    Action("set-log-level", _BOTH | _CONTENT, _parse_log_level, _build_log_level),
    Action("set-timeout", _BOTH, _parse_timeout, _build_timeout),
    Action("set-retries", _REQUEST, _parse_retries, _build_retries),
    Action("disable-l7-retry", _REQUEST, _parse_nothing, _build_no_retry),
)

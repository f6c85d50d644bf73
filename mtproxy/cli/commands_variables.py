"""Runtime commands about variables of the process: get var, set var. Exports COMMANDS.

Answers are HAProxy 2.6's. Single operations on the dictionary of variables are atomic, so any
thread may serve these.
"""

from __future__ import annotations

from mtproxy.base.errors import ConfigError
from mtproxy.base.location import Location
from mtproxy.cli.runtime import Answer, CliError, CliSession, Command, Level
from mtproxy.rules import points
from mtproxy.rules.actions.variables import parse_set, parse_set_format
from mtproxy.rules.build import RuleShared
from mtproxy.rules.casts import to_text
from mtproxy.rules.nowhere import assign
from mtproxy.rules.reader import RuleReader
from mtproxy.rules.types import type_of


def _shared(cli: CliSession) -> RuleShared:
    rules = cli.runtime.rules
    if rules is None:
        raise CliError("Variable not found.")
    return rules


def _get_var(cli: CliSession, args: list[str]) -> Answer:
    if not args:
        raise CliError("Missing process-wide variable identifier.")
    scope, _, name = args[0].partition(".")
    value = _shared(cli).proc_vars.get(name) if scope == "proc" else None
    if value is None:
        raise CliError("Variable not found.")
    shown = "".join(chr(c) if 32 <= c < 127 else "." for c in to_text(value))
    # no newline: HAProxy ends this answer with a single one
    return f"{args[0]}: type={type_of(value)} value=<{shown}>"


def _set_var(cli: CliSession, args: list[str]) -> Answer:
    if not cli.experimental:
        raise CliError("This command is restricted to experimental mode only.")
    cli.need(Level.OPERATOR)
    if not args:
        raise CliError("Missing process-wide variable identifier.")
    if len(args) < 2:
        raise CliError("Missing either 'expr', 'fmt' or expression.")
    name, kind, *rest = args
    if rest and kind not in ("expr", "fmt"):
        raise CliError(f"'set var': arg type must be either 'expr' or 'fmt' but got '{kind}'.")
    word = rest[0] if rest else kind
    reader = RuleReader(
        (word,),
        Location("CLI", 0),
        points.GLOBAL,
        kind="global",
        mode="tcp",
        title="set var",
        argument=name,
    )
    try:
        assignment = (parse_set_format if rest and kind == "fmt" else parse_set)(reader)
    except ConfigError as error:
        raise CliError(error.message.removeprefix("'set var' : ")) from None
    if reader.references:
        raise CliError(f"'{word}' names something of the configuration, which cannot be used here")
    if not assignment.name.startswith("proc."):
        raise CliError(
            f"'set var': cannot set variable '{assignment.name}', only scope 'proc' is permitted"
            " here."
        )
    assign(assignment, _shared(cli), "CLI")
    return ""


COMMANDS: tuple[Command, ...] = (
    Command(
        ("get", "var"), "get var <name>", "a variable of the process", Level.OPERATOR, _get_var
    ),
    Command(
        ("set", "var"),
        "set var <name> [fmt|expr] {<fmt>|<expr>}",
        "set a variable of the process (experimental)",
        Level.USER,
        _set_var,
    ),
)

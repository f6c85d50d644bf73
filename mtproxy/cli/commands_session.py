"""Runtime commands about the session itself: help, prompt, quit, levels, time-out. Exports
COMMANDS.
"""

from __future__ import annotations

from mtproxy.base.units import UnitError, parse_time
from mtproxy.cli.runtime import INFO, Answer, CliError, CliSession, Command, Handler, Level


def _help(cli: CliSession, args: list[str]) -> Answer:
    return cli.help(args)


_PROMPT_HELP = """\
  n     : the session ends after its commands
  i     : it stays open, without a prompt
  p     : it stays open, with a prompt
  timed : the prompt shows how long the program has been running, or no more
  Without a word: from one to the other of n and p.
"""


def _prompt(cli: CliSession, args: list[str]) -> Answer:
    """HAProxy's of version 3; without words that of all versions."""
    if not args:
        cli.interactive = cli.prompt = not cli.prompt
    for word in args:
        match word:
            case "n":
                cli.interactive = cli.prompt = False
            case "i":
                cli.interactive, cli.prompt = True, False
            case "p":
                cli.interactive = cli.prompt = True
            case "timed":
                cli.timed = not cli.timed
            case _:
                return _PROMPT_HELP
    return ""


def _quit(cli: CliSession, _args: list[str]) -> Answer:
    cli.closing = cli.silent = True
    return ""


def _lower(level: Level) -> Handler:
    def handler(cli: CliSession, _args: list[str]) -> Answer:
        cli.level = level
        return ""

    return handler


def _show_level(cli: CliSession, _args: list[str]) -> Answer:
    return f"{cli.severity_prefix(INFO)}{cli.level.name.lower()}\n"


def _set_timeout(cli: CliSession, args: list[str]) -> Answer:
    if not args or args[0] != "cli":
        raise CliError("'set timeout' only supports 'cli'.")
    if len(args) < 2:
        raise CliError("Expects an integer value.")
    try:
        milliseconds = parse_time(args[1], "s")
    except UnitError:
        milliseconds = 0
    if not milliseconds:
        raise CliError("Invalid timeout value.")
    cli.timeout_ms = milliseconds
    return ""


def _set_severity(cli: CliSession, args: list[str]) -> Answer:
    if not args or args[0] not in ("none", "number", "string"):
        raise CliError("one of 'none', 'number', 'string' is a required argument")
    cli.severity_output = args[0]
    return ""


def _mode(cli: CliSession, name: str, *, on: bool) -> str:
    return f"{cli.severity_prefix(INFO)}{name} is {'ON' if on else 'OFF'}\n"


def _experimental_mode(cli: CliSession, args: list[str]) -> Answer:
    if not args:
        return _mode(cli, "experimental-mode", on=cli.experimental)
    cli.experimental = args[0] == "on"
    return ""


def _expert_mode(cli: CliSession, args: list[str]) -> Answer:
    if not args:
        return _mode(cli, "expert-mode", on=cli.expert)
    cli.expert = args[0] == "on"
    return ""


_SEVERITY_HELP = "begin messages with their severity, or not"

COMMANDS: tuple[Command, ...] = (
    Command(("help",), "help [<command>]", "list all commands, or those alike", Level.USER, _help),
    Command(
        ("prompt",),
        "prompt [n|i|p|timed]*",
        "keep the session open, or no more",
        Level.USER,
        _prompt,
    ),
    Command(("quit",), "quit", "end the session", Level.USER, _quit),
    Command(
        ("operator",),
        "operator",
        "give up administrator's rights in this session",
        Level.OPERATOR,
        _lower(Level.OPERATOR),
    ),
    Command(
        ("user",),
        "user",
        "give up all rights but reading statistics",
        Level.USER,
        _lower(Level.USER),
    ),
    Command(
        ("show", "cli", "level"),
        "show cli level",
        "rights of this session",
        Level.USER,
        _show_level,
    ),
    Command(
        ("set", "timeout"),
        "set timeout cli <delay>",
        "how long this session may be silent",
        Level.USER,
        _set_timeout,
    ),
    Command(
        ("experimental-mode",),
        "experimental-mode [on|off]",
        "allow commands that HAProxy calls experimental",
        Level.ADMIN,
        _experimental_mode,
    ),
    Command(
        ("expert-mode",),
        "expert-mode [on|off]",
        "allow commands for developers (there are none)",
        Level.ADMIN,
        _expert_mode,
    ),
    Command(
        ("set", "severity-output"),
        "set severity-output [none|number|string]",
        _SEVERITY_HELP,
        Level.USER,
        _set_severity,
    ),
)

"""The runtime socket's language: words, chains, payloads, levels, prompts, unknown commands.

The expectations about bytes were observed on HAProxy 2.6.12's socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from mtproxy.cli.commands import COMMANDS
from mtproxy.cli.known import HAPROXY_COMMANDS, known_name
from mtproxy.cli.runtime import (
    INFO,
    MAX_PENDING,
    Answer,
    CliError,
    CliSession,
    Command,
    CommandTable,
    Level,
    Pause,
    split_words,
)
from mtproxy.cli.server import serve
from mtproxy.testing.runtime import make_runtime


def _echo(cli: CliSession, args: list[str]) -> Answer:
    payload = "" if cli.payload is None else f" payload={cli.payload!r}"
    return f"{'|'.join(args)}{payload}\n"


def _chunks(_cli: CliSession, _args: list[str]) -> Iterator[str]:
    yield "one\n"
    yield "two\n"
    raise CliError("no more", INFO)


def _broken(_cli: CliSession, _args: list[str]) -> Answer:
    raise ZeroDivisionError("oops")


def _prompt(cli: CliSession, _args: list[str]) -> Answer:
    cli.interactive = cli.prompt = not cli.prompt
    return ""


def _quit(cli: CliSession, _args: list[str]) -> Answer:
    cli.closing = cli.silent = True
    return ""


def _refuse(_cli: CliSession, _args: list[str]) -> Answer:
    raise CliError("No such thing.")


TABLE = CommandTable(
    [
        Command(("quit",), "quit", "end", Level.USER, _quit),
        Command(("show", "echo"), "show echo [<word>]*", "echo", Level.USER, _echo),
        Command(("show", "echo", "chunks"), "show echo chunks", "in pieces", Level.USER, _chunks),
        Command(("show", "exact"), "show exact", "nothing", Level.OPERATOR, _echo),
        Command(("set", "thing"), "set thing", "nothing", Level.ADMIN, _refuse),
        Command(("prompt",), "prompt", "prompt", Level.USER, _prompt),
        Command(("broken",), "broken", "a bug", Level.USER, _broken),
        Command(("help",), "help [<command>]", "help", Level.USER, lambda c, a: c.help(a)),
    ]
)


def session(level: Level = Level.ADMIN) -> CliSession:
    runtime = make_runtime()
    return CliSession(runtime, runtime.pool.contexts[0], TABLE, level)


class Wire:
    """A client that sends what it is given, one piece per read, and collects the answer.

    After the last piece it closes, or stays silent until the session times out.
    """

    def __init__(self, *pieces: bytes, closes: bool = True) -> None:
        self.pieces = list(pieces)
        self.closes = closes
        self.written = b""
        self.reads = 0

    async def read_some(self) -> bytes:
        self.reads += 1
        if self.pieces:
            return self.pieces.pop(0)
        if self.closes:
            return b""
        raise TimeoutError

    async def write_all(self, data: bytes) -> None:
        assert data
        self.written += data

    async def wait_for(self, pause: Pause) -> None:
        raise AssertionError("no command here waits")


def talk(*pieces: bytes, level: Level = Level.ADMIN, closes: bool = True) -> bytes:
    wire = Wire(*pieces, closes=closes)
    asyncio.run(serve(session(level), wire.read_some, wire.write_all, wire.wait_for))
    return wire.written


# --- answers


def test_answer_ends_with_an_empty_line():
    assert talk(b"show echo a b\n") == b"a|b\n\n"


def test_without_prompt_one_line_is_enough():
    wire = Wire(b"show echo a\n", b"show echo b\n", closes=False)
    asyncio.run(serve(session(), wire.read_some, wire.write_all, wire.wait_for))
    assert (wire.written, wire.reads) == (b"a\n\n", 1)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"show echo a;show echo b\n", b"a\n\nb\n\n"),
        (b"show echo a; show echo b ;\tshow  echo c\n", b"a\n\nb\n\nc\n\n"),
        (b"show echo a\nshow echo b\n", b"a\n\nb\n\n"),
        (b"show echo a\r\n", b"a\n\n"),
        (b"   show    echo   a   \n", b"a\n\n"),
        (b"show echo a;", b"a\n\n"),
        (b"show echo a\\;b\n", b"a;b\n\n"),
        (b"show echo a\\\\;show echo b\n", b"a\\\n\nb\n\n"),
        (b"show echo a\\ b\n", b"a b\n\n"),
        (b"show echo a # b\n", b"a|#|b\n\n"),
        (b'show echo "a b"\n', b'"a|b"\n\n'),
        (b"show echo \xff\xc3\xa9\n", b"\xff\xc3\xa9\n\n"),
        (b"show echo a\x00b c\n", b"a\n\n"),
        (b"show echo a\\\n", b"a\\\n\n"),
    ],
)
def test_splitting(sent: bytes, expected: bytes):
    assert talk(sent) == expected


@pytest.mark.parametrize(
    "sent", [b"show echo a;show echo b\n", b"show echo <<\nx\n\nshow echo b\n"]
)
def test_any_split_of_the_bytes_gives_the_same(sent: bytes):
    whole = talk(sent)
    for cut in range(1, len(sent)):
        got = talk(sent[:cut], sent[cut:])
        assert got
        # a session without prompt ends when everything that has come is answered
        assert whole.startswith(got)
    assert whole.startswith(talk(*(bytes([b]) for b in sent)))


def test_half_a_line_is_not_run():
    """What is cut off in "disable server be/s1" could be the 0 of s10."""
    assert talk(b"show echo a") == b""
    assert talk(b"show echo a\nshow ec") == b"a\n\n"


def test_nothing_sent():
    assert talk() == b""
    assert talk(closes=False) == b""


def test_words_beyond_the_64th_are_ignored():
    assert len(split_words("a " * 100)) == 64


def test_longest_command_wins():
    assert talk(b"show echo chunk\n") == b"chunk\n\n"
    assert talk(b"show echo chunks\n") == b"one\ntwo\nno more\n\n"


def test_long_answers_are_written_in_batches():
    def long(_cli: CliSession, _args: list[str]) -> Iterator[str]:
        for _ in range(100):
            yield "x" * 1000

    table = CommandTable([Command(("long",), "long", "long", Level.USER, long)])
    runtime = make_runtime()
    one = CliSession(runtime, runtime.pool.contexts[0], table)
    sizes: list[int] = []

    async def write_all(data: bytes) -> None:
        sizes.append(len(data))

    wire = Wire(b"long\n")
    asyncio.run(serve(one, wire.read_some, write_all, wire.wait_for))
    assert sum(sizes) == 100_001
    assert max(sizes) <= 17_000
    assert len(sizes) == 6


# --- prompt, quit, time-out


def test_prompt():
    assert talk(b"prompt\n", b"show echo a\n", b"prompt\n", b"show echo b\n") == (b"\n> a\n\n> \n")


def test_prompt_in_a_chain():
    assert talk(b"prompt;show echo a\n", b"show echo b;show echo c\n") == (
        b"\n> a\n\n> b\n\n> c\n\n> "
    )


def test_quit():
    assert talk(b"quit\n") == b""
    assert talk(b"show echo a;quit;show echo b\n") == b"a\n\n"
    assert talk(b"prompt;quit;show echo b\n") == b"\n> "


def test_silence_ends_the_session():
    assert talk(b"prompt\n", closes=False) == b"\n> "


# --- payloads


def test_payload():
    assert talk(b"show echo a <<\nline 1\nline; 2\n\nshow echo b\n") == (
        b"a payload='line 1\\nline; 2'\n\nb\n\n"
    )


def test_payload_may_be_empty():
    assert talk(b"show echo <<\n\n") == b" payload=''\n\n"


def test_payload_prompt():
    got = talk(b"prompt\n", b"show echo <<\n", b"x\n", b"\n")
    assert got == b"\n> + +  payload='x'\n\n> "


def test_payload_that_never_ends_is_dropped():
    assert talk(b"show echo <<\nx\n") == b""


@pytest.mark.parametrize("end", [b"EOF", b"%EOF%", b".", b"1234567"])
def test_payload_with_an_end_of_its_own(end: bytes):
    sent = b"show echo a <<" + end + b"\nline 1\n\nx" + end + b"\n" + end + b"\nshow echo b\n"
    text = b"line 1\\n\\nx" + end
    assert talk(sent) == b"a payload='" + text + b"'\n\nb\n\n"
    assert talk(b"show echo <<" + end + b"\n" + end + b"\n") == b" payload=''\n\n"


@pytest.mark.parametrize("word", [b"a<<b", b"<<12345678"])
def test_what_announces_no_payload(word: bytes):
    assert talk(b"show echo " + word + b"\n") == word + b"\n\n"


def test_payload_belongs_to_one_command():
    assert talk(b"show echo <<\nx\n\nshow echo b\n").endswith(b"\n\nb\n\n")


# --- limits and bugs


def test_too_long_a_command_ends_the_session():
    got = talk(b"x" * (MAX_PENDING + 1), b"\nshow echo a\n")
    assert got.startswith(b"Command too long")
    assert got.endswith(b"\n\n")
    got = talk(b"show echo <<\n" + b"x" * (MAX_PENDING + 1))
    assert got.startswith(b"Command too long")


def test_a_bug_in_a_command_is_reported_and_the_session_goes_on(capsys):
    assert talk(b"broken;show echo a\n") == b"Internal error: ZeroDivisionError: oops\n\na\n\n"
    assert "Traceback" in capsys.readouterr().err


# --- levels


@pytest.mark.parametrize(
    ("command", "level", "allowed"),
    [
        (b"show exact\n", Level.USER, False),
        (b"show exact\n", Level.OPERATOR, True),
        (b"set thing\n", Level.OPERATOR, False),
        (b"set thing\n", Level.ADMIN, True),
    ],
)
def test_levels(command: bytes, level: Level, allowed: bool):
    got = talk(command, level=level)
    assert (got == b"Permission denied\n\n") is not allowed


def test_help_shows_what_the_level_allows():
    assert b"set thing" not in talk(b"help\n", level=Level.OPERATOR)
    assert b"set thing" in talk(b"help\n", level=Level.ADMIN)


def test_severity_output():
    one = session()
    assert "".join(one.answer("set thing")) == "No such thing.\n\n"
    one.severity_output = "number"
    assert "".join(one.answer("set thing")) == "[3]: No such thing.\n\n"
    one.severity_output = "string"
    assert "".join(one.answer("set thing")) == "[err]: No such thing.\n\n"
    assert "".join(one.answer("nope")).startswith("[info]: Unknown command")
    # reports are no messages
    assert "".join(one.answer("show echo a")) == "a\n\n"


# --- unknown commands and help


@pytest.mark.parametrize("sent", [b"\n", b";\n", b"\x00\xff\n", b"zzzzzz\n", b"show\\ echo\n"])
def test_unknown(sent: bytes):
    got = talk(sent)
    assert got.startswith(b"Unknown command")
    assert b"  help [<command>]                        : help\n" in got
    assert got.endswith(b"  quit                                    : end\n\n")


@pytest.mark.parametrize("typed", ["show ehco", "shw echo", "SHOW ECHO", "show ec", "show"])
def test_unknown_lists_what_comes_close(typed: str):
    got = talk(typed.encode() + b"\n").decode()
    assert got.startswith(
        "Unknown command, but maybe one of the following ones is a better match:\n"
    )
    assert "  show echo [<word>]*                     : echo\n" in got
    assert "set thing" not in got


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("show quic t", "show quic"),
        ("set anon on", "set anon"),
        ("trace", "trace"),
    ],
)
def test_what_haproxy_knows_is_no_typing_error(typed: str, name: str):
    for words in (typed, f"help {typed}"):
        got = talk(words.encode() + b"\n").decode()
        assert got == (
            f"Unsupported command: HAProxy's '{name}' is known but not supported by mtproxy yet; "
            "'help' lists what is.\n\n"
        )


def test_no_known_name_hides_a_command():
    for command in COMMANDS.commands:
        assert known_name(command.words) is None
    for words in HAPROXY_COMMANDS:
        assert COMMANDS.find(words) is None


def test_help_lists_by_the_beginning():
    got = talk(b"help show ex\n").decode()
    assert got == (
        "The following commands are valid at this level:\n"
        "  show exact                              : nothing\n\n"
    )
    assert talk(b"help show exact now\n").decode() == got


def test_help_for_a_typing_error():
    assert b"  show exact " in talk(b"help show exakt\n")
    assert talk(b"help qqqqqq\n").startswith(b"Unknown command")


def test_two_commands_may_not_share_their_words():
    one = Command(("a",), "a", "", Level.USER, _echo)
    with pytest.raises(ValueError, match="same words"):
        CommandTable([one, one])

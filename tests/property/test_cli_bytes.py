"""Whatever bytes are typed on a runtime socket are answered, and nothing breaks."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from mtproxy.cli.commands import COMMANDS
from mtproxy.cli.runtime import CliSession, Level, Pause, split_words
from mtproxy.cli.server import serve
from mtproxy.sync import stats as lock_stats
from mtproxy.testing.runtime import make_runtime

lock_stats.configure(2)
RUNTIME = make_runtime()

_WORDS = sorted({w for c in COMMANDS.commands for w in c.words} - {"quit", "env"})
_ARGUMENTS = [
    "app/s1",
    "app/s3",
    "raw/t1",
    "app",
    "3",
    "-1",
    "0",
    "1",
    "4",
    "256",
    "50%",
    "json",
    "typed",
    "desc",
    "up",
    "all",
    "cli",
    "reset",
    "TASK_WQ",
    "state",
    "weight",
    "health",
    "maint",
    "ready",
    "drain",
    "down",
    "<<",
    "#1",
    "²",
    "\\",
    "\\;",
]
commands = st.lists(st.sampled_from(_WORDS + _ARGUMENTS), min_size=1, max_size=7).map(" ".join)
lines = st.one_of(
    commands.map(lambda text: text.encode()),
    st.binary(max_size=60),
    st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")),
)
levels = st.sampled_from(list(Level))


def talk(pieces: list[bytes], level: Level) -> bytes:
    written: list[bytes] = []
    queue = list(pieces)

    async def read_some() -> bytes:
        return queue.pop(0) if queue else b""

    async def write_all(data: bytes) -> None:
        written.append(data)

    async def no_wait(pause: Pause) -> None:
        pause.stopped = True

    session = CliSession(RUNTIME, RUNTIME.pool.contexts[0], COMMANDS, level)
    asyncio.run(serve(session, read_some, write_all, no_wait))
    return b"".join(written)


@settings(max_examples=300, deadline=None)
@given(lines, levels)
def test_every_line_is_answered(line: bytes, level: Level):
    got = talk([line + b"\n\n"], level)
    assert b"Internal error:" not in got
    quits = any(part.split()[:1] == [b"quit"] for part in line.replace(b"\n", b";").split(b";"))
    if not quits:
        assert got.removesuffix(b"> ").endswith(b"\n")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), levels)
def test_any_bytes_in_any_pieces(pieces: list[bytes], level: Level):
    got = talk(pieces, level)
    assert b"Internal error:" not in got
    assert not got or got.removesuffix(b"> ").removesuffix(b"+ ").endswith(b"\n")


@settings(max_examples=200, deadline=None)
@given(st.lists(commands, min_size=1, max_size=4), st.data())
def test_pieces_do_not_matter_in_a_session_with_prompt(typed: list[str], data: st.DataObject):
    sent = b"prompt\n" + b"\n".join(line.encode() for line in typed) + b"\n"
    cuts = sorted(data.draw(st.lists(st.integers(1, len(sent) - 1), max_size=5, unique=True)))
    pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    assert comparable(talk([sent], Level.USER)) == comparable(talk(pieces, Level.USER))


def comparable(answer: bytes) -> list[bytes]:
    """Without what changes from one call to the next: dates, counters and prompts for payloads."""
    return [
        line.split(b":")[0][:20]
        for line in answer.replace(b"+ ", b"").splitlines()
        if b"captured on" not in line
    ]


@given(st.text(max_size=200))
def test_words_contain_no_separators_unless_protected(text: str):
    words = split_words(text)
    assert len(words) <= 64
    if "\\" not in text:
        assert all(not set(word) & set(" \t\r\0") for word in words)

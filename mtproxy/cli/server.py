"""Serving one connection to the runtime socket.

`serve` is a coroutine of the thread that owns the connection. It reads, writes and waits through
coroutine functions, so that it works over any transport: `read_some()` gives at least one byte,
`b""` at the end of the stream, and raises TimeoutError after `session.timeout_ms` of silence;
`write_all(data)` returns when the kernel has taken everything; `wait_for(pause)` when the pause is
over, with `stopped` set if the client ended it. Errors of the connection (OSError)
pass through to the caller, who closes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing

from mtproxy.cli.runtime import PAYLOAD_PROMPT, CliSession, Pause

type ReadSome = Callable[[], Awaitable[bytes]]
type WriteAll = Callable[[bytes], Awaitable[None]]
type WaitFor = Callable[[Pause], Awaitable[None]]

#: pieces of an answer are gathered up to this many characters before they are written
BATCH = 16384


async def serve(
    session: CliSession, read_some: ReadSome, write_all: WriteAll, wait_for: WaitFor
) -> None:
    """Answer commands until the client has what it asked for, leaves, or is silent for too long.

    A session without prompt ends when everything that was received is answered. What the client
    sent without an end of line before it closed is not run.
    """
    while not session.closing:
        command = session.next_command()
        if session.payload_prompts:
            if session.prompt:
                await write_all(PAYLOAD_PROMPT.encode() * session.payload_prompts)
            session.payload_prompts = 0
        if command is None:
            if session.answered and not session.interactive and not session.pending:
                return
            try:
                data = await read_some()
            except TimeoutError:
                return
            if not data:
                return
            session.feed(data)
            continue
        await _write_answer(session, command, write_all, wait_for)


async def _write_answer(
    session: CliSession, command: str, write_all: WriteAll, wait_for: WaitFor
) -> None:
    pieces: list[str] = []
    size = 0
    # closing: what the answer holds is given back at once when the client has gone
    with closing(session.answer(command)) as answer:
        for piece in answer:
            if isinstance(piece, Pause):
                if pieces:
                    await write_all(encode("".join(pieces)))
                    pieces.clear()
                    size = 0
                await wait_for(piece)
                continue
            pieces.append(piece)
            size += len(piece)
            if size >= BATCH:
                await write_all(encode("".join(pieces)))
                pieces.clear()
                size = 0
    if size:
        await write_all(encode("".join(pieces)))


def encode(text: str) -> bytes:
    """Answer text as bytes; bytes that came in undecodable go out as they were."""
    return text.encode("utf-8", "surrogateescape")

"""The runtime command `show events`: rings of log lines and what they hold. Exports COMMANDS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mtproxy.cli.runtime import NOTICE, Answer, CliError, CliSession, Command, Level, Pause

if TYPE_CHECKING:
    from mtproxy.log.ring import Ring

#: bytes of messages in one piece of the answer
_CHUNK = 16384
_OPTIONS = {"-w": "w", "-n": "n", "-wn": "wn", "-nw": "wn"}
#: log targets that are no rings, with what HAProxy says of them
_DESCRIPTORS = {
    "stdout": "standard output (fd#1)",
    "stderr": "standard error output (fd#2)",
}


def _show_events(cli: CliSession, args: list[str]) -> Answer:
    if not args:
        return _list(cli)
    cli.need(Level.OPERATOR)
    name, *options = args
    if name in _DESCRIPTORS:
        raise CliError("Nothing to report for this sink", NOTICE)
    ring = cli.runtime.rings.get(name)
    if ring is None:
        raise CliError("No such event sink")
    if any(option not in _OPTIONS for option in options):
        raise CliError("unknown option")
    letters = "".join(_OPTIONS[option] for option in options)
    return _messages(ring, wait="w" in letters, new="n" in letters)


def _list(cli: CliSession) -> Iterator[str]:
    yield "Supported events sinks are listed below. Add -w(wait), -n(new). Any key to stop\n"
    runtime = cli.runtime
    for name, description in _DESCRIPTORS.items():
        yield _line(name, "fd", runtime.dropped_on(name), description)
    for ring in runtime.rings.values():
        yield _line(ring.name, "buffer", ring.dropped, ring.description)


def _line(name: str, kind: str, dropped: int, description: str) -> str:
    return f"    {name:<10} : type={kind}, {dropped} dropped, {description}\n"


def _messages(ring: Ring, *, wait: bool, new: bool) -> Iterator[str | Pause]:
    position = ring.end if new else ring.first
    # without -w what is logged while the answer is on its way is left out: it might never end
    end = ring.end
    while wait or position < end:
        messages, position, _ = ring.read(position, _CHUNK, None if wait else end)
        if messages:
            text = b"\n".join(messages).decode("utf-8", "surrogateescape")
            yield text + "\n"
            continue
        if not wait:
            return
        here = position
        pause = Pause(lambda wake, here=here: ring.wait(here, wake))  # type: ignore[misc]
        yield pause
        if pause.stopped:
            return


COMMANDS: tuple[Command, ...] = (
    Command(
        ("show", "events"),
        "show events [<sink>] [-w] [-n]",
        "rings of log lines, or what one of them holds",
        Level.USER,
        _show_events,
    ),
)

"""`show errors`: the last refused request and response of each proxy, in HAProxy's layout.

Lines about HAProxy's own state machine are replaced by the reason in words. Any thread may call.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mtproxy.rules.logformat.dates import format_second

if TYPE_CHECKING:
    from mtproxy.proxy.capture import BadCapture
    from mtproxy.stats.runtime import ProxyRuntime, Runtime

#: characters of a message in a line; 79 with the offset before them
_WIDTH = 70
_LETTERS = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r", 0x1B: "\\e", 0x5C: "\\\\"}
_SHOWN = tuple(
    _LETTERS.get(byte, chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02X}")
    for byte in range(256)
)


def render(
    runtime: Runtime, proxy: ProxyRuntime | None = None, *, requests: bool, responses: bool
) -> Iterator[str]:
    """The report; `proxy` restricts it to captures that concern it on either side."""
    found = [_of(one) for one in runtime.proxies]
    every = [capture for pair in found for capture in pair if capture is not None]
    total = max((capture.event for capture in every), default=-1) + 1
    yield f"Total events captured on [{_date(int(time.time() * 1000))}] : {total}\n"
    for request, response in found:
        for capture, wanted in ((request, requests), (response, responses)):
            if capture is None or not wanted:
                continue
            if proxy is None or proxy.settings in (capture.frontend, capture.backend):
                yield _text(capture)


def _of(proxy: ProxyRuntime) -> tuple[BadCapture | None, BadCapture | None]:
    """The newest request and response over all threads."""
    request = [f.last_error for f in proxy.frontends if f.last_error is not None]
    response = [b.last_error for b in proxy.backends if b.last_error is not None]
    return (
        max(request, key=lambda capture: capture.event, default=None),
        max(response, key=lambda capture: capture.event, default=None),
    )


def _date(milliseconds: int) -> str:
    second, rest = divmod(milliseconds, 1000)
    return f"{format_second('{day}/{mon}/{year}:{clock}', second, utc=False)}.{rest:03d}"


def _text(capture: BadCapture) -> str:
    front, back, server = capture.frontend, capture.backend, capture.server
    if back is None:
        head = f"frontend {front.name} (#{front.id}): invalid request\n  backend <NONE> (#-1)"
    else:
        head = f"backend {back.name} (#{back.id}): invalid response\n"
        head += f"  frontend {front.name} (#{front.id})"
    named = "<NONE> (#-1)" if server is None else f"{server.name} (#{server.id})"
    size = len(capture.data)
    return (
        f" \n[{_date(capture.at_ms)}] {head}, server {named}, event #{capture.event}, "
        f"src {capture.source}\n"
        f"  buffer starts at 0 (including 0 out), {max(0, capture.bufsize - size)} free,\n"
        f"  len {size}, wraps at {capture.bufsize}, error at position {capture.position}\n"
        f"  H1 error: {capture.reason} :\n"
        "  \n" + "".join(_lines(capture.data))
    )


def _lines(data: bytes) -> Iterator[str]:
    """One line of the message a line, broken where it is long: `+` marks the continuation."""
    position = 0
    mark = " "
    while position < len(data):
        start = position
        text = ""
        while position < len(data) and len(text) + len(_SHOWN[data[position]]) <= _WIDTH:
            text += _SHOWN[data[position]]
            position += 1
            if data[position - 1] == 0x0A:
                break
        yield f"  {start:05d}{mark} {text}\n"
        mark = " " if data[position - 1] == 0x0A else "+"

"""Differential test of the HTTP/1 codec against a real HAProxy.

    python -m mtproxy.testing.h1haproxy [--seconds N] [--seed S] [--case K]

Sends generated messages, harmless and hostile, through Debian's haproxy and through our codec.
Nothing that HAProxy refuses may be taken by us, and what both take must go on as the same
message. Exit code 0: nothing found; 1: a failure, with the input; 77: there is no haproxy here.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from mtproxy.http.cache import HeadCache
from mtproxy.http.errors import BadMessage
from mtproxy.http.h1_request import RequestHead
from mtproxy.testing.h1generator import Generator
from mtproxy.testing.h1messages import Message, read_request, read_response
from mtproxy.testing.haproxy_judge import HAProxyJudge, Verdict, find_haproxy

#: requests that a response is served to: name, bytes
REQUESTS = {
    b"GET": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HEAD": b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    b"CONNECT": b"CONNECT a:8080 HTTP/1.1\r\nHost: a:8080\r\n\r\n",
}
UPGRADE = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
_UNLIKE = (b"connection:", b"te:")


def _lines(head: bytes) -> tuple[bytes, list[bytes]]:
    """The start line and the header lines of a head on the wire.

    Without Connection, which each writes for itself, and TE, where HAProxy 2.6 finds "trailers"
    within other words.
    """
    start, *lines = head.split(b"\r\n")
    return start, [line for line in lines if line and not line.startswith(_UNLIKE)]


def _on_the_wire(message: Message) -> tuple[bytes, list[bytes]]:
    head = message.head
    assert head is not None
    return _lines(head.start_wire + b"".join([header[2] for header in head.headers]))


def compare_request(judge: HAProxyJudge, data: bytes, cache: HeadCache) -> str | None:
    """What is wrong with our reading of a request, by HAProxy's judgement; None: nothing."""
    try:
        ours = read_request([data], cache)
    except BadMessage:
        return None
    if ours is None:
        return None
    assert isinstance(ours.head, RequestHead)
    tunnel = ours.head.method == b"CONNECT" or ours.head.upgrade is not None
    if not tunnel:
        # what follows is another request, with a verdict of its own
        data = data[: len(data) - len(ours.rest)]
    verdict = judge.ask(data, half_close=not tunnel)
    if not verdict.forwarded or not verdict.forwarded[0]:
        return f"we take what HAProxy answers with {verdict.status}: {ours!r}"
    if verdict.status != 200:
        return f"HAProxy forwarded the head, then answered with {verdict.status}: {ours!r}"
    head, _, body = verdict.forwarded[0].partition(b"\r\n\r\n")
    if _on_the_wire(ours) != _lines(head):
        return f"heads differ: {_on_the_wire(ours)!r} and HAProxy {_lines(head)!r}"
    if tunnel:
        return None
    theirs = read_request([head + b"\r\n\r\n" + body], HeadCache())
    if theirs is None or theirs.body != ours.body:
        return f"bodies differ: {ours.body!r} and HAProxy {body!r}"
    if theirs.trailers != ours.trailers:
        return f"trailers differ: {ours.trailers!r} and HAProxy {theirs.trailers!r}"
    return None


def compare_response(
    judge: HAProxyJudge, data: bytes, method: bytes, cache: HeadCache, upgrade: bool = False
) -> str | None:
    """What is wrong with our reading of a response, by HAProxy's judgement; None: nothing."""
    try:
        ours = read_response([data], method, cache, upgrade)
    except BadMessage:
        return None
    if ours is None:
        return None
    request = UPGRADE if upgrade else REQUESTS[method]
    status = ours.start[0]
    assert isinstance(status, int)
    tunnel = status == 101 or (method == b"CONNECT" and status < 300)
    if not tunnel and ours.rest:
        data = data[: len(data) - len(ours.rest)]
    verdict: Verdict = judge.ask(request, response=data, half_close=not tunnel)
    if verdict.status is None or verdict.status == 502:
        return f"we take what HAProxy replaces by {verdict.status}: {ours!r}"
    theirs = read_response([verdict.reply], method, HeadCache(), upgrade)
    if theirs is None:
        return f"HAProxy cuts it short: {ours!r} and HAProxy {verdict.reply!r}"
    if theirs.interim != ours.interim:
        return f"interim responses differ: {ours.interim!r} and HAProxy {theirs.interim!r}"
    if status != 101:
        # HAProxy adds this to any response that mentions WebSocket
        assert theirs.head is not None
        theirs.head.headers = [
            header
            for header in theirs.head.headers
            if header[0] != b"sec-websocket-accept" or header[:2] in ours.headers
        ]
    if _on_the_wire(ours) != _on_the_wire(theirs):
        return f"heads differ: {_on_the_wire(ours)!r} and HAProxy {_on_the_wire(theirs)!r}"
    if ours.body != theirs.body or (tunnel and ours.rest != theirs.rest):
        return f"bodies differ: {ours!r} and HAProxy {theirs!r}"
    return None


def run_case(judge: HAProxyJudge, seed: int, case: int, cache: HeadCache) -> str | None:
    """One case; the description of a failure, or None."""
    generator = Generator(Random(f"{seed}/{case}"))
    rng = generator.rng
    if rng.randrange(2):
        data = generator.request()
        wrong = compare_request(judge, data, cache)
        what = "request"
    else:
        data = generator.response()
        method = rng.choice([b"GET", b"GET", b"HEAD", b"POST", b"CONNECT"])
        upgrade = method == b"GET" and rng.randrange(4) == 0
        wrong = compare_response(judge, data, method, cache, upgrade)
        what = f"response to {method.decode()}{' with an upgrade' if upgrade else ''}"
    return None if wrong is None else f"{what}\n  input: {data!r}\n  wrong: {wrong}"


def main(argv: list[str] | None = None) -> int:
    """Run until the time is over or something is found."""
    parser = argparse.ArgumentParser(prog="python -m mtproxy.testing.h1haproxy")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long (default 30)")
    parser.add_argument("--seed", type=int, default=None, help="default: from the clock")
    parser.add_argument("--case", type=int, default=None, help="run this case only")
    options = parser.parse_args(argv)
    out = sys.stdout
    program = find_haproxy()
    if program is None:
        out.write("skipped: no haproxy (apt-get install haproxy, or set HAPROXY_PROGRAM)\n")
        return 77
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000_007
    cache = HeadCache(entries_max=64)
    start = shown = time.monotonic()
    out.write(f"h1 against {program}: seed {seed}, {options.seconds:g} s\n")
    case = 0 if options.case is None else options.case
    with HAProxyJudge(program) as judge:
        while True:
            found = run_case(judge, seed, case, cache)
            if found is not None:
                out.write(
                    f"case {case}: {found}\n  repeat: python -m mtproxy.testing.h1haproxy "
                    f"--seed {seed} --case {case}\n"
                )
                return 1
            case += 1
            now = time.monotonic()
            if now - shown >= 1:
                out.write(f"  {now - start:5.0f} s  {case} cases\n")
                out.flush()
                shown = now
            if now - start >= options.seconds or options.case is not None:
                out.write(f"nothing found in {case} cases\n")
                return 0


if __name__ == "__main__":
    sys.exit(main())

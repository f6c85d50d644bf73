"""The inputs whose treatment docs/http1.md compares: by HAProxy, h11 and mtproxy.

`CASES` is the one place where they are listed. `python -m mtproxy.testing.h1cases` asks all three
and writes the tables; a test checks that the document still tells the truth.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mtproxy.http.cache import HeadCache
from mtproxy.http.errors import BadMessage
from mtproxy.testing.h1haproxy import REQUESTS, UPGRADE
from mtproxy.testing.h1messages import (
    Refused,
    h11_request,
    h11_response,
    read_request,
    read_response,
)
from mtproxy.testing.haproxy_judge import HAProxyJudge, find_haproxy

TAKEN: Final = "taken"
WAITS: Final = "waits"


@dataclass(frozen=True, slots=True)
class Case:
    """One input. `part` is what stands in the table, `data` the whole message with it.

    `method` is None for a request; for a response it is the method of the request it answers.
    """

    section: str
    part: bytes
    data: bytes
    why: str
    method: bytes | None = None
    upgrade: bool = False


def _requests(section: str, rows: list[tuple[bytes, str]]) -> Iterator[Case]:
    """Whole request heads' first lines, with a Host."""
    for part, why in rows:
        yield Case(section, part, part + b"\r\nHost: a\r\n\r\n", why)


def _fields(
    section: str, rows: list[tuple[bytes, str]], start: bytes = b"GET / HTTP/1.1", body: bytes = b""
) -> Iterator[Case]:
    """Header lines of a request."""
    for part, why in rows:
        host = b"" if b"host:" in part.lower() else b"Host: a\r\n"
        yield Case(section, part, start + b"\r\n" + host + part + b"\r\n\r\n" + body, why)


def _chunks(section: str, rows: list[tuple[bytes, str]]) -> Iterator[Case]:
    """Chunked bodies of a request."""
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    for part, why in rows:
        yield Case(section, part, head + part, why)


def _responses(section: str, rows: list[tuple[bytes, str]], tail: bytes) -> Iterator[Case]:
    """First lines of a response, or header lines of a 200."""
    for part, why in rows:
        start = (
            b""
            if part.startswith((b"HTTP/", b"http/", b"ICY", b"\r\n"))
            else b"HTTP/1.1 200 OK\r\n"
        )
        yield Case(section, part, start + part + b"\r\n" + tail, why, b"GET")


_STRICT = "strict: RFC 9112 allows to refuse it"
_GRAMMAR = "not in the grammar"

CASES: Final[list[Case]] = [
    *_requests(
        "Request line",
        [
            (b"GET / HTTP/1.1", "the plain case"),
            (b"get / HTTP/1.1", "methods are tokens and case-sensitive; sent on as they are"),
            (b"M-SEARCH / HTTP/1.1", "any token is a method"),
            (b"G@T / HTTP/1.1", "not a token"),
            (b"GET  /  HTTP/1.1", "as HAProxy, whose tests send it; sent on with single spaces"),
            (b"GET\t/ HTTP/1.1", "strict: no tabs between the parts"),
            (b"GET / HTTP/1.1 ", _GRAMMAR),
            (b" GET / HTTP/1.1", _GRAMMAR),
            (b"GET /", "HTTP/0.9"),
            (b"GET / HTTP/0.9", "no such message format"),
            (b"GET / HTTP/1.0", "the plain case; closes unless keep-alive is asked for"),
            (b"GET / HTTP/1.2", "a minor version counts as the highest known one (RFC 9110 2.5)"),
            (b"GET / HTTP/2.0", "another major version is another format"),
            (b"PRI * HTTP/2.0", "HTTP/2's preface (HAProxy changes to HTTP/2)"),
            (b"GET / HTTP/1.10", "one digit each (RFC 9112 2.3)"),
            (b"GET / HTTP/11", _GRAMMAR),
            (b"GET / http/1.1", "case-sensitive (RFC 9112 2.3)"),
            (b"GET / RTSP/1.0", "not HTTP"),
            (b"\r\n\r\nGET / HTTP/1.1", "RFC 9112 2.2 asks to skip an empty line; up to 4 are"),
            (b"\r\n" * 5 + b"GET / HTTP/1.1", "there must be a limit"),
            (b"\nGET / HTTP/1.1", "bare LF"),
            (b"\rGET / HTTP/1.1", "bare CR"),
        ],
    ),
    *_requests(
        "Request target",
        [
            (b"OPTIONS * HTTP/1.1", "asterisk-form"),
            (b"GET * HTTP/1.1", "asterisk-form is for OPTIONS alone (RFC 9112 3.2.4)"),
            (b"GET a HTTP/1.1", "no form of RFC 9112 3.2"),
            (b"GET ?x HTTP/1.1", "no form of RFC 9112 3.2"),
            (b"GET mailto:a HTTP/1.1", "no authority: not for an HTTP proxy"),
            (b"GET //a/b HTTP/1.1", "a path may begin so"),
            (b"GET /#f HTTP/1.1", "a fragment is not part of a target"),
            (b"GET /\xe9 HTTP/1.1", "not ASCII"),
            (b"GET /\x01 HTTP/1.1", "a control character"),
            (b"GET /\x7f HTTP/1.1", "a control character"),
            (b'GET /"<>\\^`{|} HTTP/1.1', "not in the grammar, but browsers send some of them"),
            (b"GET http://a/ HTTP/1.1", "absolute-form"),
            (b"GET http://A:80/ HTTP/1.1", "a default port is dropped from target and Host"),
            (b"GET http://b/ HTTP/1.1", "names another place than Host"),
            (b"GET http://a:81/ HTTP/1.1", "names another port than Host"),
            (b"GET http://u:p@a/ HTTP/1.1", "user information is skipped"),
            (b"GET http://a HTTP/1.1", "an empty path"),
            (b"GET http://a?x HTTP/1.1", "as HAProxy, which reads the authority up to a slash"),
            (b"GET http://a:x/ HTTP/1.1", "a port is digits"),
            (b"CONNECT a:443 HTTP/1.1", "authority-form"),
            (b"CONNECT a HTTP/1.1", "the port is required (RFC 9112 3.2.3)"),
            (b"CONNECT b:443 HTTP/1.1", "names another place than Host"),
            (b"CONNECT / HTTP/1.1", "only authority-form for CONNECT"),
            (b"CONNECT http://a:80/ HTTP/1.1", "only authority-form for CONNECT"),
        ],
    ),
    *_fields(
        "Host",
        [
            (b"Host: a\r\nHost: a", "as HAProxy, which makes one of them"),
            (b"Host: a\r\nHost: b", "one Host alone (RFC 9112 3.2)"),
            (b"Host: a\r\nHost: A", "strict: the texts must be the same"),
            (b"Host:", "empty is allowed"),
            (b"Host: a b", "not a host (RFC 9112 3.2)"),
            (b"Host: u@a", "not a host"),
            (b"Host: a/b", "not a host"),
        ],
    ),
    Case("Host", b"(none)", b"GET / HTTP/1.1\r\n\r\n", "as HAProxy: monitoring scripts send it"),
    *_fields(
        "Header lines",
        [
            (b"X:a", "no white space is needed"),
            (b"X: \t a \t ", "white space around a value is dropped"),
            (b"X : a", "an attack on proxies (RFC 9112 5.1)"),
            (b": a", "no name"),
            (b"X", "no colon"),
            (b"X Y: a", "not a token"),
            (b"X\xe9: a", "not a token"),
            (b"(X): a", "not a token"),
            (b"X: a\r\n b", "obs-fold: RFC 9112 5.2 lets us refuse or mend it"),
            (b" X: a", "looks like obs-fold"),
            (b"X: a\x00b", "RFC 9110 5.5: NUL is dangerous"),
            (b"X: a\rb", "bare CR: RFC 9112 2.2"),
            (b"X: a\nY: b", "bare LF; HAProxy and h11 take it for a line end"),
            (b"X: a\x01b", "RFC 9110 5.5: a control character"),
            (b"X: a\x7fb", "RFC 9110 5.5: a control character"),
            (b"X: \xe9\xff", "obs-text passes untouched"),
            (b"x: a\r\n" * 98 + b"x: a", "100 fields with Host: HAProxy's default limit"),
            (b"x: a\r\n" * 99 + b"x: a", "101 fields with Host"),
        ],
    ),
    *_fields(
        "Length of a request",
        [
            (b"Content-Length: 5", "the plain case"),
            (b"Content-Length: 5, 5", "RFC 9112 6.3 rule 5; sent on as one"),
            (b"Content-Length: 5\r\nContent-Length: 5", "RFC 9112 6.3 rule 5; sent on as one"),
            (b"Content-Length: 5\r\nContent-Length: 6", "which?"),
            (b"Content-Length: 5\r\nContent-Length: 05", "strict: the texts must be the same"),
            (b"Content-Length: 005", "the grammar allows it"),
            (b"Content-Length: " + b"0" * 19 + b"5", "strict: 19 digits are enough"),
            (b"Content-Length: 5,", "not a list of equal numbers"),
            (b"Content-Length:", "no number"),
            (b"Content-Length: +5", "no number"),
            (b"Content-Length: -5", "no number"),
            (b"Content-Length: 5 5", "no number"),
            (b"Content-Length: 0x5", "no number"),
            (b"Content-Length: 9223372036854775808", "more than 63 bits"),
        ],
        b"POST / HTTP/1.1",
        b"abcde",
    ),
    *_fields(
        "Transfer-Encoding of a request",
        [
            (b"Transfer-Encoding: chunked", "the plain case"),
            (b"Transfer-Encoding: Chunked", "coding names have no case"),
            (b"Content-Length: 5\r\nTransfer-Encoding: chunked",
             "chunked wins, the length is dropped, the connection closes (RFC 9112 6.1)"),
            (b"Content-Length: x\r\nTransfer-Encoding: chunked", "a bad length is bad anyway"),
            (b"Transfer-Encoding: gzip, chunked", "well-formed, but not supported"),
            (b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", "the same in two lines"),
            (b"Transfer-Encoding: chunked, gzip", "the end would be unknown"),
            (b"Transfer-Encoding: gzip", "the end would be unknown"),
            (b"Transfer-Encoding: identity", "no longer exists (RFC 9112 7)"),
            (b"Transfer-Encoding: chunked, chunked", "RFC 9112 6.1 forbids it"),
            (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "the same in two lines"),
            (b"Transfer-Encoding:", "no coding"),
            (b"Transfer-Encoding: ,chunked", "as HAProxy: an unknown coding before chunked"),
            (b"Transfer-Encoding: chunked;q=1", "chunked has no parameters"),
            (b'Transfer-Encoding: "chunked"', "not a token"),
        ],
        b"POST / HTTP/1.1",
        b"0\r\n\r\n",
    ),
    Case("Transfer-Encoding of a request", b"POST, HTTP/1.0, chunked",
         b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "taken as chunked, then the connection closes (RFC 9112 6.1)"),
    Case("Methods and bodies", b"GET, HTTP/1.0, Content-Length: 2",
         b"GET / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab",
         "as HAProxy, unless h1-accept-payload-with-any-method"),
    Case("Methods and bodies", b"GET, HTTP/1.1, Content-Length: 2",
         b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", "sent on with its body"),
    Case("Methods and bodies", b"CONNECT, Content-Length: 2",
         b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab",
         "who knows where the tunnel begins (RFC 9110 9.3.6)"),
    *_fields(
        "Connection",
        [
            (b"Connection: close", "closes after the response; not sent on"),
            (b"Connection: keep-alive, close", "close wins"),
            (b"Connection: close;x", "not the token close"),
            (b"Connection: X\r\nX: a", "as HAProxy: named fields go on, and so does their name"),
            (b"Keep-Alive: 5", "as HAProxy: sent on"),
            (b"Proxy-Connection: close", "as HAProxy: sent on, without effect"),
            (b"TE: gzip, trailers", "sent on as `te: trailers`"),
            (b"TE: gzip", "not sent on"),
            (b"Upgrade: x", "no offer without Connection; sent on"),
            (b"Connection: upgrade\r\nUpgrade: x", "an offer"),
            (b"Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 0", "an offer"),
            (b"Connection: upgrade\r\nUpgrade: websocket", "RFC 6455 4.1 asks for a key"),
            (b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x", "24 characters"),
            (b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: " + b"k" * 24,
             "an offer"),
            (b"Expect: 100-continue", "sent on; the server answers it"),
            (b"Expect: x", "as HAProxy: the server's affair"),
        ],
    ),
    *_chunks(
        "Chunks and trailers",
        [
            (b"3\r\nabc\r\n0\r\n\r\n", "the plain case"),
            (b"00003\r\nabc\r\n0\r\n\r\n", "leading zeros"),
            (b"0" * 20 + b"3\r\nabc\r\n0\r\n\r\n", "more than 20 digits"),
            (b"1000000000000000\r\n", "more than 60 bits"),
            (b"3;a=b\r\nabc\r\n0\r\n\r\n", "extensions are dropped"),
            (b"3 ;a\r\nabc\r\n0\r\n\r\n", "RFC 9112 7.1.1 asks to take white space here"),
            (b"3 \r\nabc\r\n0\r\n\r\n", "as both"),
            (b" 3\r\nabc\r\n0\r\n\r\n", _GRAMMAR),
            (b"0x3\r\nabc\r\n0\r\n\r\n", _GRAMMAR),
            (b"+3\r\nabc\r\n0\r\n\r\n", _GRAMMAR),
            (b"\r\nabc\r\n0\r\n\r\n", "no size"),
            (b"3;a\x00\r\nabc\r\n0\r\n\r\n", "a control character"),
            (b"3;a\rb\r\nabc\r\n0\r\n\r\n", "bare CR"),
            (b"3;a\nabc\r\n0\r\n\r\n", "bare LF: peers differ in where the line ends"),
            (b"3\nabc\r\n0\r\n\r\n", "bare LF"),
            (b"3\r\nabc\n0\r\n\r\n", "bare LF"),
            (b"3\r\nabcd\r\n0\r\n\r\n", "no CRLF after the data"),
            (b"3\r\nabc0\r\n\r\n", "no CRLF after the data"),
            (b"0\r\nX: a\r\n\r\n", "trailers go on"),
            (b"0\r\nX: a\r\n b\r\n\r\n", "as in a head"),
            (b"0\r\nX: a\n\n", "bare LF"),
            (b"0\r\nContent-Length: 5\r\n\r\n", "a trailer that frames is an attack"),
            (b"0\r\nHost: b\r\n\r\n", "a trailer that routes is an attack"),
            (b"0\r\nCookie: a\r\n\r\n", "dropped (RFC 9110 6.5.1)"),
            (b"0\r\n" + b"x: a\r\n" * 101 + b"\r\n", "as in a head: 100"),
        ],
    ),
    *_responses(
        "Status line",
        [
            (b"HTTP/1.1 200 OK", "the plain case"),
            (b"HTTP/1.1 200", "no reason; sent on with its space"),
            (b"HTTP/1.1 200  OK", "spaces before the reason are dropped"),
            (b"HTTP/1.1  200 OK", "strict"),
            (b"HTTP/1.1\t200 OK", "strict"),
            (b"HTTP/1.0 200 OK", "the plain case; closes unless keep-alive is said"),
            (b"HTTP/1.2 200 OK", "counts as 1.1"),
            (b"HTTP/2.0 200 OK", "another format"),
            (b"HTTP/0.9 200 OK", "no such format"),
            (b"http/1.1 200 OK", "case-sensitive"),
            (b"ICY 200 OK", "not HTTP"),
            (b"HTTP/1.1 20 OK", "three digits"),
            (b"HTTP/1.1 2000 OK", "three digits"),
            (b"HTTP/1.1 099 OK", "from 100"),
            (b"HTTP/1.1 999 OK", "unknown, treated as a final status"),
            (b"HTTP/1.1 200 \xe9", "obs-text passes untouched"),
            (b"HTTP/1.1 200 a\x00b", "a control character"),
            (b"\r\nHTTP/1.1 200 OK", "strict: RFC 9112 2.2 speaks of requests alone"),
        ],
        b"Content-Length: 2\r\n\r\nok",
    ),
    *_responses(
        "Fields of a response before `Content-Length: 2`",
        [
            (b"X: a\r\n b", "obs-fold: RFC 9112 5.2 lets us replace it by 502"),
            (b"X : a", "an attack on proxies"),
            (b"X: a\x00b", "NUL is dangerous"),
            (b"X: a\nY: b", "bare LF"),
            (b"X: a\x01b", "a control character"),
            (b"Host: a b", "means nothing in a response"),
            (b"Content-Length: 2", "twice the same; sent on as one"),
            (b"Content-Length: 3", "which?"),
        ],
        b"Content-Length: 2\r\n\r\nok",
    ),
    *_responses(
        "Fields of a response without another length",
        [
            (b"X: a", "no length: until the server closes"),
            (b"Content-Length: +2", "no number"),
            (b"Transfer-Encoding: identity", "the end is unknown"),
            (b"Transfer-Encoding: gzip", "the end is unknown"),
        ],
        b"\r\nok",
    ),
    *_responses(
        "Fields of a response with a chunked body",
        [
            (b"Transfer-Encoding: chunked", "the plain case"),
            (b"Content-Length: 2\r\nTransfer-Encoding: chunked", "chunked wins, then closes"),
            (b"Transfer-Encoding: gzip, chunked", "not supported"),
            (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked", "chunked, then closes"),
        ],
        b"\r\n2\r\nok\r\n0\r\n\r\n",
    ),
    *[
        Case("Responses without a body", part, part + b"\r\n\r\n" + tail, why, method, upgrade)
        for part, tail, why, method, upgrade in [
            (b"HTTP/1.1 204 x\r\nContent-Length: 5", b"", "the field is dropped (RFC 9110 8.6)",
             b"GET", False),
            (b"HTTP/1.1 304 x\r\nContent-Length: 5", b"", "the field goes on", b"GET", False),
            (b"HTTP/1.1 200 x\r\nContent-Length: 5", b"", "to HEAD: the field goes on", b"HEAD",
             False),
            (b"HTTP/1.1 100 x", b"HTTP/1.1 200 x\r\nContent-Length: 0\r\n\r\n",
             "an interim response, then the final one", b"GET", False),
            (b"HTTP/1.1 102 x\r\nContent-Length: 5", b"HTTP/1.1 200 x\r\nContent-Length: 0\r\n\r\n",
             "the field is dropped", b"GET", False),
            (b"HTTP/1.1 200 x\r\nContent-Length: 5", b"tunnel", "to CONNECT: a tunnel", b"CONNECT",
             False),
            (b"HTTP/1.1 101 x", b"", "without Upgrade", b"GET", True),
            (b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: x", b"tunnel",
             "nobody asked for it", b"GET", False),
            (b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: x", b"tunnel",
             "to an offer: a tunnel", b"GET", True),
            (b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: websocket", b"tunnel",
             "RFC 6455 4.2.2 asks for an accept key", b"GET", True),
        ]
    ],
]  # fmt: skip


def ours(case: Case) -> str:
    """What mtproxy does with it: taken, a status code, or waits."""
    cache = HeadCache()
    try:
        if case.method is None:
            message = read_request([case.data], cache)
        else:
            message = read_response([case.data], case.method, cache, case.upgrade)
    except BadMessage as error:
        return str(error.status if case.method is None else 502)
    return TAKEN if message is not None else WAITS


def h11s(case: Case) -> str:
    """What h11 does with it: taken, refused or waits."""
    try:
        if case.method is None:
            message = h11_request([case.data])
        else:
            message = h11_response([case.data], case.method, case.upgrade)
    except Refused:
        return "refused"
    return TAKEN if message is not None else WAITS


def haproxys(judge: HAProxyJudge, case: Case) -> str:
    """What HAProxy does with it: taken, or the status code of its answer."""
    if case.method is None:
        # a half-closed client gets its answer without a wait, but a tunnel would end with it
        tunnel = case.data.startswith(b"CONNECT") or b"upgrade" in case.data.lower()
        verdict = judge.ask(case.data, half_close=not tunnel)
        if verdict.status == 200 and verdict.forwarded:
            return TAKEN
    else:
        request = UPGRADE if case.upgrade else REQUESTS[case.method]
        tunnel = case.upgrade or case.method == b"CONNECT"
        verdict = judge.ask(request, response=case.data, half_close=not tunnel)
        if verdict.reply.startswith(b"HTTP/") and verdict.status != 502:
            return TAKEN
    return str(verdict.status) if verdict.status is not None else "other"


def shown(case: Case) -> str:
    """The part as it stands in a table."""
    if case.part == b"(none)":
        return case.part.decode()
    text = repr(case.part)[2:-1]
    if len(text) > 90:
        text = text[:40] + " ... " + text[-20:]
    return "`` " + text.replace("|", "\\|") + " ``"


def tables(judge: HAProxyJudge) -> str:
    """All tables, in Markdown."""
    out: list[str] = []
    section = None
    for case in CASES:
        if case.section != section:
            section = case.section
            out += ["", f"### {section}", "", "| input | HAProxy | h11 | mtproxy | why |"]
            out += ["|---|---|---|---|---|"]
        verdicts = f"{haproxys(judge, case)} | {h11s(case)} | {ours(case)}"
        out.append(f"| {shown(case)} | {verdicts} | {case.why} |")
    return "\n".join(out).strip() + "\n"


def main() -> int:
    """Write the tables. Exit code 77: there is no haproxy."""
    program = find_haproxy()
    if program is None:
        sys.stderr.write("no haproxy (apt-get install haproxy, or set HAPROXY_PROGRAM)\n")
        return 77
    with HAProxyJudge(program, wait_ms=100) as judge:
        sys.stdout.write(tables(judge))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a differential case is, and short ways to write one.

A case is data: lines of a frontend and its backend, raw requests, the answers of an origin server.
The bed puts many of them into one configuration, each with a frontend and a backend of its own,
and shows the same bytes to mtproxy and to HAProxy.

In configuration texts `@N@` is the case's own number (for names of sections: `userlist u@N@`),
`@B@` its backend, `@DIR@` the folder of its `files`, `@ORIGIN@` the origin's address and port.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: what the origin says when a case does not care
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@dataclass(frozen=True, slots=True)
class Case:
    """One case; `name` is unique in its family."""

    name: str
    front: str = ""
    back: str = ""
    #: raw requests, one after another on one connection as long as the proxy keeps it
    requests: tuple[bytes, ...] = (b"GET / HTTP/1.1\r\nhost: h\r\n\r\n",)
    #: what the origin answers in turn, the last one again and again; b"": it closes
    answers: tuple[bytes, ...] = (OK,)
    #: whole sections that stand before the frontend, and lines of the global section
    sections: str = ""
    settings: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    tcp: bool = False
    #: one connection for each request
    fresh: bool = False
    #: the client goes as soon as it has sent a request
    leaves: bool = False
    #: commands for the runtime socket after the first request; answers are compared too
    commands: tuple[str, ...] = ()
    #: how long an answer is waited for, in seconds (where there shall be none: short)
    patience: float = 10.0
    #: patterns (re) whose matches are times or chance; each becomes `~`
    hide: tuple[str, ...] = ()


def quoted(text: str) -> str:
    """`text` as one word of a configuration."""
    if "'" not in text:
        return f"'{text}'"
    for special in ("\\", '"', "$"):
        text = text.replace(special, "\\" + special)
    return f'"{text}"'


def request(
    target: str = "/",
    *headers: str,
    method: str = "GET",
    body: str | bytes = b"",
    version: str = "HTTP/1.1",
) -> bytes:
    """A raw request with `host: h` unless a Host is given, and a length where there is a body."""
    lines = [f"{method} {target} {version}"]
    if not any(header.lower().startswith("host:") for header in headers):
        lines.append("host: h")
    lines += headers
    data = body.encode("latin-1") if isinstance(body, str) else body
    if data:
        lines.append(f"content-length: {len(data)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data


def answer(
    *headers: str, status: str = "200 OK", body: bytes = b"ok", version: str = "HTTP/1.1"
) -> bytes:
    """A raw answer with a length."""
    lines = [f"{version} {status}", *headers, f"content-length: {len(body)}"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def expr(
    expression: str,
    *requests: bytes,
    name: str = "",
    before: str = "",
    hide: tuple[str, ...] = (),
    **more: object,
) -> Case:
    """The value of a sample expression of the request, as the body of an answer."""
    rule = "http-request return status 200 content-type text/plain lf-string"
    return Case(
        name or expression,
        front=f"{before}\n{rule} {quoted(f'[%[{expression}]]')}",
        requests=requests or (request(),),
        hide=hide,
        **more,  # type: ignore[arg-type]
    )


def typed(expression: str, *requests: bytes, name: str = "", **more: object) -> Case:
    """The same by way of a variable and of a header: types and casts must survive."""
    return Case(
        name or f"typed {expression}",
        front=(
            f"http-request set-var(txn.v) {quoted(expression)}\n"
            "http-request return status 200 content-type text/plain "
            "hdr x-found '%[var(txn.v),length]' lf-string '[%[var(txn.v)]]'"
        ),
        requests=requests or (request(),),
        **more,  # type: ignore[arg-type]
    )


def holds(
    condition: str, *requests: bytes, name: str = "", before: str = "", **more: object
) -> Case:
    """Whether a condition holds."""
    rule = "http-request return status 200 content-type text/plain string"
    return Case(
        name or condition,
        front=f"{before}\n{rule} yes if {condition}\n{rule} no",
        requests=requests or (request(),),
        **more,  # type: ignore[arg-type]
    )


def response(expression: str, reply: bytes, *requests: bytes, name: str = "") -> Case:
    """The value of a sample expression of the response, as a header."""
    return Case(
        name or expression,
        back=f"http-response set-header x-out {quoted(f'[%[{expression}]]')}",
        requests=requests or (request(),),
        answers=(reply,),
    )


def rules(name: str, front: str, *requests: bytes, back: str = "", **more: object) -> Case:
    """Rules whose effect is seen in what the origin gets and the client is told."""
    if "silent-drop" in front + back:
        more = {"patience": 0.4} | more
    return Case(name, front=front, back=back, requests=requests or (request(),), **more)  # type: ignore[arg-type]

"""Sample expressions and ACLs evaluated on bare heads, here and by a real HAProxy.

`Samples` parses and builds expressions as the proxy does and runs them on a made-up view;
`SampleJudge` has Debian's haproxy evaluate the same words for the same bytes. For tests; one
thread.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from types import SimpleNamespace, TracebackType
from typing import Any

from mtproxy.base.location import Location
from mtproxy.http.cache import HeadCache
from mtproxy.http.h1_request import parse_request_head
from mtproxy.http.h1_response import parse_response_head
from mtproxy.rules.acl import build_condition
from mtproxy.rules.casts import to_text
from mtproxy.rules.expression import build_expression, parse_expression
from mtproxy.rules.points import HTTP_REQUEST, Point
from mtproxy.rules.reader import RuleReader
from mtproxy.rules.transaction import Transaction
from mtproxy.rules.types import Value
from mtproxy.testing.judge import Judge

_CONFIG = """\
global
    nbthread 1
    maxconn 100
defaults
    mode http
    timeout client 5s
    timeout connect 1s
    timeout server 5s
frontend f
    bind unix@{dir}/front.sock
{rules}
    default_backend b
backend b
    server s unix@{dir}/origin.sock
"""


class Samples:
    """Evaluates words on heads. `view` may be given attributes; `build` too."""

    def __init__(self, point: Point = HTTP_REQUEST, kind: str = "listen") -> None:
        self.point = point
        self.kind = kind
        self.cache = HeadCache()
        self.warnings: list[str] = []
        self.references: list[Any] = []
        self.build: Any = SimpleNamespace(shared=SimpleNamespace(patterns=None), thread=None)
        self.view: Any = SimpleNamespace(
            request=None,
            response=None,
            txn=Transaction(),
            client_ip="192.0.2.1",
            client_port=1234,
            first=True,
            status=-1,
            t_c=-1,
            t_r=-1,
            logged=False,
            may_change=False,
            response_body=lambda: b"",
            room=SimpleNamespace(cache=self.cache),
        )

    def receive(self, request: bytes, response: bytes | None = None) -> None:
        """Put heads into the view, as a new transaction."""
        self.view.txn = Transaction()
        self.view.request = parse_request_head(request, self.cache)
        self.view.response = None
        if response is not None:
            method = self.view.request.method
            self.view.response = parse_response_head(response, method, self.cache)

    def reader(self, text: str) -> RuleReader:
        """A reader of the words of `text`."""
        return RuleReader(
            tuple(text.split(" ")),
            Location("test.cfg", 1),
            self.point,
            proxy="p",
            kind=self.kind,
            title="test",
            warn=self.warnings.append,
            references=self.references,
        )

    def value(self, text: str) -> Value | None:
        """The value of an expression."""
        expression = parse_expression(self.reader(text))
        return build_expression(expression, self.build)(self.view)

    def text(self, text: str) -> bytes | None:
        """The value of an expression as a log line would have it."""
        value = self.value(text)
        return None if value is None else to_text(value)

    def test(self, text: str) -> bool:
        """The result of an ACL."""
        condition = self.reader(f"if {{ {text} }}").condition()
        assert condition is not None
        return build_condition(condition, self.build)(self.view)


class SampleJudge(Judge):
    """A haproxy that evaluates `expressions` and `acls` for every message; a context manager.

    With `response`, they stand in http-response rules. Raises RuntimeError when it does not start.
    """

    def __init__(
        self, expressions: Sequence[str], acls: Sequence[str] = (), *, response: bool = False
    ) -> None:
        self.expressions = tuple(expressions)
        self.acls = tuple(acls)
        self._response = response
        super().__init__()
        rules = "http-response" if response else "http-request"
        lines = [f"{rules} set-var(txn.v{i}) {text}" for i, text in enumerate(self.expressions)]
        lines += [
            f"{rules} set-var(txn.a{i}) bool(true) if {{ {text} }}"
            for i, text in enumerate(self.acls)
        ]
        if not response:
            lines.append("http-request return status 200")
        lines += [
            f'http-after-response set-header X-V{i} "<%[var(txn.v{i})]>"'
            f" if {{ var(txn.v{i}) -m found }}"
            for i in range(len(self.expressions))
        ]
        lines += [
            f"http-after-response set-header X-A{i} 1 if {{ var(txn.a{i}) -m found }}"
            for i in range(len(self.acls))
        ]
        self._origin = self._bound("origin.sock")
        self._origin.listen()
        rules_text = "\n".join("    " + line for line in lines)
        self._start(_CONFIG.format(dir=self._dir, rules=rules_text))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, value, traceback)
        self._origin.close()

    def ask(
        self, request: bytes, response: bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    ) -> tuple[list[bytes | None], list[bool]] | None:
        """Values and results for one message; None where haproxy refuses it."""
        with self._connect() as client:
            client.sendall(request)
            if self._response:
                server, _ = self._origin.accept()
                with server:
                    server.settimeout(5)
                    _read_head(server)
                    server.sendall(response)
                    head = _read_head(client)
            else:
                head = _read_head(client)
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        if head[9:12] == b"400" or head[9:12] == b"502":
            return None
        values = [fields.get(b"x-v%d" % i) for i in range(len(self.expressions))]
        results = [b"x-a%d" % i in fields for i in range(len(self.acls))]
        return [None if one is None else one[1:-1] for one in values], results


def _read_head(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            break
        data += more
    return data.partition(b"\r\n\r\n")[0]

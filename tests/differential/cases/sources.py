"""`source`: port ranges, interfaces and addresses of others (manual 4.2 and 5.2)."""

from __future__ import annotations

from tests.differential.case import Case, request

_ONE = "server s1 @ORIGIN@ source"
_NOT_OURS = "192.0.2.77"


def _seen(name: str, back: str, *requests: bytes, **more: object) -> Case:
    return Case(name, back=back, requests=requests or (request(),), **more)  # type: ignore[arg-type]


def _foreign(name: str, words: str, *requests: bytes) -> Case:
    return _seen(name, f"source 0.0.0.0 usesrc {words}\nretries 0", *requests)


CASES = [
    _seen("not ours, no retries", f"source {_NOT_OURS}\nretries 0"),
    _seen("not ours, retried at once", f"source {_NOT_OURS}\nretries 3"),
    _seen(
        "not ours, another server",
        f"balance first\noption redispatch\nretries 3\n{_ONE} {_NOT_OURS}\nserver s2 @ORIGIN@",
    ),
    _seen("an interface that is none", "source 127.0.0.1 interface nosuch0"),
    _seen("an interface", "source 127.0.0.1 interface lo"),
    _foreign("an address", "127.0.0.77"),
    _foreign("the client's address", "clientip", request(), request("/2")),
    _foreign("a header", "hdr_ip(x-f)", request("/", "x-f: 127.0.0.41, 127.0.0.42")),
    _foreign("a header's first", "hdr_ip(x-f,1)", request("/", "x-f: 127.0.0.41, 127.0.0.42")),
    _foreign("a header that is missing", "hdr_ip(x-f)"),
    _foreign("a header's place that is missing", "hdr_ip(x-f,3)", request("/", "x-f: 1.2.3.4")),
    _foreign("a header's place 0", "hdr_ip(x-f,0)", request("/", "x-f: 127.0.0.41")),
    _foreign("a header without an address", "hdr_ip(x-f)", request("/", "x-f: nobody")),
]

"""Fetches of raw bytes give what a real HAProxy gives for the same bytes."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtproxy.base.errors import ConfigError
from mtproxy.base.settings import GlobalSettings, Settings
from mtproxy.rules.points import TCP_CONTENT, TCP_RESPONSE
from mtproxy.rules.types import Value
from mtproxy.testing.haproxy_judge import find_haproxy
from mtproxy.testing.samples import Samples
from mtproxy.testing.tcpsamples import ByteJudge

needs_haproxy = pytest.mark.skipif(find_haproxy() is None, reason="haproxy is not installed")

EXPRESSIONS = [
    "req.len", "req_len", "req.payload(0,2)", "req.payload(0,0)", "req.payload(1,0)",
    "payload(3,3)",
    "req.payload(0,16384)", "req.payload(1,16384)",
    "req.payload_lv(0,1)", "req.payload_lv(0,2)", "req.payload_lv(0,1,+2)",
    "req.payload_lv(2,1,-2)", "req.payload_lv(0,1,0)", "req.payload_lv(0,4)",
    "req.rdp_cookie", "req.rdp_cookie(mstshash)", "rdp_cookie(MSTS)", "req.rdp_cookie()",
    "req.rdp_cookie_cnt", "rdp_cookie_cnt(msts)",
    "req.ssl_hello_type", "req_ssl_hello_type", "req.ssl_ver", "req_ssl_ver", "req.ssl_sni",
    "req_ssl_sni", "req.ssl_alpn", "req.ssl_ec_ext", "req.ssl_st_ext",
    "distcc_param(DIST)", "distcc_param(ARGV)", "distcc_param(ARGV,2)", "distcc_param(ARGV,0)",
    "distcc_body(ARGV)", "distcc_body(ARGV,2)", "distcc_param(DOTI)", "distcc_body(DOTI)",
    "distcc_body(ARGC)", "wait_end", "req.proto_http", "path", "hdr(host)",
]  # fmt: skip


def client_hello(**options: object) -> bytes:
    """What Python's own TLS client says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if "alpn" in options:
        context.set_alpn_protocols(options["alpn"])  # type: ignore[arg-type]
    if "version" in options:
        context.maximum_version = options["version"]  # type: ignore[assignment]
    outgoing = ssl.MemoryBIO()
    name = options.get("name")
    assert name is None or isinstance(name, str)
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


HELLO = client_hello(name="www.example.com", alpn=["h2", "http/1.1"])
HELLOS = [
    HELLO,
    client_hello(),
    client_hello(name="a.b"),
    client_hello(name="x", version=ssl.TLSVersion.TLSv1_2, alpn=["acme-tls/1"]),
]


def patched(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def hello_with(extensions: bytes, session: bytes = b"") -> bytes:
    """A hand-made ClientHello."""
    body = b"\3\3" + bytes(32) + bytes([len(session)]) + session + b"\0\2\x13\x01\1\0"
    body += len(extensions).to_bytes(2) + extensions
    message = b"\1" + len(body).to_bytes(3) + body
    return b"\x16\3\1" + len(message).to_bytes(2) + message


def extension(kind: int, content: bytes) -> bytes:
    return kind.to_bytes(2) + len(content).to_bytes(2) + content


RDP = b"\3\0\0\x2a\x25\xe0\0\0\0\0\0"
MESSAGES = [
    b"", b"a", b"ab", b"abcdef", b"x" * 200,
    b"\2abc", b"\0\3abcdef", b"\3", b"\0\0\0\0abc", b"\1\2\3\4\5\6\7\x08", b"\xff" * 20,
    b"\0\0\0\4abcd", b"a\2b\2cdef", b"\1a\1b\1c",
    RDP + b"Cookie: mstshash=user\r\n\1\0\x08\0", RDP + b"Cookie:msts=1.2.3\r\nrest",
    RDP + b"Cookie: MSTS=1.2.3\r\n", RDP + b"cookie:   mstshash=a b\r\n", RDP + b"Cookie: x=\r\n",
    RDP + b"Cookie: mstshash=user\r", RDP + b"Cookie: mstshash=user\rx", RDP + b"Cookie: mst",
    RDP + b"Cookie: nothing\r\n", RDP + b"Cookie", RDP + b"Cooked: a=b\r\n", RDP + b"Cookie:",
    RDP + b"Cookie: a=b=c\r\n", RDP + b"Cookie: a=b\nc=d\r\n", RDP + b"Cookie: =v\r\n", RDP,
    RDP + b"Cookie: mstshash", RDP + b"Cookie: mstshash=", RDP + b"Cookie: msts=\r\n",
    b"DIST00000001ARGC00000002ARGV00000002ccARGV00000003-oxDOTI00000004abcdDONE00000000",
    b"DIST00000001ARGC00000002ARGV00000002cc", b"DIST00000001ARGV00000002c", b"DIST0000000",
    b"DIST0000000xARGV00000002cc", b"NFIL00000005STAT00000001DOTI0000000aab", b"DISTxxxxxxxx",
    b"DOTI00000000ARGC00000009ARGC00000001", b"dist00000001", b"DIST0000001AARGV00000001x",
    *HELLOS, HELLO + b"more", HELLO[:-1], HELLO[:4], HELLO[:9], HELLO[:60], b"\x16\3\1",
    b"\x16\3", b"\x16", b"\x15\3\1\0\2\1\0", b"\x17\3\3\0\4abcd", b"\x16\2\0\0\4abcdefgh",
    patched(HELLO, 1, b"\3\0"), patched(HELLO, 1, b"\2\1"), patched(HELLO, 5, b"\2"),
    patched(HELLO, 9, b"\3\0"), patched(HELLO, 9, b"\2\3"), patched(HELLO, 43, b"\x21"),
    patched(HELLO, 3, b"\0\x20"), patched(HELLO, 6, b"\0\0\x10"), patched(HELLO, 43, b"\xff"),
    hello_with(b""), hello_with(extension(35, b"")), hello_with(extension(35, b"ticket")),
    hello_with(extension(10, b"\0\2\0\x17"), b"s" * 32), hello_with(extension(16, b"\0\3\2h2")),
    hello_with(extension(0, b"\0\6\0\0\3abc")), hello_with(extension(0, b"\0\6\1\0\3abc")),
    hello_with(extension(0, b"\0\2\0\0")), hello_with(extension(0, b"\0\x20\0\0\3abc")),
    hello_with(extension(0, b"")), hello_with(extension(16, b"\0\1")), hello_with(b"\0\0\0\x50ab"),
    hello_with(extension(5, b"x") + extension(0, b"\0\6\0\0\3abc") + extension(35, b"")),
    hello_with(extension(16, b"\0\x0c\2h2\x08http/1.1")), hello_with(b"\0\0\0"),
    b"\x80\x2e\1\3\1\0\x15\0\0\0\x10" + bytes(21 + 16), b"\x80\x2e\1\3\1\0\x15\0\0\0\x10",
    b"\x80\x2e\1\0\2\0\x15\0\0\0\x10" + bytes(37),
    b"\x80\x2e\2\3\1\0\x15\0\0\0\x10" + bytes(37),
    b"\x80\x2e", b"\x80\x2d\1\3\1\0\x15\0\0\0\x10" + bytes(37),
    b"\0\x2e\0\1\3\1\0\x15\0\0\0\x10" + bytes(37),
    b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n", b"GET /x HTTP/1.1\r\nHost: h\r\n", b"GET /x\r\n\r\n",
    b"POST /y HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", b"HELO x\r\n\r\n",
]  # fmt: skip


#: where HAProxy 2.6 is not followed
OURS: dict[tuple[str, bytes], bytes | None] = {
    # it depends on when HAProxy allocates its buffer
    ("req.payload(0,0)", b""): b"",
    # HAProxy gives what was in its buffer before
    ("distcc_body(ARGV)", b"DIST00000001ARGV00000002c"): None,
    ("distcc_body(DOTI)", b"NFIL00000005STAT00000001DOTI0000000aab"): None,
    # HAProxy starts when the last four bytes are still missing
    ("req.ssl_sni", HELLO[:-1]): None,
    ("req_ssl_sni", HELLO[:-1]): None,
    ("req.ssl_alpn", HELLO[:-1]): None,
    ("req.ssl_ec_ext", HELLO[:-1]): None,
    ("req.ssl_st_ext", HELLO[:-1]): None,
    # HTTP/0.9
    ("req.proto_http", b"GET /x\r\n\r\n"): None,
    ("path", b"GET /x\r\n\r\n"): None,
}


def samples() -> Samples:
    made = Samples(TCP_CONTENT)
    made.build.shared = SimpleNamespace(patterns=None, settings=Settings(GlobalSettings(), ()))
    return made


def looking_at(data: bytes, *, final: bool) -> Samples:
    made = samples()
    made.view.txn.payload = data
    made.view.txn.payload_final = final
    return made


def as_judged(value: Value | None) -> bytes | None:
    """A value in the form in which the judge gives it."""
    if value is None or isinstance(value, bytes):
        return value
    return int(value).to_bytes(8, signed=True)


@pytest.fixture(scope="module")
def judge() -> Iterator[ByteJudge]:
    with ByteJudge(EXPRESSIONS) as judge:
        yield judge


@needs_haproxy
@pytest.mark.parametrize("number", range(len(MESSAGES)))
def test_final_bytes(number: int, judge: ByteJudge) -> None:
    message = MESSAGES[number]
    mine = looking_at(message, final=True)
    theirs = dict(zip(EXPRESSIONS, judge.ask(message), strict=True))
    for text in EXPRESSIONS:
        if (text, message) not in OURS:
            assert (text, as_judged(mine.value(text))) == (text, theirs[text])


# a ClientHello is another one each time: names of tests must not depend on it
@pytest.mark.parametrize(("text", "message"), list(OURS), ids=range(len(OURS)))
def test_where_we_are_not_haproxy(text: str, message: bytes) -> None:
    assert as_judged(looking_at(message, final=True).value(text)) == OURS[text, message]


# --- what is not there yet

WAITING = [
    (HELLO, ["req.ssl_sni", "req.ssl_alpn", "req.ssl_hello_type", "req.ssl_ver", "req.ssl_st_ext"]),
    (RDP + b"Cookie: mstshash=user\r\n", ["req.rdp_cookie(mstshash)", "rdp_cookie_cnt"]),
    (b"\0\3abc", ["req.payload_lv(0,2)", "req.payload(0,5)"]),
    (b"DIST00000001ARGV00000002cc", ["distcc_body(ARGV)"]),
    (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", ["path", "req.proto_http"]),
]


@pytest.mark.parametrize(
    ("message", "text"),
    [pytest.param(message, text, id=text) for message, texts in WAITING for text in texts],
)
def test_every_beginning_may_become_more(message: bytes, text: str) -> None:
    whole = looking_at(message, final=False)
    assert whole.value(text) is not None
    assert not whole.view.may_change
    for length in range(len(message)):
        part = looking_at(message[:length], final=False)
        assert part.value(text) is None
        assert part.view.may_change, length
        last = looking_at(message[:length], final=True)
        assert last.value(text) is None
        assert not last.view.may_change


@given(st.binary(max_size=80), st.integers(0, 600), st.integers(0, 255))
def test_any_bytes_are_taken(tail: bytes, at: int, byte: int) -> None:
    """Whatever a client sends, a fetch gives a value or none."""
    for message in (tail, patched(HELLO, at % len(HELLO), bytes([byte])), HELLO[:at] + tail):
        made = looking_at(message, final=False)
        for text in EXPRESSIONS:
            made.value(text)


@pytest.mark.parametrize(
    ("text", "value"), [("req.len", 3), ("req.payload(0,0)", b"abc"), ("req.payload(1,0)", b"bc")]
)
def test_values_that_may_still_grow(text: str, value: Value) -> None:
    made = looking_at(b"abc", final=False)
    assert made.value(text) == value
    assert made.view.may_change


def test_an_absolute_offset_is_absolute() -> None:
    """HAProxy 2.6 takes half of it, or counts half of an odd one from the length's end."""
    assert looking_at(b"\0\3abcdef", final=True).value("payload_lv(1,1,4)") == b"cde"


def test_responses() -> None:
    made = samples()
    made.point = TCP_RESPONSE
    made.view.txn.payload = b"request"
    made.view.txn.res_payload = b"\x16\3\3\0\4\2\0\0\0"
    made.view.txn.looking_back = True
    assert made.value("res.len") == 9
    assert made.value("res.payload(0,2)") == b"\x16\3"
    assert made.value("payload(1,1)") == b"\3"
    assert made.value("res.ssl_hello_type") == 2
    assert made.value("rep_ssl_hello_type") == 2
    assert made.value("res.payload_lv(4,1)") == b"\2\0\0\0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("req.payload(0)", "missing arguments"),
        ("req.payload(a,1)", "'a'"),
        ("req.payload_lv(0,0)", "payload length must be > 0"),
        ("req.payload_lv(0,1,x)", "payload offset2 is not a number"),
        ("req.payload_lv(1,1,-3)", "too negative"),
        ("req.payload_lv(-1,1)", "must not be negative"),
        ("distcc_param(DO)", "token name must be exactly 4 characters"),
        ("distcc_param", "token name must be exactly 4 characters"),
        ("ssl_fc_sni", "TLS"),
        ("res.len", "response buffer"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        samples().value(text)

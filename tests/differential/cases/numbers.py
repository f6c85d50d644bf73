"""Converters of numbers, addresses and times, hashes and digests: the manual's section 7.3.1."""

from __future__ import annotations

# fmt: off
from tests.differential.case import expr, request, typed

_MAX = 9223372036854775807
_BEFORE = (
    "http-request set-var(txn.n) int(7)\nhttp-request set-var(txn.s) str(5)\n"
    "http-request set-var(txn.x) str(abc)"
)

_INTEGERS = [
    "int(5),add(3)", "int(5),sub(9)", "int(-5),sub(9)", "int(-5),add(-9)", "int(-5),add(9)", "int(-9),add(5)", "int(9),sub(-5)", "int(-9),sub(-5)", "int(5),mul(-2)", "int(7),div(2)", "int(-7),div(2)",
    "int(7),div(0)", "int(7),mod(4)", "int(-7),mod(4)", "int(7),mod(0)", "int(7),neg", "int(-7),neg",
    "int(0),neg", "int(7),cpl", "int(0),cpl", "int(6),and(3)", "int(6),or(3)", "int(6),xor(3)",
    "int(-1),and(255)", "int(3),even", "int(3),odd", "int(0),even", "int(-3),odd", "int(3),not",
    "int(0),not", "int(3),bool", "int(-1),bool", "bool(true),not", "bool(false),not",
    f"int({_MAX}),add(1)", f"int({_MAX}),mul(2)", f"int(-{_MAX}),sub(10)", f"int({_MAX}),neg",
    "int(5),add(txn.n)", "int(5),mul(txn.s)", "int(5),add(txn.x)", "int(5),add(txn.unset)",
    "int(5),sub(txn.n)", "int(50),div(txn.n)", "int(50),mod(txn.n)", "int(5),and(txn.n)",
    "int(8),or(txn.n)", "int(5),xor(txn.n)", "int(5),add(0x10)", "int(010)", "int(0x1f)", "int(-0)",
    "str(12abc),add(1)", "str(abc),add(1)", "str(),add(1)", "str(-5),add(1)", "str(+5),add(1)",
    "str( 5),add(1)", "str(99999999999999999999),add(1)", "str(0x10),add(1)", "bool(true),add(1)",
    "int(255),hex", "int(-1),hex", "int(65),htonl,hex", "int(1),htonl,length", "int(258),htonl",
    "int(0),bool", "int(10),length", "int(-10),length", "int(10),concat(x)", "int(10),bytes(1)",
    "int(10),upper", "int(10),base64", "int(10),strcmp(txn.s)", "int(5),strcmp(txn.s)",
    "int(10),iif(a,b)", "bin(0001),add(1)", "bin(3131),add(1)", "ipv4(0.0.0.5),add(1)",
    "ipv4(1.2.3.4),hex", "ipv6(::1),hex", "ipv4(1.2.3.4),length", "ipv6(::1),length",
]

_ADDRESSES = [
    "ipv4(192.168.1.77),ipmask(24)", "ipv4(192.168.1.77),ipmask(255.255.0.0)",
    "ipv4(192.168.1.77),ipmask(0)", "ipv4(192.168.1.77),ipmask(32)",
    "ipv6(2001:db8:1:2:3:4:5:6),ipmask(24,64)", "ipv6(2001:db8:1:2:3:4:5:6),ipmask(24)",
    "ipv6(2001:db8::1),ipmask(24,32)", "ipv6(::ffff:1.2.3.4)", "ipv6(2001:DB8::0001)",
    "ipv6(1:0:0:2::)", "str(1.2.3.4),ipmask(8)", "str(1.2.3),ipmask(8)", "str(2001:db8::1),ipmask(8,16)",
    "str(::1),ipmask(8)", "str(nothing),ipmask(8)", "str(1.2.3.4.5),ipmask(8)", "str( 1.2.3.4),ipmask(8)",
    "src,ipmask(8)", "src,ipmask(24),concat(/24)", "src,hex", "src,length", "ipv6(::ffff:1.2.3.4),ipmask(8)",
    "src,lower", "ipv4(10.0.0.1),concat(:,txn.n)",
]

_HASHES = [
    "crc32", "crc32(1)", "crc32c", "crc32c(1)", "djb2", "djb2(1)", "sdbm", "sdbm(1)", "wt6", "wt6(1)",
    "xxh32", "xxh32(5)", "xxh64", "xxh64(5)", "xxh3", "xxh3(5)",
]
_DIGESTS = [
    "sha1,hex", "sha2,hex", "sha2(224),hex", "sha2(256),hex", "sha2(384),hex", "sha2(512),hex",
    "digest(sha1),hex", "digest(sha256),base64", "digest(md5),hex", "digest(sha512),length",
    "hmac(sha256,a2V5),hex", "hmac(sha1,a2V5),hex", "hmac(md5,a2V5),base64", "sha1,base64",
]

_BINARY = [
    "bin(01020304050607),be2dec(:,2)", "bin(01020304050607),be2dec(-,2,1)", "bin(01020304050607),be2dec(.,8)",
    "bin(01020304050607),be2dec(,3)", "bin(0102030405060708),be2dec(,4)",         "bin(01020304050607),be2hex", "bin(01020304050607),be2hex(:,2)", "bin(01020304050607),be2hex(--,2,1)",
    "bin(0102030405060708),be2hex(,3,1)", "bin(01020304050607),be2hex(:,4)", "str(abc),be2hex(:,1)",
    "str(hello),sha1,be2hex(,8)", "bin(ff),be2dec(:,1)", "bin(00),be2hex",
    "bin(0102),bytes(1),hex", "bin(01020304),bytes(1,2),hex", "bin(aabb),hex,length", "bin(0a),url_enc",
]

_TIMES = [
    "int(0),http_date", "int(784111777),http_date", "int(784111777),http_date(60)",
    "int(784111777),http_date(-60)", "int(784111777123),http_date(0,ms)",
    "int(784111777123456),http_date(0,us)", "int(784111777),utime(%Y-%m-%d)", "int(784111777),utime(%H:%M:%S)",
    "int(784111777),utime(%a %b %j,3600)", "int(784111777),ltime(%Y-%m-%d %Z)", "int(784111777),ltime(%s)",
    "int(1700000000),utime(%Y%m%d%H%M%S)", "int(-1),utime(%Y)", "int(0),utime(plain)", "int(0),utime(%%)",
]

_TYPES = [
    "int(5),add(3)", "int(-7),cpl", "ipv4(1.2.3.4),ipmask(8)", "ipv6(::1),ipmask(8,64)", "str(abc),crc32",
    "int(1),htonl", "int(0),http_date", "bool(false)", "str(a),xxh64", "int(3),odd", "src", "src_port,bool",
    "bin(00ff)", "str(a),sha1",
]

_DATA = request("/some/path?x=1", "x-text: The quick brown fox")

CASES = [
    *(expr(text, before=_BEFORE) for text in _INTEGERS),
    *(expr(text, before=_BEFORE) for text in _ADDRESSES),
    *(expr(f"req.fhdr(x-text),{text}", _DATA) for text in _HASHES),
    *(expr(f"req.fhdr(x-text),{text}", _DATA) for text in _DIGESTS),
    *(expr(f"{source},{name}") for name in ("crc32", "djb2", "sdbm(1)", "wt6", "xxh32", "xxh64", "xxh3")
      for source in ("str()", "int(42)", "ipv4(1.2.3.4)", "bin(0001ff)", "str(a)")),
    *(expr(text) for text in _BINARY),
    *(expr(text) for text in _TIMES),
    *(typed(text) for text in _TYPES),
]

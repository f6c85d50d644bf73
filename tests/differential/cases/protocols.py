"""Converters that read other protocols: MQTT, FIX, Protocol Buffers, gRPC, JSON Web Tokens (7.3.1)."""

from __future__ import annotations

# fmt: off
from tests.differential.case import Case, expr


def _mqtt(*parts: bytes, kind: int = 0x10) -> str:
    body = b"".join(parts)
    return (bytes([kind, len(body)]) + body).hex()


def _text(text: str) -> bytes:
    return len(text).to_bytes(2) + text.encode()


#: CONNECT (OASIS MQTT 3.1.1 section 3.1, 5.0 section 3.1) and CONNACK (3.2)
_PACKETS = {
    "3.1": _mqtt(_text("MQIsdp"), b"\x03\xc2\x00\x08", _text("client"), _text("user"), _text("pass")),
    "3.1.1": _mqtt(_text("MQTT"), b"\x04\xee\x00\x3c", _text("id-1"), _text("will/topic"), _text("last words"), _text("me"), _text("secret")),
    "3.1.1 bare": _mqtt(_text("MQTT"), b"\x04\x02\x00\x3c", _text("")),
    "5": _mqtt(
        _text("MQTT"), b"\x05\xee\x00\x3c",
        b"\x14\x11\x00\x00\x00\x0a\x27\x00\x00\x00\x14\x21\x00\x20\x17\x01\x19\x01\x22\x00\x05", _text("id-5"),
        b"\x14\x02\x00\x00\x00\x07\x03" + _text("text/plain") + b"\x01\x01", _text("w"), _text("body"), _text("u5"), _text("p5")),
    "5 broken": _mqtt(_text("MQTT"), b"\x05\x02\x00\x3c", b"\x05\x99", _text("x")),
    "connack 3": _mqtt(b"\x01\x05", kind=0x20),
    "connack 5": _mqtt(b"\x00\x00", b"\x0c\x11\x00\x00\x00\x78\x21\x7f\xff\x24\x01\x25\x01", kind=0x20),
    "bad protocol": _mqtt(_text("MQTX"), b"\x04\x02\x00\x3c", _text("a")),
    "bad flags": _mqtt(_text("MQTT"), b"\x04\x03\x00\x3c", _text("a")),
    "short": _mqtt(_text("MQTT"), b"\x04\x02\x00\x3c", _text("abc"))[:-2],
    "other": _mqtt(b"\x00\x01", kind=0x30),
}
_CONNECT = ["flags", "protocol_name", "protocol_version", "client_identifier", "will_topic", "will_payload", "username", "password", "17", "39", "33", "23", "25", "34", "2", "24", "3", "1"]
_CONNACK = ["flags", "protocol_version", "reason_code", "17", "33", "36", "37", "39"]

_SOH = "\x01"


def _fix(*fields: str) -> str:
    return "".join(field + _SOH for field in fields).encode().hex()


_LOGON = ["35=A", "34=1", "49=EXECUTOR", "52=20201029-10:54:19", "56=CLIENT1", "98=0", "108=30"]


def _signed(begin: str, fields: list[str], *, length: int | None = None, checksum: int | None = None) -> str:
    body = "".join(field + _SOH for field in fields)
    head = f"8={begin}{_SOH}9={len(body) if length is None else length}{_SOH}"
    total = sum((head + body).encode()) % 256 if checksum is None else checksum
    return f"{head}{body}10={total:03}{_SOH}".encode().hex()


_MESSAGES = {
    "4.2": _signed("FIX.4.2", _LOGON), "4.4": _signed("FIX.4.4", _LOGON), "5.0": _signed("FIXT.1.1", _LOGON), "wrong length": _signed("FIX.4.2", _LOGON, length=5),
    "wrong sum": _signed("FIX.4.2", _LOGON, checksum=1), "no type": _signed("FIX.4.2", _LOGON[1:]), "no version": _fix("9=5", "35=A"), "version": _signed("FIX.3.9", _LOGON),
    "empty tag": _signed("FIX.4.2", [*_LOGON, "=x"]), "empty value": _signed("FIX.4.2", [*_LOGON, "141="]), "nothing": "00",
}
_TAGS = ["BeginString", "BodyLength", "MsgType", "SenderCompID", "TargetCompID", "CheckSum", "35", "49", "108", "999"]

#: field 1: varint 150; 2: "testing"; 3: message with field 1 = 7; 4: fixed32; 5: fixed64; 6: double; 7: sint
_PROTO = "0896011207746573746967" + "6e"[:0]
_PROTO = bytes([0x08, 0x96, 0x01, 0x12, 7, *b"testing", 0x1A, 2, 0x08, 7, 0x25, 1, 2, 3, 4, 0x29, 1, 2, 3, 4, 5, 6, 7, 8, 0x38, 0x05]).hex()
_GRPC = "00" + len(bytes.fromhex(_PROTO)).to_bytes(4).hex() + _PROTO
_FIELDS = ["1", "1,int32", "1,uint64", "1,sint32", "1,bool", "2", "2,string", "2,bytes", "3.1", "3.1,int32", "3", "4,fixed32", "4,sfixed32", "5,fixed64", "5,sfixed64", "7,sint32", "7,sint64", "9", "3.2,int32", "1,string"]

_TOKEN = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0IiwibiI6NX0.x"

CASES: list[Case] = [
    *(expr(f"bin({data}),mqtt_is_valid", name=f"mqtt {name} is valid") for name, data in _PACKETS.items()),
    *(expr(f"bin({_PACKETS[name]}),mqtt_field_value(connect,{field})", name=f"mqtt {name} connect {field}") for name in ("3.1", "3.1.1", "5", "connack 5") for field in _CONNECT),
    *(expr(f"bin({_PACKETS[name]}),mqtt_field_value(connack,{field})", name=f"mqtt {name} connack {field}") for name in ("connack 3", "connack 5", "5") for field in _CONNACK),
    *(expr(f"bin({data}),fix_is_valid", name=f"fix {name} is valid") for name, data in _MESSAGES.items()),
    *(expr(f"bin({_MESSAGES[name]}),fix_tag_value({tag})", name=f"fix {name} {tag}") for name in ("4.2", "wrong length", "no type") for tag in _TAGS),
    *(expr(f"bin({_PROTO}),protobuf({field})", name=f"protobuf {field}") for field in _FIELDS),
    *(expr(f"bin({_PROTO}),protobuf({field}),hex", name=f"protobuf {field} in hex") for field in ("1", "2", "3", "4,fixed32")),
    *(expr(f"bin({_GRPC}),ungrpc({field})", name=f"ungrpc {field}") for field in ("1,int32", "2,string", "3.1,int32", "9")),
    expr(f"bin({_GRPC[:8]}),ungrpc(1,int32)", name="ungrpc of a short message"),
    *(expr(f"str({_TOKEN}),{query}", name=f"jwt {query}") for query in (
        "jwt_header_query", "jwt_header_query('$.alg')", "jwt_header_query('$.none')", "jwt_payload_query", "jwt_payload_query('$.sub')",
        "jwt_payload_query('$.n',int)", "jwt_payload_query('$.n')")),
    *(expr(f"str({text}),{query}", name=f"jwt {text} {query}") for text in ("a", "a.b", "a.b.c", "e30.e30.", "..") for query in ("jwt_header_query", "jwt_payload_query('$.a')")),
]

"""JSON and CBOR: as HAProxy 3.0's manual describes them, and as other decoders read them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mtproxy.rules.logformat import encoded, strings
from mtproxy.testing.logrecord import BADREQ, FakeRecord
from tests.unit.rules.logformat.test_strings import made


def line(text: str, **changes: Any) -> str:
    return made(text, FakeRecord(**changes), flags=strings.LINE, merge=True).decode()


def test_everything_with_a_name_is_in_the_object():
    custom = "str('a\"\\b')"
    got = line("%{+json}o %(request)r text %b %(custom)[" + custom + "] %(status)ST %(x:str)B")
    assert got == (
        '{"request": "GET /slow?x=1 HTTP/1.1", "custom": "a\\"\\\\b", "status": 200, "x": "127"}'
    )


def test_types_in_json():
    got = json.loads(
        line(
            "%{+json}o %(i)[int(-5)] %(b)[bool(true)] %(n)[str()] %(s:sint)[str(12)]"
            " %(t:bool)[int(3)] %(u:str)[int(3)] %(d)T %(rc)rc %(ip)ci %(port)cp %(ts)tsc",
            redispatched=True,
            retries=3,
        )
    )
    assert got == {
        "i": -5,
        "b": True,
        "n": "",
        "s": 12,
        "t": True,
        "u": "3",
        "d": "30/Nov/2026:13:57:10 +0000",
        "rc": 3,
        "ip": "127.0.0.1",
        "port": 44768,
        "ts": "----",
    }


def test_what_is_missing_is_an_empty_text():
    assert json.loads(
        line("%{+json}o %(a)CC %(b)si %(c)sp %(d)ID", **BADREQ | {"unique_id": ""})
    ) == {
        "a": "",
        "b": "",
        "c": "",
        "d": "",
    }


def test_any_bytes_give_valid_json():
    got = line("%{+json}o %(a)[str(\x01\n\udcff)]")
    assert json.loads(got) == {"a": "\x01\n\ufffd"}


def test_a_single_value():
    assert line("x=%{+json}ST y=%{+json}[str('a\"b')] %{+json}b %s") == 'x=200 y="a\\"b" "be" s1'


def test_cbor_of_the_manual():
    # a map of unknown size with one pair of texts
    assert line("%{+cbor}o %(test)[str(ok)]") == "BF6474657374626F6BFF"
    assert line("%{+cbor}o %(a)[bool(true)] %(b)[int(-500)]") == "BF6161F561623901F3FF"


def test_binary_data():
    assert line("%{+cbor}o %(a)[bin(00aabb)]") == "BF616166303041414242FF"
    raw = made("%{+cbor,+bin}o %(a)[bin(00aabb)]", FakeRecord(), flags=strings.LINE)
    assert raw == bytes.fromhex("BF61614300AABBFF")


@pytest.mark.parametrize(
    ("value", "data"),
    [
        # RFC 8949 appendix A
        (0, "00"),
        (23, "17"),
        (24, "1818"),
        (100, "1864"),
        (1000, "1903e8"),
        (1000000, "1a000f4240"),
        (1000000000000, "1b000000e8d4a51000"),
        (-1, "20"),
        (-1000, "3903e7"),
        (False, "f4"),
        (True, "f5"),
        ("", "60"),
        ("IETF", "6449455446"),
        ("ü", "62c3bc"),
        (b"\1\2\3\4", "4401020304"),
        (None, "60"),
    ],
)
def test_cbor_values(value: Any, data: str):
    assert encoded.cbor_bytes(value).hex() == data


def test_one_encoding_is_not_replaced_by_another():
    assert line("%{+json,+cbor}o %(a)ST") == '{"a": 200}'

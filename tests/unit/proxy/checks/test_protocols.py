"""Answers of MySQL, LDAP and SPOP servers: right, wrong, in pieces, and any bytes at all."""

from __future__ import annotations

import random

import pytest

from mtproxy.proxy.checks.protocols import EXAMINERS, Finding
from mtproxy.proxy.checkstatus import CheckStatus

GREETING = bytes.fromhex("0c0000000a382e302e313900 0a000000")
LDAP = bytes.fromhex("300c02010161070a010004000400")
LDAP_LONG = bytes.fromhex("308400000010020101 6184000000070a010004000400")
SPOP = bytes.fromhex(
    "00000036 65 00000001 0000 0776657273696F6E 0803322E30"
    "0E6D61782D6672616D652D73697A65 03FCF006 0C6361706162696C6974696573 0800"
)
GOOD = [
    ("mysql-greeting", GREETING, b"8.0.19"),
    ("mysql-ok", GREETING + bytes.fromhex("07000002000000 02000000"), b"8.0.19"),
    ("ldap-bind", LDAP, b"Success"),
    ("ldap-bind", LDAP_LONG, b"Success"),
    ("spop-hello", SPOP, b"SPOA server is ok"),
]


@pytest.mark.parametrize(("name", "data", "info"), GOOD)
def test_the_whole_answer_and_every_beginning(name: str, data: bytes, info: bytes) -> None:
    look = EXAMINERS[name]
    assert look(data, False) == Finding(info=info)
    for size in range(1, len(data)):
        assert look(data[:size], False) is None, "it decides before it can know"
        cut = look(data[:size], True)
        assert cut is not None
        assert cut.status is CheckStatus.L7RSP


@pytest.mark.parametrize("name", sorted(EXAMINERS))
def test_any_bytes_have_an_outcome(name: str) -> None:
    look = EXAMINERS[name]
    good = [data for one, data, _ in GOOD if one == name]
    rng = random.Random(7)
    for number in range(3000):
        data = bytearray(rng.choice(good))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if number % 2:
            data = data[: rng.randrange(1, len(data) + 1)]
        found = look(bytes(data), True)
        assert isinstance(found, Finding), bytes(data).hex()


def spop(*items: bytes, kind: int = 101, flags: int = 1, ids: bytes = b"\0\0") -> bytes:
    frame = bytes([kind]) + flags.to_bytes(4) + ids + b"".join(items)
    return len(frame).to_bytes(4) + frame


VERSION = b"\x07version\x08\x032.0"
SIZE = b"\x0emax-frame-size\x03\xfc\xf0\x06"
CAPABILITIES = b"\x0ccapabilities\x08\x00"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (spop(VERSION, SIZE, CAPABILITIES), None),
        (spop(b"\x05other\x00", VERSION, SIZE, CAPABILITIES), None),
        (spop(SIZE, CAPABILITIES), b"version value not found"),
        (spop(VERSION, CAPABILITIES), b"max-frame-size value not found"),
        (spop(VERSION, SIZE), b"capabilities value not found"),
        (spop(VERSION.replace(b"2.0", b"1.0"), SIZE, CAPABILITIES), b"unsupported version"),
        (
            spop(VERSION, b"\x0emax-frame-size\x03\x10", CAPABILITIES),
            b"max-frame-size too big or too small",
        ),
        (spop(VERSION, SIZE, CAPABILITIES, flags=0), b"fragmentation not supported"),
        (spop(VERSION, SIZE, CAPABILITIES, ids=b"\1\0"), b"invalid frame received"),
        (spop(VERSION, SIZE, CAPABILITIES, kind=1), b"invalid frame received"),
        (spop(b"\x0bstatus-code\x03\x01", kind=102), b"I/O error"),
        (spop(b"\x0bstatus-code\x03\x63", kind=102), b"an unknown error occurred"),
        (spop(b"\x00"), b"invalid frame received"),
        (b"\0\0\0\0", b"invalid frame received"),
    ],
)
def test_frames_of_spop_agents(data: bytes, reason: bytes | None) -> None:
    found = EXAMINERS["spop-hello"](data, True)
    if reason is None:
        assert found == Finding(info=b"SPOA server is ok")
    else:
        assert found == Finding(CheckStatus.L7RSP, reason)


def test_a_mysql_error_has_a_number_and_a_text() -> None:
    packet = b"\xff\x15\x04Access denied"
    data = len(packet).to_bytes(3, "little") + b"\0" + packet
    found = EXAMINERS["mysql-greeting"](data, False)
    assert found == Finding(CheckStatus.L7STS, b"Access denied", 1045)

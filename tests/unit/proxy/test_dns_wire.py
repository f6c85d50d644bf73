"""What an answer comes to: HAProxy's judgement, and that nothing a name server sends does harm."""

from __future__ import annotations

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtproxy.proxy.dns.wire import AAAA, SRV, A, Outcome, fingerprint, question, read

NAME = "web.test"


def reply(*records: tuple[str, str, str], name: str = NAME, kind: str = "A", **more) -> bytes:
    """An answer with records (name, type, text)."""
    query = dns.message.from_wire(question(name, {"A": A, "AAAA": AAAA, "SRV": SRV}[kind], 4096))
    message = dns.message.make_response(query)
    for owner, record_kind, text in records:
        message.answer.append(
            dns.rrset.from_text(f"{owner}.", more.get("ttl", 5), "IN", record_kind, text)
        )
    message.set_rcode(more.get("rcode", dns.rcode.NOERROR))
    message.flags |= more.get("flags", 0)
    return message.to_wire()


def outcome(data: bytes, kind: int = A, payload: int = 4096) -> Outcome:
    return read(data, NAME, kind, payload).outcome


def test_addresses() -> None:
    data = reply((NAME, "A", "192.0.2.2"), (NAME, "A", "192.0.2.1"))
    answer = read(data, NAME, A, 4096)
    assert answer.outcome is Outcome.VALID
    assert [record.host for record in answer.records] == ["192.0.2.2", "192.0.2.1"]


def test_aliases_are_followed() -> None:
    data = reply(
        (NAME, "CNAME", "a.test."), ("a.test", "CNAME", "b.test."), ("b.test", "A", "192.0.2.9")
    )
    answer = read(data, NAME, A, 4096)
    assert [record.host for record in answer.records] == ["192.0.2.9"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (reply(rcode=dns.rcode.NXDOMAIN), Outcome.NX),
        (reply(rcode=dns.rcode.REFUSED), Outcome.REFUSED),
        (reply(rcode=dns.rcode.SERVFAIL), Outcome.OTHER),
        (reply(), Outcome.EMPTY),
        (reply((NAME, "A", "192.0.2.1"), flags=dns.flags.TC), Outcome.TRUNCATED),
        (reply(("other.test", "A", "192.0.2.1"), name="other.test"), Outcome.INVALID),
        (reply(("other.test", "A", "192.0.2.1")), Outcome.INVALID),
        (reply((NAME, "CNAME", "a.test.")), Outcome.CNAME_ERROR),
        (reply((NAME, "CNAME", "a.test."), ("b.test", "A", "192.0.2.1")), Outcome.CNAME_ERROR),
        (question(NAME, A, 512), Outcome.INVALID),
        (reply((NAME, "A", "192.0.2.1"))[:30], Outcome.INVALID),
        (b"", Outcome.INVALID),
    ],
)
def test_what_is_no_address(data: bytes, expected: Outcome) -> None:
    assert outcome(data) is expected


def test_more_records_than_could_fit() -> None:
    data = reply(*((NAME, "A", f"192.0.2.{i}") for i in range(100)))
    assert outcome(data, payload=512) is Outcome.INVALID
    assert outcome(data, payload=4096) is Outcome.VALID


def test_a_srv_answer_has_targets_and_what_came_with_them() -> None:
    name = "_http._tcp.test"
    message = dns.message.from_wire(
        reply((name, "SRV", "1 300 80 N1.test."), name=name, kind="SRV")
    )
    message.additional.append(dns.rrset.from_text("n1.test.", 5, "IN", "AAAA", "2001:db8:0::1"))
    answer = read(message.to_wire(), name, SRV, 4096)
    found = answer.records[0]
    assert (found.kind, found.host, found.port, found.weight) == (SRV, "n1.test", 80, 300)
    assert answer.additional == (("n1.test", AAAA, "2001:db8::1"),)


def test_names_that_loop_are_refused() -> None:
    data = bytearray(reply((NAME, "A", "192.0.2.1")))
    data[12:14] = b"\xc0\x0c"
    assert outcome(bytes(data)) is Outcome.INVALID


def test_a_name_that_is_none() -> None:
    for name in ("a" * 64 + ".test", "a..b", ".".join(["a" * 60] * 5)):
        with pytest.raises(ValueError, match=r".+"):
            question(name, A, 512)


def test_a_fingerprint_leaves_out_what_always_changes() -> None:
    one = reply((NAME, "A", "192.0.2.1"), ttl=5)
    later = b"\1\2" + reply((NAME, "A", "192.0.2.1"), ttl=3)[2:]
    other = reply((NAME, "A", "192.0.2.2"), ttl=5)
    assert fingerprint(one) == fingerprint(later) != fingerprint(other)
    assert fingerprint(one[:20]) is None


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(data: bytes) -> None:
    outcome(data)
    fingerprint(data)


@given(st.data())
def test_no_damage_does_harm(data: st.DataObject) -> None:
    """A true answer with some bytes changed is judged, and its fingerprint is another one unless
    only the number or a time to live has changed.
    """
    name = "_http._tcp.test"
    true = reply((name, "SRV", "1 300 80 n1.test."), name=name, kind="SRV")
    damaged = bytearray(true)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(2, len(true) - 1))] = data.draw(st.integers(0, 255))
    found = read(bytes(damaged), name, SRV, 4096)
    if fingerprint(bytes(damaged)) == fingerprint(true):
        assert found.records == read(true, name, SRV, 4096).records

"""DNS messages (RFC 1035, 2782, 6891): the questions that are sent, and what an answer comes to.

dnspython makes and reads them; here is what HAProxy makes of an answer, in its order: its code, how
much it announces, whose question it repeats, whether it was cut, and the records one by one.
Nothing here raises for what a name server may send. Pure functions: any thread.
"""

from __future__ import annotations

import socket
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from mtproxy.base.xxhash import xxh32

if TYPE_CHECKING:
    import dns.message
    import dns.name
    import dns.rdata

#: types of records (RFC 1035, 3596, 2782)
A, CNAME, AAAA, SRV = 1, 5, 28, 33
_IN = 1
#: bytes of the head of a message
HEADER_SIZE = 12
#: as HAProxy counts how many records may be announced: bytes of the shortest one
_SHORTEST_RECORD = 6
_NOERROR, _NXDOMAIN, _REFUSED = 0, 3, 5
_QR, _TC = 0x8000, 0x0200


class Outcome(Enum):
    """What an answer was; the values are the counters of `show resolvers` that count it."""

    VALID = "valid"
    INVALID = "invalid"
    NX = "nx"
    REFUSED = "refused"
    #: no record at all
    EMPTY = "any_err"
    CNAME_ERROR = "cname_error"
    TRUNCATED = "truncated"
    OTHER = "other"


class Found(NamedTuple):
    """A record of an answer.

    `kind` is A, AAAA or SRV. `host` is a literal address, or of SRV a name in lower case without
    its last dot; the numbers are those of SRV. `order` is the place among the records of a name.
    """

    kind: int
    host: str
    order: int
    port: int = 0
    weight: int = 0


class Answer(NamedTuple):
    """What a message says. `additional`: addresses of targets of SRV records, (name, A or AAAA,
    literal address).
    """

    outcome: Outcome
    records: tuple[Found, ...] = ()
    additional: tuple[tuple[str, int, str], ...] = ()


def question(name: str, kind: int, payload_size: int) -> bytes:
    """A question with the number 0, which the sender replaces (the first two bytes). EDNS says that
    answers of `payload_size` bytes are welcome. Raises ValueError for what is no name.
    """
    import dns.exception
    import dns.message
    import dns.rdatatype

    try:
        message = dns.message.make_query(
            name, dns.rdatatype.RdataType(kind), id=0, payload=payload_size, use_edns=0
        )
        return message.to_wire()
    except (dns.exception.DNSException, UnicodeError) as error:
        raise ValueError(str(error)) from None


def valid_name(name: str) -> bool:
    """Whether a name can be asked for."""
    import dns.exception
    import dns.name

    try:
        return len(dns.name.from_text(name).to_wire() or b"") <= 255
    except (dns.exception.DNSException, UnicodeError):
        return False


def read(data: bytes, name: str, kind: int, payload_size: int) -> Answer:
    """Read the answer to the question for `name` and `kind`, whose number was looked at already."""
    if len(data) < HEADER_SIZE:
        return Answer(Outcome.INVALID)
    flags = int.from_bytes(data[2:4])
    code = flags & 15
    if not flags & _QR:
        return Answer(Outcome.INVALID)
    if code != _NOERROR:
        known = {_NXDOMAIN: Outcome.NX, _REFUSED: Outcome.REFUSED}
        return Answer(known.get(code, Outcome.OTHER))
    if int.from_bytes(data[4:6]) != 1:
        return Answer(Outcome.INVALID)
    announced = int.from_bytes(data[6:8])
    if not announced:
        return Answer(Outcome.EMPTY)
    if announced > (payload_size - HEADER_SIZE) // _SHORTEST_RECORD:
        return Answer(Outcome.INVALID)
    return _read_records(data, name, kind, truncated=bool(flags & _TC))


def _read_records(data: bytes, name: str, kind: int, *, truncated: bool) -> Answer:
    import dns.exception
    import dns.message
    import dns.name

    try:
        # what was cut ends somewhere: no reason to call it malformed
        message = dns.message.from_wire(
            data, one_rr_per_rrset=True, ignore_trailing=True, continue_on_error=truncated
        )
        asked = message.question[0]
        if asked.name != dns.name.from_text(name):
            return Answer(Outcome.INVALID)
    except (dns.exception.DNSException, ValueError, IndexError):
        return Answer(Outcome.INVALID)
    if truncated and kind != SRV:
        return Answer(Outcome.TRUNCATED)
    records: list[Found] = []
    expected = asked.name
    outcome = Outcome.VALID
    last = len(message.answer) - 1
    for number, rrset in enumerate(message.answer):
        if kind != SRV and rrset.name != expected:
            # neither what was asked for nor what the last CNAME named
            outcome = Outcome.CNAME_ERROR if number else Outcome.INVALID
            break
        if rrset.rdclass != _IN:
            continue
        rdata = rrset[0]
        if rrset.rdtype == CNAME:
            if number == last:
                outcome = Outcome.CNAME_ERROR
                break
            expected = rdata.target
        elif (found := _found(rdata)) is not None:
            records.append(found)
    if outcome is not Outcome.VALID:
        return Answer(outcome)
    return Answer(Outcome.VALID, tuple(records), _additional(message) if kind == SRV else ())


def _found(rdata: dns.rdata.Rdata) -> Found | None:
    kind = int(rdata.rdtype)
    if kind == A:
        host: str = rdata.address  # type: ignore[attr-defined]
        return Found(kind, host, xxh32(socket.inet_aton(host), kind))
    if kind == AAAA:
        packed = socket.inet_pton(socket.AF_INET6, rdata.address)  # type: ignore[attr-defined]
        return Found(kind, socket.inet_ntop(socket.AF_INET6, packed), xxh32(packed, kind))
    if kind == SRV:
        target: dns.name.Name = rdata.target  # type: ignore[attr-defined]
        return Found(
            kind,
            _text(target),
            # as in the message, without the label that ends it
            xxh32((target.to_wire() or b"")[:-1], kind),
            rdata.port,  # type: ignore[attr-defined]
            rdata.weight,  # type: ignore[attr-defined]
        )
    return None


def _additional(message: dns.message.Message) -> tuple[tuple[str, int, str], ...]:
    result = []
    for rrset in message.additional:
        if rrset.rdclass == _IN and rrset.rdtype in (A, AAAA):
            found = _found(rrset[0])
            if found is not None:
                result.append((_text(rrset.name), found.kind, found.host))
    return tuple(result)


def _text(name: dns.name.Name) -> str:
    return name.to_text(omit_final_dot=True).lower()


def fingerprint(data: bytes) -> bytes | None:
    """A message without its number and its times to live, which change while nothing else does;
    None for what cannot be followed. Much cheaper than `read`, which judges.
    """
    size = len(data)
    if size < HEADER_SIZE:
        return None
    parts = []
    begin = 2
    at = HEADER_SIZE
    questions = int.from_bytes(data[4:6])
    records = sum(int.from_bytes(data[i : i + 2]) for i in (6, 8, 10))
    for number in range(questions + records):
        while at < size and (length := data[at]):
            if length >= 0xC0:
                at += 1
                break
            at += length + 1
        at += 1
        if number < questions:
            at += 4
        else:
            if at + 10 > size:
                return None
            parts.append(data[begin : at + 4])
            begin = at + 8
            at += 10 + int.from_bytes(data[at + 8 : at + 10])
        if at > size:
            return None
    parts.append(data[begin:])
    return b"".join(parts)

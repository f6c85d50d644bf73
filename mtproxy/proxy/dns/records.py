"""What is known of a name: Resolution, its records, and who wants to know.

A record is kept as long as answers have it, and `hold obsolete` longer. A server that has taken an
address stays with its record; as long as that is there, answers do not move it. Records stand in
HAProxy's order (by the hash of what they say), so that servers get the addresses that they would
get there. Owned by the section's thread.
"""

from __future__ import annotations

from bisect import insort
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from mtproxy.proxy.dns.wire import SRV, Answer, Found

if TYPE_CHECKING:
    from mtproxy.proxy.dns.channel import Counters
    from mtproxy.sched.context import ThreadContext


class Status(Enum):
    """How the last look-up of a name ended."""

    NONE = "none"
    VALID = "valid"
    INVALID = "invalid"
    NX = "nx"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    OTHER = "other"


class Requester(Protocol):
    """Who wants to know a name. Called on the section's thread, without any lock held."""

    def succeeded(self, ctx: ThreadContext, counters: Counters | None, updater: str) -> None:
        """There is a valid answer. `counters` are those of the name server that gave it, None where
        another requester has had it before; `updater` is what messages call the source.
        """

    def failed(self, ctx: ThreadContext) -> bool:
        """The look-up has failed for now (`Resolution.status`). Whether records must be kept."""


class Record:
    """An address of a name, or a target of its SRV record."""

    __slots__ = ("extra", "extra_seen", "found", "last_seen", "users")

    def __init__(self, found: Found, now: int) -> None:
        self.found = found
        self.last_seen = now
        #: the address of a SRV target that came with it: (A or AAAA, literal)
        self.extra: tuple[int, str] | None = None
        self.extra_seen = now
        #: who has this address, or stands for this target
        self.users: dict[object, None] = {}

    @property
    def key(self) -> tuple[int, str, int]:
        return self.found.kind, self.found.host, self.found.port


class Resolution:
    """A name and a type of record that somebody wants to know. See the module and `section`."""

    __slots__ = (
        "answered",
        "asked",
        "by_key",
        "kind",
        "last_query",
        "last_resolution",
        "last_valid",
        "latest",
        "name",
        "number",
        "preferred",
        "records",
        "requesters",
        "running",
        "seen",
        "settled",
        "status",
        "tries",
        "wires",
    )

    def __init__(self, name: str, kind: int, now: int) -> None:
        self.name = name
        #: the type that is asked for first; of an address the other family comes next
        self.preferred = kind
        #: the type that is asked for now
        self.kind = kind
        self.status = Status.NONE
        self.running = False
        #: how often it may still be asked
        self.tries = 0
        self.last_query = now
        #: tick at which the last look-up ended
        self.last_resolution = now
        self.last_valid = now
        #: how many name servers were asked, and how many have answered
        self.asked = 0
        self.answered = 0
        #: of the question, while it runs
        self.number = -1
        #: questions by type
        self.wires: dict[int, bytes] = {}
        self.requesters: dict[Requester, None] = {}
        self.records: list[Record] = []
        self.by_key: dict[tuple[int, str, int], Record] = {}
        #: records of the last valid answer, and what that looked like
        self.latest: list[Record] = []
        self.seen: bytes | None = None
        #: every requester knows what there is
        self.settled = False

    def enter(self, answer: Answer, now: int) -> None:
        """Take over the records of a valid answer."""
        latest: list[Record] = []
        for found in answer.records:
            key = found.kind, found.host, found.port
            record = self.by_key.get(key)
            if record is None:
                record = Record(found, now)
                self.by_key[key] = record
                insort(self.records, record, key=lambda one: one.found.order)
            else:
                record.found = found  # the weight may be another one
                record.last_seen = now
            latest.append(record)
        for name, kind, host in answer.additional:
            self._enter_extra(name, (kind, host), now)
        self.latest = latest
        self.settled = False

    def _enter_extra(self, name: str, extra: tuple[int, str], now: int) -> None:
        """An additional record refreshes the target that has it, or serves one that has none."""
        free: Record | None = None
        for record in self.records:
            if record.found.kind != SRV or record.found.host != name:
                continue
            if record.extra == extra and record.extra_seen != now:
                record.extra_seen = now
                return
            if record.extra is None and free is None:
                free = record
        if free is not None:
            free.extra = extra
            free.extra_seen = now

    def seen_again(self, now: int) -> None:
        """The last valid answer came once more."""
        for record in self.latest:
            record.last_seen = now
            if record.extra is not None:
                record.extra_seen = now

    def take_obsolete(self, now: int, hold: int) -> list[Record]:
        """Take out the records, and the additional addresses, that were not seen for `hold` ms."""
        gone = [record for record in self.records if record.last_seen + hold < now]
        if gone:
            self.settled = False
            self.records = [record for record in self.records if record.last_seen + hold >= now]
            for record in gone:
                del self.by_key[record.key]
        for record in self.records:
            if record.extra is not None and record.extra_seen + hold < now:
                record.extra = None
        return gone

    def forget(self) -> None:
        """No record is known any more."""
        self.records.clear()
        self.by_key.clear()
        self.latest = []
        self.seen = None
        self.settled = False

    def _check(self) -> None:
        """Raise AssertionError where an invariant does not hold (tests)."""
        orders = [record.found.order for record in self.records]
        assert orders == sorted(orders)
        assert {record.key: record for record in self.records} == self.by_key
        assert len(self.by_key) == len(self.records)
        assert self.running == (self.number >= 0)
        assert not self.running or self.tries >= 0

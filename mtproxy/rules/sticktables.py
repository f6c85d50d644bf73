"""Stick tables as rules see them: whose table, which key, and what a stream tracks.

The tables themselves are made above (`proxy.sticktable`); `Side` is what one thread uses of one
(`StickTable.side`). `key_of` turns a sample of the table's type into a key, as HAProxy does: a
number keeps 32 bits, a string is cut, binary data is cut or filled up with zeros.

`Tracking` belongs to a client connection and its thread: what `tcp-request connection` and
`session` rules track for the whole session, and what other rules track for one transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from mtproxy.base.sticktable import COUNTERS
from mtproxy.rules.casts import dynamic
from mtproxy.rules.types import Type, Value

if TYPE_CHECKING:
    from mtproxy.base.sticktable import StickTableSettings
    from mtproxy.rules.build import Build

#: the type of the samples that make a table's keys
SAMPLE_TYPES: Final[dict[str, Type]] = {
    "integer": Type.SINT,
    "ip": Type.IPV4,
    "ipv6": Type.IPV6,
    "string": Type.STR,
    "binary": Type.BIN,
}
_MASK32 = 0xFFFFFFFF

type Key = int | bytes


class Entry(Protocol):
    """What is stored of a key; plain numbers in it may be read by anybody."""

    key: Key

    @property
    def cells(self) -> Any: ...


class Side(Protocol):
    """One thread's access to a table; see `proxy.sticktable_side.TableSide`."""

    settings: StickTableSettings
    name: str
    table: Any
    layout: Any
    start: Any
    session: Any
    request: Any
    error: Any
    fail: Any

    def event(self, counter: str, index: int) -> Any: ...
    def track(self, key: Key, event: Any) -> Entry | None: ...
    def end(self, entry: Any, received: int, sent: int) -> None: ...
    def add_bytes(self, entry: Any, received: int, sent: int) -> None: ...
    def hold(self, key: Key) -> Entry | None: ...
    def release(self, entry: Any) -> None: ...
    def add(self, entry: Any, event: Any, amount: int = 1) -> None: ...
    def bump(self, entry: Any, event: Any) -> int: ...
    def exchange(self, entry: Any, cell: int, value: int) -> int: ...
    def find(self, key: Key) -> Entry | None: ...
    def rate(self, entry: Any, cell: int, period: int) -> int: ...
    def remain(self, entry: Any) -> int: ...


#: the table, the entry in it, and whether a rule of the backend began to track it
type Tracked = tuple[Side, Any, bool]


def side_of(build: Build, name: str | None) -> Side:
    """This thread's side of the table called `name`; without one, of the proxy's own."""
    side: Side = build.shared.tables[name or build.proxy.name].side(build.ctx)
    return side


def key_of(settings: StickTableSettings) -> Callable[[Any], Key]:
    """The function from a sample of the table's type to its key."""
    length = settings.len
    match settings.type:
        case "integer":
            return lambda value: value & _MASK32
        case "string":
            return lambda value: value[:length]
        case "binary":
            return lambda value: value[:length].ljust(length, b"\0")
    return int


def any_key(settings: StickTableSettings) -> Callable[[Value], Key | None]:
    """The function from a sample of any type to the table's key; None where there is none."""
    kind = SAMPLE_TYPES[settings.type]
    to_key = key_of(settings)

    def convert(value: Value) -> Key | None:
        cast = dynamic(value, kind)
        return None if cast is None else to_key(cast)

    return convert


class Tracking:
    """What a client connection tracks, by the number of track-sc.

    The stream calls the methods below where the events happen; each does nothing where nothing is
    tracked. A counter of the transaction hides that of the session.
    """

    __slots__ = ("session", "stream")

    def __init__(self) -> None:
        self.session: list[Tracked | None] = [None] * COUNTERS
        self.stream: list[Tracked | None] = [None] * COUNTERS

    def _each(self) -> list[Tracked]:
        session = self.session
        found = [mine or session[number] for number, mine in enumerate(self.stream)]
        return [one for one in found if one is not None]

    def count_session(self) -> None:
        """The client connection is accepted: behind the last `tcp-request session` rule."""
        for one in self.session:
            if one is not None:
                one[0].add(one[1], one[0].session)

    def count_request(self) -> None:
        """A request has been read, before any rule looks at it."""
        for one in self._each():
            one[0].add(one[1], one[0].request)

    def count_backend_request(self) -> None:
        """The backend's `http-request` rules begin: what its own rules track counts it now."""
        for one in self.stream:
            if one is not None and one[2]:
                one[0].add(one[1], one[0].request)

    def count_status(self, status: int) -> None:
        """A server has answered."""
        if status >= 400:
            if status < 500:
                self.count_error()
            elif status < 600 and status not in (501, 505):
                self.count_fail()

    def count_error(self) -> None:
        """The client did something wrong: 4xx of the server, or refused here."""
        for one in self._each():
            one[0].add(one[1], one[0].error)

    def count_fail(self) -> None:
        """The server did not answer, or with a failure."""
        for one in self._each():
            one[0].add(one[1], one[0].fail)

    def count_unparsed(self, *, error: bool) -> None:
        """Something that is no request, or none in time (`error` is False then)."""
        for one in self.session:
            if one is not None:
                one[0].add(one[1], one[0].request)
                if error:
                    one[0].add(one[1], one[0].error)

    def end_transaction(self, received: int, sent: int) -> None:
        """The last act of a transaction: bytes from and to the client."""
        stream = self.stream
        for number, session in enumerate(self.session):
            mine = stream[number]
            if mine is not None:
                stream[number] = None
                mine[0].end(mine[1], received, sent)
            elif session is not None:
                session[0].add_bytes(session[1], received, sent)

    def add_bytes(self, received: int, sent: int) -> None:
        """Bytes from and to the client in a transaction that goes on."""
        for one in self._each():
            one[0].add_bytes(one[1], received, sent)

    def end_session(self) -> None:
        """The end of the client connection."""
        self.end_transaction(0, 0)
        for number, one in enumerate(self.session):
            if one is not None:
                self.session[number] = None
                one[0].end(one[1], 0, 0)

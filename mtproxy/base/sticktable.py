"""Stick tables as the configuration describes them (manual 4.2: stick-table, stick).

`DATA_TYPES` is everything that a table can store for a key, in the order in which HAProxy prints
it. Constants and immutable records: any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mtproxy.base.location import Location
from mtproxy.base.ruleset import Condition, Expression


class Kind(StrEnum):
    """What the value of a data type is."""

    #: a number of 32 bits with a sign (a server's id)
    SIGNED = "signed"
    #: a counter of 32 bits, which begins again at 0
    COUNT = "count"
    #: a counter of 64 bits
    BYTES = "bytes"
    #: events per period, which the configuration gives
    RATE = "rate"
    #: a server's name or address
    NAME = "name"


@dataclass(frozen=True, slots=True)
class DataType:
    """One thing that a table can store. `array`: several of it, how many says the table."""

    name: str
    kind: Kind
    array: bool = False


DATA_TYPES: Final[tuple[DataType, ...]] = (
    DataType("server_id", Kind.SIGNED),
    DataType("gpt0", Kind.COUNT),
    DataType("gpc0", Kind.COUNT),
    DataType("gpc0_rate", Kind.RATE),
    DataType("conn_cnt", Kind.COUNT),
    DataType("conn_rate", Kind.RATE),
    DataType("conn_cur", Kind.COUNT),
    DataType("sess_cnt", Kind.COUNT),
    DataType("sess_rate", Kind.RATE),
    DataType("http_req_cnt", Kind.COUNT),
    DataType("http_req_rate", Kind.RATE),
    DataType("http_err_cnt", Kind.COUNT),
    DataType("http_err_rate", Kind.RATE),
    DataType("bytes_in_cnt", Kind.BYTES),
    DataType("bytes_in_rate", Kind.RATE),
    DataType("bytes_out_cnt", Kind.BYTES),
    DataType("bytes_out_rate", Kind.RATE),
    DataType("gpc1", Kind.COUNT),
    DataType("gpc1_rate", Kind.RATE),
    DataType("server_key", Kind.NAME),
    DataType("http_fail_cnt", Kind.COUNT),
    DataType("http_fail_rate", Kind.RATE),
    DataType("gpt", Kind.COUNT, array=True),
    DataType("gpc", Kind.COUNT, array=True),
    DataType("gpc_rate", Kind.RATE, array=True),
)
BY_NAME: Final[dict[str, DataType]] = {one.name: one for one in DATA_TYPES}
#: other names that HAProxy knows a data type by
ALIASES: Final[dict[str, str]] = {"server_name": "server_key"}
#: elements of an array at most
MAX_ARRAY: Final = 100

#: types of keys, by the word of the configuration
KEY_TYPES: Final = ("integer", "ip", "ipv6", "string", "binary")
#: bytes of a key that has no `len`
DEFAULT_LEN: Final = 32
#: track-sc0 to track-sc2
COUNTERS: Final = 3


@dataclass(frozen=True, slots=True)
class Stored:
    """A data type of a table. `period`: of a rate, in ms. `count`: elements of an array, else 1."""

    name: str
    period: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class StickTableSettings:
    """A `stick-table` line. `len` is how many bytes of a string or binary key count."""

    name: str
    type: str
    #: entries at most
    size: int
    len: int = DEFAULT_LEN
    #: ms that an unused entry is kept; 0: until its place is needed
    expire: int = 0
    #: a full table takes no new key instead of dropping the oldest one
    nopurge: bool = False
    #: what `server_key` says of a server: "name" or "addr"
    srvkey: str = "name"
    store: tuple[Stored, ...] = ()
    location: Location = Location("", 0)


@dataclass(frozen=True, slots=True)
class StickRule:
    """A `stick` line. `table` is empty for the proxy's own. `words`: from `on` to the condition."""

    expression: Expression
    table: str
    condition: Condition | None = None
    #: the entry chooses the server
    match: bool = False
    #: the server is noted when it has answered
    store: bool = False
    #: the key is one of the response (`store-response`)
    response: bool = False
    location: Location = Location("", 0)
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Track:
    """The words of a `track-sc` action. `table` is empty for the proxy's own."""

    counter: int
    expression: Expression
    table: str

"""MQTT 3.1, 3.1.1 and 5.0 (manual 7.3.1: mqtt_is_valid, mqtt_field_value).

Only CONNECT and CONNACK are understood, the first messages of both sides. A message that is not
complete gives no sample and says so (`view.may_change`); more bytes would change nothing about all
others, whatever their fetch said. Functions belong to the thread that made them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.tables import ArgKind, Converter, required
from mtproxy.rules.types import Binary, Type

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View

_TYPES: Final = (
    *("", "connect", "connack", "publish", "puback", "pubrec", "pubrel", "pubcomp"),
    *("subscribe", "suback", "unsubscribe", "unsuback", "pingreq", "pingresp"),
    *("disconnect", "auth"),
)
_CONNECT, _CONNACK = 1, 2
#: flags that stand beside a type in the first byte, where they are not 0
_FLAGS: Final = {3: 0x0F, 6: 0x02, 8: 0x02, 10: 0x02}
_V31, _V311, _V5 = 3, 4, 5
_RESERVED, _WILL, _WILL_QOS, _WILL_RETAIN, _PASSWORD, _USERNAME = 1, 4, 0x18, 0x20, 0x40, 0x80

#: kinds of properties: bytes of a number, or a text, or two texts
_BYTE, _SHORT, _LONG, _TEXT, _PAIR = 1, 2, 4, 0, -1
_USER_PROPERTY: Final = 38


@dataclass(frozen=True, slots=True)
class _Property:
    """`least`, `most`: what a number has to be within. `once`: may not come again."""

    kind: int
    least: int = 0
    most: int = 0xFFFFFFFF


_FLAG: Final = _Property(_BYTE, most=1)
_CONNECT_PROPERTIES: Final = {
    17: _Property(_LONG),
    33: _Property(_SHORT, least=1),
    39: _Property(_LONG, least=1),
    34: _Property(_SHORT),
    25: _FLAG,
    23: _FLAG,
    21: _Property(_TEXT),
    22: _Property(_TEXT),
    _USER_PROPERTY: _Property(_PAIR),
}
_WILL_PROPERTIES: Final = {
    24: _Property(_LONG),
    1: _FLAG,
    2: _Property(_LONG),
    3: _Property(_TEXT),
    8: _Property(_TEXT),
    9: _Property(_TEXT),
    _USER_PROPERTY: _Property(_PAIR),
}
_CONNACK_PROPERTIES: Final = {
    17: _Property(_LONG),
    33: _Property(_SHORT, least=1),
    36: _FLAG,
    37: _FLAG,
    39: _Property(_LONG, least=1),
    18: _Property(_TEXT, least=1),
    34: _Property(_SHORT),
    31: _Property(_TEXT),
    40: _FLAG,
    41: _FLAG,
    42: _FLAG,
    19: _Property(_SHORT),
    26: _Property(_TEXT),
    28: _Property(_TEXT),
    21: _Property(_TEXT),
    22: _Property(_TEXT),
    _USER_PROPERTY: _Property(_PAIR),
}
_CONNECT_FIELDS: Final = (
    *("flags", "protocol_name", "protocol_version", "client_identifier", "will_topic"),
    *("will_payload", "username", "password", "keepalive"),
)
_CONNACK_FIELDS: Final = ("flags", "protocol_version", "reason_code")
_BOTH: Final = (31, _USER_PROPERTY)
#: names of fields by type of packet, as `mqtt_field_value` takes them
_FIELDS: Final[dict[int, frozenset[str]]] = {
    _CONNECT: frozenset(_CONNECT_FIELDS)
    | {str(number) for number in (*_CONNECT_PROPERTIES, *_WILL_PROPERTIES)},
    _CONNACK: frozenset(_CONNACK_FIELDS) | {str(number) for number in _CONNACK_PROPERTIES},
    3: frozenset(map(str, (1, 2, 3, 8, 9, 11, 35, _USER_PROPERTY))),
    4: frozenset(("reason_code", *map(str, _BOTH))),
    5: frozenset(("reason_code", *map(str, _BOTH))),
    6: frozenset(("reason_code", *map(str, _BOTH))),
    7: frozenset(("reason_code", *map(str, _BOTH))),
    8: frozenset(map(str, (11, _USER_PROPERTY))),
    9: frozenset(map(str, _BOTH)),
    10: frozenset((str(_USER_PROPERTY),)),
    11: frozenset(map(str, _BOTH)),
    14: frozenset(("reason_code", *map(str, (17, 28, *_BOTH)))),
    15: frozenset(map(str, (21, 22, *_BOTH))),
}

type Fields = dict[str, int | bytes]


class _Invalid(Exception):
    """The message is none."""


class _Reader:
    """Cuts a message into its parts."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data = data
        self.at = at
        self.end = end

    def number(self, size: int) -> int:
        start = self.at
        if self.end - start < size:
            raise _Invalid
        self.at = start + size
        return int.from_bytes(self.data[start : self.at])

    def text(self) -> bytes:
        size = self.number(2)
        start = self.at
        if self.end - start < size:
            raise _Invalid
        self.at = start + size
        return self.data[start : self.at]

    def variable(self) -> int:
        """A number of up to four bytes of seven bits. One cut short counts as it is."""
        number = 0
        for shift in (0, 7, 14, 21):
            if self.at >= self.end:
                return number
            byte = self.data[self.at]
            self.at += 1
            number += (byte & 127) << shift
            if byte < 128:
                return number
        raise _Invalid

    def properties(self, known: dict[int, _Property], fields: Fields) -> None:
        size = self.variable()
        stop = self.at + size
        if stop > self.end:
            raise _Invalid
        inner = _Reader(self.data, self.at, stop)
        self.at = stop
        while inner.at < stop:
            number = inner.number(1)
            one = known.get(number)
            name = str(number)
            if one is None or name in fields:
                raise _Invalid
            if one.kind == _PAIR:
                inner.text()
                inner.text()
                continue
            value = inner.text() if one.kind == _TEXT else inner.number(one.kind)
            measure = len(value) if isinstance(value, bytes) else value
            if not one.least <= measure <= one.most:
                raise _Invalid
            fields[name] = value


def parse(message: bytes) -> tuple[int, Fields] | bool | None:
    """Type and fields of a CONNECT or CONNACK; None if it is not complete, False if it is none."""
    if len(message) < 2:
        return None
    kind = message[0] >> 4
    if not kind or message[0] & 15 != _FLAGS.get(kind, 0):
        return False
    reader = _Reader(message, 1, len(message))
    try:
        size = reader.variable()
        if len(message) - reader.at < size:
            return None
        start = reader.at
        if kind == _CONNECT:
            fields = _connect(reader)
        elif kind == _CONNACK:
            fields = _connack(reader)
        else:
            return False
    except _Invalid:
        return False
    return (kind, fields) if reader.at - start == size else False


def _connect(reader: _Reader) -> Fields:
    name = reader.text()
    version, flags = reader.number(1), reader.number(1)
    if name.lower() not in (b"mqtt", b"mqisdp") or version not in (_V31, _V311, _V5):
        raise _Invalid
    will = flags & (_WILL | _WILL_QOS | _WILL_RETAIN)
    if flags & _RESERVED or will == _WILL_QOS:
        raise _Invalid
    fields: Fields = {"keepalive": reader.number(2)}
    if version == _V5:
        reader.properties(_CONNECT_PROPERTIES, fields)
        # data of an authentication needs its method
        if fields.get("22") and not fields.get("21"):
            raise _Invalid
    fields |= {"protocol_name": name, "protocol_version": version, "flags": flags}
    fields["client_identifier"] = reader.text()
    if version == _V5 and flags & _WILL:
        will_fields: Fields = {}
        reader.properties(_WILL_PROPERTIES, will_fields)
        fields |= will_fields
    if flags & _WILL:
        fields["will_topic"] = reader.text()
        fields["will_payload"] = reader.text()
    if flags & _USERNAME:
        fields["username"] = reader.text()
    if flags & _PASSWORD:
        fields["password"] = reader.text()
    return fields


def _connack(reader: _Reader) -> Fields:
    rest = reader.end - reader.at
    flags, reason = reader.number(1), reader.number(1)
    if flags & 0xFE:
        raise _Invalid
    fields: Fields = {}
    if rest > 2:
        reader.properties(_CONNACK_PROPERTIES, fields)
    version = _V5 if rest > 2 else _V311
    return fields | {"flags": flags, "reason_code": reason, "protocol_version": version}


# --- converters


def _is_valid(value: Any, view: View) -> bool | None:
    parsed = parse(value)
    view.may_change = parsed is None
    return None if parsed is None else parsed is not False


def _type_number(text: bytes) -> int:
    """The number of a type of packet, by number or name; 0: there is none."""
    name = text.decode("latin-1").lower()
    if name.isdigit():
        number = int(name[-20:])
        return number if number < len(_TYPES) else 0
    return _TYPES.index(name) if name in _TYPES else 0


def _field_value(args: tuple[Any, ...], _build: Build) -> Convert:
    kind, name = _type_number(args[0]), args[1].decode("latin-1").lower()
    will = name.isdigit() and int(name) in _WILL_PROPERTIES
    numbers = {**_CONNECT_PROPERTIES, **_WILL_PROPERTIES, **_CONNACK_PROPERTIES}
    number = name.isdigit() and numbers[int(name)].kind > 0 if kind <= _CONNACK else False

    def find(value: Any, view: View) -> Binary | None:
        parsed = parse(value)
        view.may_change = parsed is None
        if parsed is None:
            return None
        if isinstance(parsed, bool) or parsed[0] != kind:
            return None
        fields = parsed[1]
        found = fields.get(name)
        if found is None and number and fields["protocol_version"] == _V5:
            # a property that was left out is 0
            flags = fields["flags"]
            missing = will and kind == _CONNECT and not int(flags) & _WILL
            return None if missing else Binary(b"0")
        if isinstance(found, int):
            return Binary(b"%d" % found)
        return Binary(found) if found else None

    return find


def _check_field(args: tuple[Any, ...]) -> str | None:
    kind, name = _type_number(args[0]), args[1].decode("latin-1").lower()
    if not kind:
        return f"unknown MQTT type '{args[0].decode(errors='replace')}'"
    if name not in _FIELDS.get(kind, ()):
        return f"unknown MQTT field name '{name}' for packet type '{_TYPES[kind]}'"
    return None


CONVERTERS: tuple[Converter, ...] = (
    Converter("mqtt_is_valid", Type.BIN, Type.BOOL, lambda _args, _build: _is_valid),
    Converter(
        "mqtt_field_value",
        Type.BIN,
        Type.STR,
        _field_value,
        required(ArgKind.STR, ArgKind.STR),
        _check_field,
        loose=True,  # bytes of which HAProxy says at load only that they are text
    ),
)

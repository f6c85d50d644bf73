"""http.fields: comma-separated values, against a state machine that goes byte by byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mtproxy.http.fields import split_list

values = st.text('ab," \\\t', max_size=30).map(lambda text: text.encode().strip(b" \t"))


def slow_split(value: bytes) -> list[bytes]:
    parts, part, quoted, escaped = [], bytearray(), False, False
    for byte in value:
        if escaped:
            escaped = False
        elif quoted:
            escaped = byte == 0x5C
            quoted = byte != 0x22
        elif byte == 0x22:
            quoted = True
        elif byte == 0x2C:
            parts.append(bytes(part))
            part.clear()
            continue
        part.append(byte)
    parts.append(bytes(part))
    return [one.strip(b" \t") for one in parts]


@given(values)
def test_parts_are_those_of_the_state_machine(value: bytes) -> None:
    assert split_list(value) == slow_split(value)

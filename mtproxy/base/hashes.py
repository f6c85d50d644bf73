"""Hashes that are no cryptography: sdbm, djb2, wt6, CRC-32, CRC-32C (RFC 4960, B), avalanche.

The numbers are those that HAProxy's converters and hash-based balancing give: unsigned, 32 bits.
Pure functions: any thread. They cost about 50 ns for each byte; `crc32` is compiled code.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

__all__ = ("avalanche", "crc32", "crc32c", "djb2", "sdbm", "wt6")

_MASK: Final = 0xFFFFFFFF


def sdbm(data: bytes) -> int:
    """Of Ozan Yigit's database library: hash * 65599 + byte."""
    number = 0
    for byte in data:
        number = (number * 65599 + byte) & _MASK
    return number


def djb2(data: bytes) -> int:
    """Of Dan Bernstein: hash * 33 + byte, beginning with 5381."""
    number = 5381
    for byte in data:
        number = (number * 33 + byte) & _MASK
    return number


def wt6(data: bytes) -> int:
    """HAProxy's own: two words that are mixed and turned by a number of bits that they choose."""
    first, second, left, right = 0xA53C965A, 0x5CA6953A, 6, 18
    for byte in data:
        first = ~(first ^ byte) & _MASK
        second = ~(second + byte) & _MASK
        first, second = (
            (second << left | second >> (32 - left)) & _MASK,
            (first << right | first >> (32 - right)) & _MASK,
        )
        steps = (first >> 16 ^ second) & 0xFFFF
        left, right = steps & 31, steps >> 11
    return first ^ second


def avalanche(number: int) -> int:
    """Bob Jenkins' full avalanche of 32 bits, spread by a prime near 3/4 of their range."""
    number = (number + 0x7ED55D16 + (number << 12)) & _MASK
    number = number ^ 0xC761C23C ^ number >> 19
    number = (number + 0x165667B1 + (number << 5)) & _MASK
    number = ((number + 0xD3A2646C) ^ (number << 9)) & _MASK
    number = (number + 0xFD7046C5 + (number << 3)) & _MASK
    number = number ^ 0xB55A4F09 ^ number >> 16
    return number * 3221225473 & _MASK


def _crc32c_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_CRC32C: Final = _crc32c_table()


def crc32c(data: bytes) -> int:
    """CRC-32 with Castagnoli's polynomial."""
    table = _CRC32C
    number = _MASK
    for byte in data:
        number = number >> 8 ^ table[(number ^ byte) & 255]
    return number ^ _MASK

"""Yann Collet's xxHash: XXH32, XXH64 and XXH3 with 64 bits, from its specification.

Written for keys of some dozen bytes: 2 to 10 us for them, about 0.15 us for each 8 bytes of long
ones. Results are unsigned; `seed` is taken modulo its width. Pure functions: any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, unpack_from
from typing import Final

_M32: Final = (1 << 32) - 1
_M64: Final = (1 << 64) - 1

_A1, _A2, _A3, _A4, _A5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_B1: Final = 0x9E3779B185EBCA87
_B2: Final = 0xC2B2AE3D27D4EB4F
_B3: Final = 0x165667B19E3779F9
_B4: Final = 0x85EBCA77C2B2AE63
_B5: Final = 0x27D4EB2F165667C5
_MX1: Final = 0x165667919E3779F9
_MX2: Final = 0x9FB21C651E98DF25

_four_words = Struct("<4I").unpack_from
_four_longs = Struct("<4Q").unpack_from
_eight_longs = Struct("<8Q").unpack_from

#: the secret of XXH3, part of its specification
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _long(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _rotl32(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _M32


def _rotl64(number: int, bits: int) -> int:
    return (number << bits | number >> (64 - bits)) & _M64


# --- XXH32


def xxh32(data: bytes, seed: int = 0) -> int:
    """32 bits."""
    size = len(data)
    at = 0
    if size >= 16:
        a, b = (seed + _A1 + _A2) & _M32, (seed + _A2) & _M32
        c, d = seed & _M32, (seed - _A1) & _M32
        while at <= size - 16:
            w, x, y, z = _four_words(data, at)
            a = _rotl32((a + w * _A2) & _M32, 13) * _A1 & _M32
            b = _rotl32((b + x * _A2) & _M32, 13) * _A1 & _M32
            c = _rotl32((c + y * _A2) & _M32, 13) * _A1 & _M32
            d = _rotl32((d + z * _A2) & _M32, 13) * _A1 & _M32
            at += 16
        number = _rotl32(a, 1) + _rotl32(b, 7) + _rotl32(c, 12) + _rotl32(d, 18)
    else:
        number = seed + _A5
    number = (number + size) & _M32
    while at <= size - 4:
        number = _rotl32((number + _word(data, at) * _A3) & _M32, 17) * _A4 & _M32
        at += 4
    for byte in data[at:]:
        number = _rotl32((number + byte * _A5) & _M32, 11) * _A1 & _M32
    number = (number ^ number >> 15) * _A2 & _M32
    number = (number ^ number >> 13) * _A3 & _M32
    return number ^ number >> 16


# --- XXH64


def _round(number: int, lane: int) -> int:
    return _rotl64((number + lane * _B2) & _M64, 31) * _B1 & _M64


def _avalanche64(number: int) -> int:
    number = (number ^ number >> 33) * _B2 & _M64
    number = (number ^ number >> 29) * _B3 & _M64
    return number ^ number >> 32


def xxh64(data: bytes, seed: int = 0) -> int:
    """64 bits."""
    size = len(data)
    at = 0
    if size >= 32:
        lanes = [(seed + _B1 + _B2) & _M64, (seed + _B2) & _M64, seed & _M64, (seed - _B1) & _M64]
        while at <= size - 32:
            read = _four_longs(data, at)
            lanes = [_round(number, lane) for number, lane in zip(lanes, read, strict=True)]
            at += 32
        a, b, c, d = lanes
        number = (_rotl64(a, 1) + _rotl64(b, 7) + _rotl64(c, 12) + _rotl64(d, 18)) & _M64
        for lane in lanes:
            number = ((number ^ _round(0, lane)) * _B1 + _B4) & _M64
    else:
        number = seed + _B5
    number = (number + size) & _M64
    while at <= size - 8:
        number = (_rotl64(number ^ _round(0, _long(data, at)), 27) * _B1 + _B4) & _M64
        at += 8
    if at <= size - 4:
        number = (_rotl64(number ^ (_word(data, at) * _B1 & _M64), 23) * _B2 + _B3) & _M64
        at += 4
    for byte in data[at:]:
        number = _rotl64(number ^ (byte * _B5 & _M64), 11) * _B1 & _M64
    return _avalanche64(number)


# --- XXH3


def _avalanche3(number: int) -> int:
    number = (number ^ number >> 37) * _MX1 & _M64
    return number ^ number >> 32


def _fold(left: int, right: int) -> int:
    """Both halves of a product of 128 bits, one on the other."""
    product = left * right
    return (product ^ product >> 64) & _M64


def _mix(data: bytes, at: int, secret_at: int, seed: int) -> int:
    low, high = unpack_from("<2Q", data, at)
    key_low, key_high = unpack_from("<2Q", _SECRET, secret_at)
    return _fold(low ^ ((key_low + seed) & _M64), high ^ ((key_high - seed) & _M64))


def xxh3(data: bytes, seed: int = 0) -> int:
    """The variant of XXH3 with 64 bits."""
    seed &= _M64
    size = len(data)
    if size <= 16:
        return _short3(data, size, seed)
    if size > 240:
        return _long3(data, size, seed)
    number = size * _B1
    if size <= 128:
        for step in range((size - 1) // 32, -1, -1):
            number += _mix(data, 16 * step, 32 * step, seed)
            number += _mix(data, size - 16 * (step + 1), 32 * step + 16, seed)
        return _avalanche3(number & _M64)
    for step in range(8):
        number += _mix(data, 16 * step, 16 * step, seed)
    number = _avalanche3(number & _M64)
    for step in range(8, size // 16):
        number += _mix(data, 16 * step, 16 * (step - 8) + 3, seed)
    number += _mix(data, size - 16, 136 - 17, seed)
    return _avalanche3(number & _M64)


def _short3(data: bytes, size: int, seed: int) -> int:
    if size > 8:
        flip_low = (_long(_SECRET, 24) ^ _long(_SECRET, 32)) + seed
        flip_high = (_long(_SECRET, 40) ^ _long(_SECRET, 48)) - seed
        low = _long(data, 0) ^ (flip_low & _M64)
        high = _long(data, size - 8) ^ (flip_high & _M64)
        swapped = int.from_bytes(low.to_bytes(8), "little")
        return _avalanche3((size + swapped + high + _fold(low, high)) & _M64)
    if size >= 4:
        seed ^= int.from_bytes((seed & _M32).to_bytes(4), "little") << 32
        flip = (_long(_SECRET, 8) ^ _long(_SECRET, 16)) - seed
        number = (_word(data, size - 4) + (_word(data, 0) << 32)) ^ (flip & _M64)
        number ^= _rotl64(number, 49) ^ _rotl64(number, 24)
        number = number * _MX2 & _M64
        number = (number ^ ((number >> 35) + size)) * _MX2 & _M64
        return number ^ number >> 28
    if size:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        flip = (_word(_SECRET, 0) ^ _word(_SECRET, 4)) + seed
        return _avalanche64(combined ^ (flip & _M64))
    return _avalanche64(seed ^ _long(_SECRET, 56) ^ _long(_SECRET, 64))


def _seeded(seed: int) -> bytes:
    if not seed:
        return _SECRET
    keys = unpack_from("<24Q", _SECRET)
    return b"".join(
        ((key - seed if place & 1 else key + seed) & _M64).to_bytes(8, "little")
        for place, key in enumerate(keys)
    )


def _accumulate(lanes: list[int], read: Sequence[int], keys: Sequence[int]) -> None:
    for place in range(8):
        value = read[place]
        key = value ^ keys[place]
        lanes[place ^ 1] += value
        lanes[place] = (lanes[place] + (key & _M32) * (key >> 32)) & _M64


def _long3(data: bytes, size: int, seed: int) -> int:
    """Stripes of 64 bytes, blocks of 16 of them, and a last stripe that ends with the data."""
    secret = _seeded(seed)
    keys = [_eight_longs(secret, 8 * step) for step in range(16)]
    scramble = _eight_longs(secret, 128)
    lanes = [_A3, _B1, _B2, _B3, _B4, _A2, _B5, _A1]
    for number in range((size - 1) // 64):
        _accumulate(lanes, _eight_longs(data, 64 * number), keys[number % 16])
        if number % 16 == 15:
            lanes = [
                ((lane & _M64) ^ (lane & _M64) >> 47 ^ key) * _A1 & _M64
                for lane, key in zip(lanes, scramble, strict=True)
            ]
    _accumulate(lanes, _eight_longs(data, size - 64), _eight_longs(secret, 192 - 64 - 7))
    lanes = [lane & _M64 for lane in lanes]
    merge = _eight_longs(secret, 11)
    result = size * _B1
    for place in range(0, 8, 2):
        result += _fold(lanes[place] ^ merge[place], lanes[place + 1] ^ merge[place + 1])
    return _avalanche3(result & _M64)

"""Hashes that are no cryptography (manual 7.3.1: crc32, crc32c, djb2, sdbm, wt6, xxh3, ...)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mtproxy.base.hashes import avalanche, crc32, crc32c, djb2, sdbm, wt6
from mtproxy.base.xxhash import xxh3, xxh32, xxh64
from mtproxy.rules.tables import ArgKind, Converter, optional
from mtproxy.rules.types import Type, wrap

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View


def _spread(name: str, digest: Callable[[bytes], int]) -> Converter:
    """A hash whose argument asks for an avalanche over its result."""

    def make(args: tuple[Any, ...], _build: Build) -> Convert:
        if args[0]:
            return lambda value, _view: avalanche(digest(value))  # type: ignore[arg-type]
        return lambda value, _view: digest(value)  # type: ignore[arg-type]

    return Converter(name, Type.BIN, Type.SINT, make, optional(ArgKind.SINT))


def _seeded(name: str, digest: Callable[[bytes, int], int]) -> Converter:
    """A hash whose argument is a seed; its 64 bits are taken with their sign."""

    def make(args: tuple[Any, ...], _build: Build) -> Convert:
        seed = args[0] or 0

        def convert(value: Any, _view: View) -> int:
            return wrap(digest(value, seed))

        return convert

    return Converter(name, Type.BIN, Type.SINT, make, optional(ArgKind.SINT))


CONVERTERS: tuple[Converter, ...] = (
    _spread("crc32", crc32),
    _spread("crc32c", crc32c),
    _spread("djb2", djb2),
    _spread("sdbm", sdbm),
    _spread("wt6", wt6),
    _seeded("xxh3", xxh3),
    _seeded("xxh32", xxh32),
    _seeded("xxh64", xxh64),
)

"""Log-format strings in rules: `text %[expression]` (manual 8.2.6)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from mtproxy.base.ruleset import Expression, Format
from mtproxy.rules.casts import to_text
from mtproxy.rules.expression import build_expression, parse_expression
from mtproxy.rules.reader import RuleReader

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.points import Point
    from mtproxy.rules.view import View


def parse_format(reader: RuleReader, text: str, point: Point) -> Format:
    """The pieces of `text`. Raises ConfigError."""
    pieces: list[object] = []
    at = 0
    for found in re.finditer(r"%\[(.*?)\]", text):
        if found.start() > at:
            pieces.append(text[at : found.start()].encode("utf-8", "surrogateescape"))
        inner = RuleReader(
            (found[1],),
            reader.location,
            point,
            proxy=reader.proxy,
            mode=reader.mode,
            title=reader.title,
            references=reader.references,
        )
        pieces.append(parse_expression(inner))
        at = found.end()
    if at < len(text):
        pieces.append(text[at:].encode("utf-8", "surrogateescape"))
    constant = None
    if all(isinstance(piece, bytes) for piece in pieces):
        constant = b"".join([piece for piece in pieces if isinstance(piece, bytes)])
    return Format(text, tuple(pieces), constant)


def build_format(fmt: Format, build: Build) -> Callable[[View], bytes]:
    """This thread's function for a format."""
    if fmt.constant is not None:
        constant = fmt.constant
        return lambda _view: constant
    parts: list[Callable[[View], bytes]] = []
    for piece in fmt.pieces:
        if isinstance(piece, Expression):
            parts.append(_text_of(build_expression(piece, build)))
        else:
            assert isinstance(piece, bytes)
            parts.append(_constant(piece))
    return lambda view: b"".join([part(view) for part in parts])


def _text_of(value_of: Callable[[View], object]) -> Callable[[View], bytes]:
    def text(view: View) -> bytes:
        value = value_of(view)
        return b"" if value is None else to_text(value)  # type: ignore[arg-type]

    return text


def _constant(text: bytes) -> Callable[[View], bytes]:
    return lambda _view: text

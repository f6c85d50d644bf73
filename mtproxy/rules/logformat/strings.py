"""Log formats in rules: a word of a statement in, a function of the stream out.

`parse_format` reads one when the configuration is loaded; `build_format` makes a thread's function
of it. `sample_texts` gives log lines the functions behind their `%[...]`.

How texts in rules differ from log lines (as HAProxy 2.6 has it): spaces stay as they are, a missing
value is nothing, and where the text goes into a message (`Flags.header`) control characters of
samples are written as %XX.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.base.ruleset import Expression, Format
from mtproxy.rules.casts import to_text
from mtproxy.rules.expression import build_expression, parse_expression
from mtproxy.rules.keeping import unique_id
from mtproxy.rules.logformat import encoded
from mtproxy.rules.logformat.aliases import ALIASES, Flags
from mtproxy.rules.logformat.code import (
    DEFAULT_URI_LENGTH,
    FormatContext,
    compiled,
    expression_source,
    function_source,
    namespace,
)
from mtproxy.rules.logformat.dates import LineDates
from mtproxy.rules.logformat.grammar import (
    Encoding,
    FormatError,
    Literal,
    Piece,
    Sample,
    parse_pieces,
)
from mtproxy.rules.places import looks_at_bytes
from mtproxy.rules.types import Binary, Type

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.points import Point
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.view import View

#: texts that go into messages: headers, bodies, URIs, keys of maps
HEADER: Final = Flags(mandatory=False, header=True)
#: other texts: variables, names of backends and servers
PLAIN: Final = Flags(mandatory=False)
#: lines of logs
LINE: Final = Flags()

#: what may stand in a header: everything but control characters; a tab is none
_HEADER_SAFE: Final = bytes(c for c in range(256) if c == 9 or (c >= 32 and c != 127))
_UNSAFE: Final = re.compile(rb"[^" + re.escape(_HEADER_SAFE) + rb"]")
_STRUCTURED: Final = re.compile(rb'(["\\\]])')


# --- reading


def parse_format(
    reader: RuleReader,
    text: str,
    point: Point,
    *,
    flags: Flags = HEADER,
    merge: bool = False,
) -> Format:
    """The pieces of `text`, in which expressions are evaluated at `point`. Raises ConfigError."""

    def expression(word: str, _at: int) -> Expression:
        inner = replace(reader, words=(word,), position=0, point=point, argument=None)
        try:
            found = parse_expression(inner)
        except ConfigError as error:
            raise _inside(error, text, word) from None
        if reader.mode == "http" and looks_at_bytes(found):
            reader.warn(f"L6 sample fetch <{word}> ignored in HTTP log-format string.")
        return found

    try:
        pieces = parse_pieces(
            text,
            http=reader.mode == "http",
            merge=merge,
            defaults=flags,
            expression=expression,
            warn=reader.warn,
        )
    except FormatError as error:
        suggestion = nearest(error.word, ALIASES) if error.word else None
        raise ConfigError(
            f"'{reader.title}' : {error}", word=text, offset=error.position, suggestion=suggestion
        ) from None
    constant = None
    if all(isinstance(piece, Literal) for piece in pieces):
        joined = "".join([piece.text for piece in pieces if isinstance(piece, Literal)])
        constant = joined.encode("utf-8", "surrogateescape")
    samples = any(isinstance(piece, Sample) for piece in pieces)
    return Format(text, tuple(pieces), constant, samples)


def _inside(error: ConfigError, text: str, word: str) -> ConfigError:
    """The same error, which tells its place in the whole format."""
    start = text.find(word)
    within = error.word or word
    offset = error.offset if within == word else max(word.find(within), 0) + (error.offset or 0)
    return ConfigError(
        error.message, word=text, suggestion=error.suggestion, offset=start + (offset or 0)
    )


# --- running


def build_format(fmt: Format, build: Build) -> Callable[[View], bytes]:
    """This thread's function for a format."""
    if fmt.constant is not None:
        constant = fmt.constant
        return lambda _view: constant
    pieces: Sequence[Any] = fmt.pieces
    if all(isinstance(piece, (Literal, Sample)) for piece in pieces):
        return _joined(pieces, build)
    names = namespace(_context(build))
    names.update(sample_texts(pieces, build))
    # generated source: names come from ALIASES, literals are escaped by `expression_source`
    source = function_source(expression_source(pieces, captures=True))
    text: Callable[[Any], str] = eval(compiled(source), names)  # noqa: S307
    return lambda view: text(view).encode("utf-8", "surrogateescape")


def _joined(pieces: Sequence[Literal | Sample], build: Build) -> Callable[[View], bytes]:
    """Texts and samples alone: bytes all the way."""
    samples = [_sample_bytes(p, build) for p in pieces if isinstance(p, Sample)]
    if len(pieces) == 1:
        return samples[0]
    pattern = b"".join([_pattern(piece) for piece in pieces])
    if len(samples) == 1:
        one = samples[0]
        return lambda view: pattern % one(view)
    if len(samples) == 2:
        one, two = samples
        return lambda view: pattern % (one(view), two(view))
    return lambda view: pattern % tuple([sample(view) for sample in samples])


def _pattern(piece: Literal | Sample) -> bytes:
    if isinstance(piece, Sample):
        return b"%b"
    return piece.text.encode("utf-8", "surrogateescape").replace(b"%", b"%%")


def _context(build: Build) -> FormatContext:
    settings = build.shared.settings.global_
    return FormatContext(
        LineDates(),
        pid=os.getpid(),
        hostname=settings.log_send_hostname or socket.gethostname(),
        uri_length=int(settings.tune.get("tune.http.logurilen", DEFAULT_URI_LENGTH)),
        unique_id=unique_id,
    )


def sample_texts(pieces: Sequence[Piece], build: Build) -> dict[str, Callable[[View], Any]]:
    """What `expression_source` calls the expressions of a format: text functions by name."""
    whole = bool(pieces) and isinstance(pieces[0], Encoding)
    return {
        f"s{number}": _sample_value(piece, build)
        if whole
        else _decoded(_sample_bytes(piece, build))
        for number, piece in enumerate(pieces)
        if isinstance(piece, Sample)
    }


def _decoded(data: Callable[[View], bytes]) -> Callable[[View], str]:
    return lambda view: data(view).decode("utf-8", "surrogateescape")


def _sample_value(piece: Sample, build: Build) -> Callable[[View], encoded.Plain]:
    """An expression's value for an encoding: numbers and bools are such, the rest is text."""
    value_of: Callable[[View], Any] = build_expression(piece.expression, build)
    kind = piece.kind
    binary = piece.flags.binary

    def value(view: View) -> encoded.Plain:
        found = value_of(view)
        plain: encoded.Plain = found
        if type(found) is Binary:
            plain = bytes(found) if binary else found.hex().upper()
        elif found is not None and type(found) not in (bool, int):
            plain = to_text(found).decode("utf-8", "surrogateescape")
        return encoded.typed(plain, kind)

    return value


def _sample_bytes(piece: Sample, build: Build) -> Callable[[View], bytes]:
    """An expression's value as it stands in the text."""
    if piece.flags.encoding:
        plain_of = _sample_value(piece, build)
        encode = encoded.json_value if piece.flags.encoding == "json" else encoded.cbor_value
        return lambda view: encode(plain_of(view)).encode("utf-8", "surrogateescape")
    value_of: Callable[[View], Any] = build_expression(piece.expression, build, Type.STR)
    flags = piece.flags
    escaped = flags.escape
    if flags.header:

        def header(view: View) -> bytes:
            value: bytes | None = value_of(view)
            if not value:
                return b""
            if value.translate(None, _HEADER_SAFE):
                value = _UNSAFE.sub(_percent, value)
            return _STRUCTURED.sub(rb"\\\1", value) if escaped else value

        return header
    quoted = flags.quote
    missing = b'""' if quoted else (b"-" if flags.mandatory else b"")

    def text(view: View) -> bytes:
        value: bytes | None = value_of(view)
        if not value:
            return missing
        if escaped:
            value = _STRUCTURED.sub(rb"\\\1", value)
        elif b"\0" in value:
            # where a C string ends
            value = value[: value.index(b"\0")]
        return b'"%b"' % value if quoted else value

    return text


def _percent(found: re.Match[bytes]) -> bytes:
    return b"%%%02X" % found[0][0]

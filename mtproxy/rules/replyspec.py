"""The arguments of replies while they are read: `return`, `deny`, `tarpit`, `http-error`
(manual 4.2, "http-request return").

What they name is loaded here, so that nothing is read from the disk later. Main thread, at load.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mtproxy.base.errors import ConfigError
from mtproxy.base.files import read_whole
from mtproxy.base.ruleset import Format, ReplyKind, ReplySpec, StoredMessage
from mtproxy.http import replies
from mtproxy.http.edit import fits_a_line
from mtproxy.http.stored import BadStored, parse_stored
from mtproxy.rules.actions.headers import header_name, header_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.rules.reader import RuleReader

DEFAULT_BUFSIZE: Final = 16384
DEFAULT_MAXREWRITE: Final = 1024

#: fields that a reply writes itself
_OWN_FIELDS: Final = frozenset({b"content-length", b"transfer-encoding", b"content-type"})
#: what gives a reply its body
_BODIES: Final = (
    "default-errorfiles",
    "errorfile",
    "errorfiles",
    "file",
    "lf-file",
    "lf-string",
    "string",
)
WORDS: Final = ("status", "content-type", "hdr", *_BODIES)


def tune_of(draft: object, name: str, default: int) -> int:
    """A `tune.` value as it has been set so far; `draft` is that of the global section, or None."""
    tune: dict[str, int] = getattr(draft, "tune", {})
    return int(tune.get(name, default))


def load_stored(path: str, draft: object, warn: Callable[[str], None]) -> StoredMessage:
    """The response in an error file. Raises ConfigError without the keyword's name.

    `draft` is the global section's. A file that is longer than a buffer is cut, and one that
    leaves less than `tune.maxrewrite` of it is warned about, as in HAProxy.
    """
    bufsize = tune_of(draft, "tune.bufsize", DEFAULT_BUFSIZE)
    data = _read(path)
    if len(data) > bufsize:
        warn(f"custom error message file '{path}' larger than {bufsize} bytes. Truncating.")
        data = data[:bufsize]
    try:
        stored = parse_stored(data)
    except BadStored as error:
        raise ConfigError(f"'{path}': {error}", word=path) from None
    if len(data) > bufsize - tune_of(draft, "tune.maxrewrite", DEFAULT_MAXREWRITE):
        warn(
            f"errorfile '{path}' runs over the buffer space reserved to headers rewriting. It may"
            " lead to internal errors if http-after-response rules are evaluated on this message."
        )
    return replace(stored, path=path)


def _read(path: str) -> bytes:
    try:
        return read_whole(path)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise ConfigError(f"error opening file '{path}' : {reason}", word=path) from None


class _Parts:
    """What has been read so far."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.kind = ReplyKind.EMPTY
        #: the word that gave the body
        self.word = ""
        self.headers: list[tuple[bytes, Format]] = []
        self.content_type: bytes | None = None
        self.body = b""
        #: a log-format text that is read when the other arguments are known
        self.text: str | None = None
        self.section = ""
        self.stored: StoredMessage | None = None


def parse_reply(reader: RuleReader, status: int) -> ReplySpec:
    """A reply from the reader's cursor up to the first word that is no argument of one.

    `status` is what it has unless another one is given. Raises ConfigError.
    """
    parts = _Parts(status)
    while reader.more():
        word = reader.peek()
        if word not in WORDS:
            break
        reader.next()
        if word == "status":
            parts.status = reader.integer(200, 599)
        elif word == "content-type":
            text = reader.value("a content type").encode("utf-8", "surrogateescape")
            if not fits_a_line(text):
                raise reader.error("a header cannot hold a line end or a NUL")
            parts.content_type = text
        elif word == "hdr":
            _header(reader, parts)
        else:
            if parts.kind is not ReplyKind.EMPTY:
                raise reader.error(
                    f"unexpected '{word}' argument, '{parts.word}' already defined", word
                )
            parts.word = word
            _body(reader, parts, word)
    return _finish(reader, parts)


def _header(reader: RuleReader, parts: _Parts) -> None:
    name = header_name(reader)
    if name in _OWN_FIELDS:
        reader.value("a log-format string")
        reader.warn(f"header '{name.decode()}' always ignored by the http reply.")
        return
    parts.headers.append((name, header_value(reader)))


def _body(reader: RuleReader, parts: _Parts, word: str) -> None:
    match word:
        case "default-errorfiles":
            parts.kind = ReplyKind.DEFAULT
        case "errorfiles":
            parts.kind = ReplyKind.SECTION
            parts.section = reader.value("the name of an http-errors section")
            reader.refer("http-errors", parts.section, parts.section)
        case "errorfile":
            parts.kind = ReplyKind.STORED
            path = reader.value("a file name")
            try:
                parts.stored = load_stored(path, reader.global_draft, reader.warn)
            except ConfigError as error:
                raise reader.error(error.message, path) from None
        case "file":
            parts.kind = ReplyKind.BYTES
            parts.body = _file(reader)
        case "string":
            parts.kind = ReplyKind.BYTES
            parts.body = reader.value("a text").encode("utf-8", "surrogateescape")
        case "lf-file":
            parts.kind = ReplyKind.FORMAT
            parts.text = os.fsdecode(_file(reader).partition(b"\0")[0])
        case _:
            parts.kind = ReplyKind.FORMAT
            parts.text = reader.value("a log-format string behind 'lf-string'")


def _file(reader: RuleReader) -> bytes:
    path = reader.value("a file name")
    bufsize = tune_of(reader.global_draft, "tune.bufsize", DEFAULT_BUFSIZE)
    try:
        data = _read(path)
    except ConfigError as error:
        raise reader.error(error.message, path) from None
    if len(data) > bufsize:
        raise reader.error(f"file '{path}' exceeds the buffer size ({len(data)} > {bufsize})", path)
    return data


def _finish(reader: RuleReader, parts: _Parts) -> ReplySpec:
    """Check the arguments against each other; the words of HAProxy's warnings."""
    kind, status = parts.kind, parts.status
    ctype = parts.content_type
    shown = "" if ctype is None else ctype.decode("utf-8", "replace")
    fmt: Format | None = None
    if kind in (ReplyKind.DEFAULT, ReplyKind.SECTION, ReplyKind.STORED):
        if kind is not ReplyKind.STORED and status not in replies.STATUSES:
            raise reader.error(
                f"status code '{status}' not handled by default with '{parts.word}' argument."
            )
        if ctype is not None:
            reader.warn(
                f"content-type '{shown}' ignored by the http reply when used with an errorfile."
            )
        if parts.headers:
            reader.warn("hdr parameters ignored by the http reply when used with an errorfile.")
        return ReplySpec(status, kind, section=parts.section, stored=parts.stored)
    if kind is ReplyKind.EMPTY:
        if ctype is not None:
            reader.warn(
                f"content-type '{shown}' ignored by the http reply because neither errorfile nor"
                " payload defined."
            )
    elif kind is ReplyKind.BYTES:
        _check_bytes(reader, parts, shown)
    else:
        if status in (204, 304):
            raise reader.error(f"No body expected for {status} responses")
        if ctype is None:
            raise reader.error("a content type must be defined with a log-format payload")
        assert parts.text is not None
        fmt = reader.format(parts.text)
    return ReplySpec(status, kind, tuple(parts.headers), ctype, parts.body, fmt)


def _check_bytes(reader: RuleReader, parts: _Parts, content_type: str) -> None:
    body = parts.body
    if body and parts.status in (204, 304):
        raise reader.error(f"No body expected for {parts.status} responses")
    if body and parts.content_type is None:
        raise reader.error("a content type must be defined when non-empty payload is configured")
    if parts.content_type is not None and not body:
        reader.warn(
            f"content-type '{content_type}' ignored by the http reply when used with an empty"
            " payload."
        )
    bufsize = tune_of(reader.global_draft, "tune.bufsize", DEFAULT_BUFSIZE)
    reserved = tune_of(reader.global_draft, "tune.maxrewrite", DEFAULT_MAXREWRITE)
    if bufsize - len(body) < reserved:
        reader.warn(
            "http reply payload runs over the buffer space reserved to headers rewriting. It may"
            " lead to internal errors if strict rewriting mode is enabled."
        )

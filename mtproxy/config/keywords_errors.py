"""Replies in place of the built-in ones: errorfile, errorfiles, errorloc, http-error, `http-errors`
sections (manual 3.8, 4.2); and the keyword `redirect`.

Exports `KEYWORDS`. Files are read when their line is; later lines win, and lines that were
inherited come first. Main thread only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.base.ruleset import ReplyKind, ReplySpec, StoredMessage
from mtproxy.config.drafts import ErrorLine, HttpErrorsDraft
from mtproxy.config.keywords_rules import reader_of
from mtproxy.config.model import (
    IN_HTTP_ERRORS,
    PROXY,
    PROXY_ONLY,
    Keyword,
    Parser,
    Statement,
    check_name,
    integer,
)
from mtproxy.config.rule_order import warn_misplaced
from mtproxy.http import replies
from mtproxy.http.edit import fits_a_line
from mtproxy.rules import points
from mtproxy.rules.actions.redirect import parse_keyword
from mtproxy.rules.replyspec import WORDS, load_stored, parse_reply

if TYPE_CHECKING:
    from mtproxy.config.context import Context
    from mtproxy.config.drafts import ProxyDraft


def open_section(ctx: Context, st: Statement) -> None:
    """An `http-errors` section begins."""
    name = st.arg(1)
    ctx.current_errors = draft = HttpErrorsDraft(name, st.location)
    if not name:
        raise ConfigError("'http-errors' expects a name as argument")
    check_name(name, "http-errors")
    other = ctx.http_errors.get(name)
    if other is not None:
        place = f"{other.location.file}:{other.location.line}"
        raise ConfigError(
            f"http-errors section '{name}' already exists (declared at {place})", word=name
        )
    ctx.http_errors[name] = draft
    st.at_most(1)


def _status(st: Statement, index: int) -> int:
    """A status code that has a built-in reply."""
    name = st.words[0]
    text = st.required(index, "a status code")
    status = integer(name, text)
    if status not in replies.STATUSES:
        raise ConfigError(f"'{name}' : status code '{status}' not handled.", word=text)
    return status


def _stored(ctx: Context, st: Statement) -> StoredMessage:
    path = st.required(2, "a status code and a file name")
    st.at_most(2)
    try:
        return load_stored(path, ctx.global_, lambda message: ctx.warn(st.location, message))
    except ConfigError as error:
        raise ConfigError(f"'{st.words[0]}' : {error.message}", word=path) from None


def _section_errorfile(ctx: Context, st: Statement) -> None:
    status = _status(st, 1)
    ctx.errors.messages[status] = _stored(ctx, st)


def _errorfile(ctx: Context, st: Statement) -> None:
    status = _status(st, 1)
    spec = ReplySpec(status, ReplyKind.STORED, stored=_stored(ctx, st), words=st.words)
    ctx.proxy.errors.append(ErrorLine(st.location, spec))


def _errorloc(code: int, reason: bytes) -> Parser:
    def parse(ctx: Context, st: Statement) -> None:
        status = _status(st, 1)
        word = st.required(2, "a status code and a URL")
        url = word.encode("utf-8", "surrogateescape")
        if not fits_a_line(url):
            raise ConfigError("a header cannot hold a line end or a NUL", word=word)
        st.at_most(2)
        headers = ((b"cache-control", b"no-cache"), (b"content-length", b"0"), (b"location", url))
        stored = StoredMessage(11, code, reason, headers)
        spec = ReplySpec(status, ReplyKind.STORED, stored=stored, words=st.words)
        ctx.proxy.errors.append(ErrorLine(st.location, spec))

    return parse


def _errorfiles(ctx: Context, st: Statement) -> None:
    name = st.required(1, "the name of an http-errors section")
    statuses = tuple(_status(st, index) for index in range(2, len(st.words)))
    ctx.proxy.errors.append(ErrorLine(st.location, None, name, statuses))


def _http_error(ctx: Context, st: Statement) -> None:
    reader = reader_of(ctx, st, points.HTTP_ERROR, 1)
    spec = parse_reply(reader, 0)
    if reader.more():
        raise reader.unknown(reader.peek(), WORDS)
    if not spec.status:
        raise reader.error("expects at least a <status> as arguments.")
    if spec.status not in replies.STATUSES:
        raise reader.error(f"status code '{spec.status}' not handled.", str(spec.status))
    line = ErrorLine(st.location, replace(spec, words=st.words))
    if spec.kind is ReplyKind.SECTION:
        line = ErrorLine(st.location, None, spec.section, (spec.status,))
    ctx.proxy.errors.append(line)


def _redirect(ctx: Context, st: Statement) -> None:
    reader = reader_of(ctx, st, points.HTTP_REQUEST, 1)
    rule = parse_keyword(reader)
    warn_misplaced(ctx, st, "redirect")
    ctx.proxy.rules.sets.setdefault("redirect", []).append(rule)


def resolve(ctx: Context, proxy: ProxyDraft) -> dict[int, ReplySpec]:
    """What the lines of a proxy come to; alerts for sections that do not exist."""
    specs: dict[int, ReplySpec] = {}
    for line in proxy.errors:
        if line.spec is not None:
            specs[line.spec.status] = line.spec
            if line.spec.kind is ReplyKind.DEFAULT:
                del specs[line.spec.status]
            continue
        section = ctx.http_errors.get(line.section)
        if section is None:
            ctx.diagnostics.alert(
                f"proxy '{proxy.name}': unknown http-errors section '{line.section}'",
                line.location,
                word=line.section,
                suggestion=nearest(line.section, ctx.http_errors),
            )
            continue
        for status in line.statuses or section.messages:
            if status in section.messages:
                words = ("errorfiles", line.section, str(status))
                specs[status] = ReplySpec(
                    status, ReplyKind.SECTION, section=line.section, words=words
                )
            else:
                ctx.warn(
                    line.location,
                    f"proxy '{proxy.name}' : status '{status}' not declared in http-errors section"
                    f" '{line.section}'",
                )
    return specs


KEYWORDS: Final[tuple[Keyword, ...]] = (
    Keyword("errorfile", PROXY, _errorfile),
    Keyword("errorfiles", PROXY, _errorfiles),
    Keyword("errorloc", PROXY, _errorloc(302, b"Found")),
    Keyword("errorloc302", PROXY, _errorloc(302, b"Found")),
    Keyword("errorloc303", PROXY, _errorloc(303, b"See Other")),
    Keyword("http-error", PROXY, _http_error),
    Keyword("redirect", PROXY_ONLY, _redirect),
    Keyword("errorfile", IN_HTTP_ERRORS, _section_errorfile),
)

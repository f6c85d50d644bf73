"""What health checks say and expect: tcp-check, http-check, option httpchk and its like (manual
4.2).

Exports `KEYWORDS`. The steps of a rule are read here; how they come together is `config.checks`.
What the protocols' own options (`option redis-check`, ...) stand for is in `config.checkprotocols`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace

from mtproxy.base.address import AddressError, Port, parse_address
from mtproxy.base.checkscript import (
    ActStep,
    CommentStep,
    ConnectStep,
    ExpectStep,
    HeaderPattern,
    HttpSendStep,
    Pattern,
    SendStep,
    Step,
)
from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.base.ruleset import Expression, Format
from mtproxy.config import checkprotocols
from mtproxy.config.checks import check_first_connect
from mtproxy.config.context import Context
from mtproxy.config.keywords_rules import find_action, reader_of
from mtproxy.config.model import BACK, Keyword, Parser, Statement
from mtproxy.rules import points, regex
from mtproxy.rules.logformat.strings import PLAIN, parse_format
from mtproxy.rules.reader import RuleReader

_TLS = ("ssl", "sni", "alpn")
_SENDS = ("send", "send-binary", "send-lf", "send-binary-lf")
_CONNECT = ("default", "port", "addr", "send-proxy", "via-socks4", "linger", "proto", "comment")
_TCP_PATTERNS = ("string", "rstring", "string-lf", "binary", "rbinary", "binary-lf")
_HTTP_PATTERNS = ("string", "rstring", "string-lf", "status", "rstatus", "hdr", "fhdr")
_EXPECT_OPTIONS = (
    "min-recv",
    "comment",
    "on-success",
    "on-error",
    "ok-status",
    "error-status",
    "tout-status",
    "status-code",
)
_METHODS = ("str", "beg", "end", "sub", "reg")
_HTTP_SEND = ("meth", "uri", "uri-lf", "ver", "hdr", "body", "body-lf", "comment")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch

#: the statuses that each of these may ask for
_STATUSES = {
    "ok-status": ("L4OK", "L6OK", "L7OK", "L7OKC"),
    "error-status": ("L4CON", "L6RSP", "L7RSP", "L7STS", "L7OKC"),
    "tout-status": ("L4TOUT", "L6TOUT", "L7TOUT"),
}


# --- words that several steps have


def _reader(ctx: Context, st: Statement, title: str) -> RuleReader:
    """A reader of the words behind the first two. Whatever the proxy's mode is, a check sees bytes
    as they come.
    """
    return replace(reader_of(ctx, st, points.CHECK, 2, title), mode="tcp")


def _format(reader: RuleReader, text: str) -> Format:
    return parse_format(reader, text, reader.point, flags=PLAIN)


def _sample(reader: RuleReader, word: str) -> Expression:
    """An expression that is one word."""
    inner = replace(reader, words=(word,), position=0, argument=None)
    expression = inner.expression()
    inner.end()
    return expression


def _digits(reader: RuleReader, text: str) -> bytes:
    """Bytes written in hexadecimal."""
    try:
        if not text.isalnum():
            raise ValueError
        return bytes.fromhex(text)
    except ValueError:
        what = (
            "an even number of hex digits is expected"
            if re.fullmatch(r"[0-9a-fA-F]+", text)
            else "hexadecimal digits are expected"
        )
        raise reader.error(f"invalid binary string '{text}' ({what})", text) from None


def _regex(reader: RuleReader, text: str) -> str:
    try:
        regex.compile(text)
    except regex.RegexError as error:
        raise reader.error(f"regex '{text}' is invalid ({error})", text) from None
    return text


def _comment(reader: RuleReader, names: tuple[str, ...]) -> str:
    """The words behind a step that takes a comment alone."""
    comment = ""
    while reader.more():
        reader.choice(names)
        comment = reader.value("a string")
    return comment


# --- connect


def _connect(ctx: Context, reader: RuleReader) -> ConnectStep:
    step = ConnectStep()
    while reader.more():
        word = reader.next()
        match word:
            case "default":
                step = replace(step, default=True)
            case "send-proxy":
                step = replace(step, send_proxy=True)
            case "via-socks4":
                step = replace(step, via_socks4=True)
            case "linger":
                step = replace(step, linger=True)
            case "comment":
                step = replace(step, comment=reader.value("a string"))
            case "addr":
                text = reader.value("an address")
                try:
                    address = parse_address(
                        text, ctx.environ, port=Port.OPTIONAL, resolver=ctx.resolver
                    ).address
                except AddressError as error:
                    raise reader.error(f"'addr' : {error}", text) from None
                step = replace(step, address=address)
            case "port":
                text = reader.value("a port number or a sample expression")
                if text.isascii() and text.isdigit():
                    if not 1 <= int(text) <= 65535:
                        raise reader.error(
                            "expects a valid TCP port (from range 1 to 65535) or a sample"
                            f" expression, got {text}",
                            text,
                        )
                    step = replace(step, port=int(text), port_expression=None)
                else:
                    step = replace(step, port=0, port_expression=_sample(reader, text))
            case "proto":
                _protocol(reader)
            case _ if word in _TLS:
                raise reader.error(
                    f"'{word}' is known but not supported by mtproxy yet (TLS)", word
                )
            case _:
                raise reader.unknown(word, _CONNECT)
    return step


def _protocol(reader: RuleReader) -> None:
    name = reader.value("a protocol name")
    if name in ("h2", "fcgi"):
        raise reader.error(f"'proto {name}' is known but not supported by mtproxy yet", name)
    if name not in ("h1", "none"):
        raise reader.error(f"'proto' : unknown MUX protocol '{name}'", name)
    if name != ("h1" if reader.title.startswith("http") else "none"):
        raise reader.error(f"'proto' : invalid MUX protocol '{name}'", name)


# --- send


def _send(reader: RuleReader, kind: str) -> SendStep:
    what = "a binary string" if kind == "send-binary" else "a string"
    text = reader.value(what)
    data: bytes | Format
    if kind == "send":
        data = os.fsencode(text)
    elif kind == "send-binary":
        data = _digits(reader, text)
    else:
        data = _format(reader, text)
    comment = _comment(reader, ("comment",))
    return SendStep(comment=comment, data=data, hexadecimal=kind == "send-binary-lf")


def _http_send(reader: RuleReader) -> HttpSendStep:
    step = HttpSendStep()
    headers: list[tuple[bytes, Format]] = []
    while reader.more():
        word = reader.next()
        match word:
            case "meth":
                text = reader.value("a method")
                if _TOKEN(text) is None:
                    raise reader.error(f"'{text}' is not a valid method", text)
                step = replace(step, method=text.encode())
            case "uri":
                step = replace(step, uri=os.fsencode(reader.value("a URI")))
            case "uri-lf":
                step = replace(step, uri=_format(reader, reader.value("a URI")))
            case "ver":
                step = replace(step, version=os.fsencode(reader.value("a version")))
            case "hdr":
                _add_header(reader, headers)
            case "body":
                step = replace(step, body=os.fsencode(reader.value("a string")))
            case "body-lf":
                step = replace(step, body=_format(reader, reader.value("a string")))
            case "comment":
                step = replace(step, comment=reader.value("a string"))
            case _:
                raise reader.unknown(word, _HTTP_SEND)
    return replace(step, headers=tuple(headers))


def _add_header(reader: RuleReader, headers: list[tuple[bytes, Format]]) -> None:
    """`hdr NAME VALUE`. What says how long the body is, is the check's own to say."""
    name = reader.value("a name and a value")
    if _TOKEN(name) is None:
        raise reader.error(f"'{name}' is not a valid header name", name)
    value = reader.value("a name and a value")
    lower = name.lower().encode()
    if lower in (b"content-length", b"transfer-encoding"):
        return
    if lower == b"host":
        for other, earlier in headers:
            if other == lower:
                raise reader.error(
                    f"'{name}' header already defined (previous value is '{earlier.text}')", name
                )
    headers.append((lower, _format(reader, value)))


# --- expect


class _ExpectReader:
    """Words of one `expect`. A pattern may stand once; options where they like."""

    def __init__(self, reader: RuleReader, *, http: bool) -> None:
        self.reader = reader
        self.http = http
        self.step = ExpectStep()
        self.found = False

    def read(self) -> ExpectStep:
        reader = self.reader
        if not reader.more():
            raise reader.error("expects at least a matching pattern as arguments")
        while reader.more():
            word = reader.next()
            negated = False
            while word.startswith("!"):
                negated = True
                self.step = replace(self.step, negated=not self.step.negated)
                word = word[1:]
                if not word:
                    word = reader.value("a pattern")
            self._word(word, negated)
        if not self.found:
            raise reader.error("pattern not found")
        return self.step

    def _word(self, word: str, negated: bool) -> None:
        reader = self.reader
        patterns = _HTTP_PATTERNS if self.http else _TCP_PATTERNS
        if word in patterns:
            if self.found:
                raise reader.error("only one pattern expected", word)
            self.found = True
            self._pattern(word)
        elif word in _EXPECT_OPTIONS:
            if negated:
                raise reader.error(f"[!] not supported with '{word}'", word)
            self._option(word)
        else:
            raise reader.unknown(word, patterns + _EXPECT_OPTIONS)

    def _pattern(self, word: str) -> None:
        reader = self.reader
        if word in ("hdr", "fhdr"):
            self._set(Pattern.HEADER, self._header(word))
            return
        text = reader.value("a pattern")
        pattern = Pattern(word)
        match pattern:
            case Pattern.STRING:
                self._set(pattern, os.fsencode(text))
            case Pattern.BINARY:
                self._set(pattern, _digits(reader, text))
            case Pattern.FORMAT | Pattern.BINARY_FORMAT:
                self._set(pattern, _format(reader, text))
            case Pattern.STATUS:
                self._set(pattern, _ranges(reader, text))
            case _:
                self._set(pattern, _regex(reader, text))

    def _set(
        self,
        pattern: Pattern,
        data: bytes | str | Format | HeaderPattern | tuple[tuple[int, int], ...],
    ) -> None:
        self.step = replace(self.step, pattern=pattern, data=data)

    def _header(self, word: str) -> HeaderPattern:
        reader = self.reader
        name_method, name = self._part("name", word)
        value_method: str = ""
        value: str | Format = ""
        if reader.peek() in ("value", "value-lf"):
            value_method, value = self._part("value", word)
        return HeaderPattern(name_method, name, value_method, value, full=word == "fhdr")

    def _part(self, what: str, word: str) -> tuple[str, str | Format]:
        """`name[-lf] [-m METHOD] PATTERN`, and the same of the value."""
        reader = self.reader
        kind = reader.value(f"'{what}' or '{what}-lf' and a pattern")
        if kind not in (what, f"{what}-lf"):
            raise reader.error(f"'{word}' expects '{what}' as first argument, not '{kind}'", kind)
        method = "str"
        if reader.peek() == "-m":
            reader.next()
            method = reader.choice(_METHODS, "a method, one of")
        text = reader.value("a pattern")
        if kind == what:
            return method, _regex(reader, text) if method == "reg" else text
        if method == "reg":
            raise reader.error(
                "a log-format string is not supported with a regex matching method", text
            )
        return method, _format(reader, text)

    def _option(self, word: str) -> None:
        reader = self.reader
        match word:
            case "min-recv":
                self.step = replace(self.step, min_recv=reader.integer(-1, 2147483647))
            case "comment":
                self.step = replace(self.step, comment=reader.value("a string"))
            case "on-success":
                self.step = replace(self.step, on_success=_format(reader, reader.value()))
            case "on-error":
                self.step = replace(self.step, on_error=_format(reader, reader.value()))
            case "status-code":
                text = reader.value("an expression")
                self.step = replace(self.step, status_code=_sample(reader, text))
            case _:
                status = self._status(word)
                match word:
                    case "ok-status":
                        self.step = replace(self.step, ok_status=status)
                    case "error-status":
                        self.step = replace(self.step, error_status=status)
                    case _:
                        self.step = replace(self.step, timeout_status=status)

    def _status(self, word: str) -> str:
        text = self.reader.value("a status")
        allowed = _STATUSES[word]
        if text.upper() not in allowed:
            raise self.reader.error(
                f"'{word}' only supports {', '.join(map(repr, allowed))} status (got '{text}')",
                text,
                nearest(text.upper(), allowed),
            )
        return text.upper()


def _ranges(reader: RuleReader, text: str) -> tuple[tuple[int, int], ...]:
    """`200,301-399`."""
    result = []
    for part in text.split(","):
        found = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
        if found is None:
            raise reader.error(f"invalid status codes '{part}' in '{text}'", text)
        low = int(found[1])
        high = low if found[2] is None else int(found[2])
        if low > high:
            raise reader.error(f"invalid range of status codes '{part}'", text)
        result.append((low, high))
    return tuple(result)


# --- statements


def _action(reader: RuleReader, ruleset: str, known: tuple[str, ...]) -> ActStep:
    """set-var and its like."""
    word = reader.peek()
    try:
        entry = find_action(reader, ruleset)
    except ConfigError as error:
        if "unknown action" not in error.message:
            raise
        raise ConfigError(
            f"'{ruleset}' only supports {', '.join(map(repr, known))}, 'set-var', 'set-var-fmt'"
            f" and 'unset-var' (got '{word}')",
            word=word,
            suggestion=nearest(word.partition("(")[0], (*known, "set-var", "unset-var")),
        ) from None
    assert entry.parse is not None
    args = entry.parse(reader)
    if reader.more():
        extra = reader.peek()
        raise reader.error(f"unexpected argument '{extra}'", extra)
    return ActStep(action=entry.name, args=args)


def parse_tcp(ctx: Context, st: Statement) -> Step:
    """The step of a `tcp-check` rule. Raises ConfigError."""
    return _step(ctx, st, "tcp-check", _SENDS, _send)


def parse_http(ctx: Context, st: Statement) -> Step:
    """The step of an `http-check` rule. Raises ConfigError."""
    return _step(ctx, st, "http-check", ("send",), lambda reader, _word: _http_send(reader))


def _step(
    ctx: Context,
    st: Statement,
    name: str,
    sends: tuple[str, ...],
    send: Callable[[RuleReader, str], Step],
) -> Step:
    known = ("comment", "connect", *sends, "expect")
    word = st.required(1, "a keyword")
    reader = _reader(ctx, st, f"{name} {word}")
    checks = ctx.proxy.checks
    step: Step
    if word == "comment":
        step = CommentStep(comment=reader.value("a string"))
        if reader.more():
            raise reader.error(f"unexpected argument '{reader.peek()}'", reader.peek())
    elif word == "connect":
        wrong = check_first_connect(checks.own_http if name == "http-check" else checks.own_tcp)
        if wrong is not None:
            raise reader.error(wrong, word)
        step = _connect(ctx, reader)
    elif word in sends:
        step = send(reader, word)
    elif word == "expect":
        step = _ExpectReader(reader, http=name == "http-check").read()
    else:
        reader.position = 1
        reader.title = name
        step = _action(reader, name, known)
    return replace(step, words=st.words)


def _tcp_check(ctx: Context, st: Statement) -> None:
    ctx.proxy.checks.add_tcp(parse_tcp(ctx, st))


def _http_check(ctx: Context, st: Statement) -> None:
    checks = ctx.proxy.checks
    if st.arg(1) in ("disable-on-404", "send-state"):
        st.at_most(0, taken=2)
        if st.arg(1) == "send-state":
            checks.send_state = True
        else:
            checks.disable_on_404 = True
        return
    step = parse_http(ctx, st)
    try:
        checks.add_http(step)
    except ConfigError as error:
        raise ConfigError(f"'{' '.join(st.words[:2])}' : {error.message}", word=st.arg(1)) from None


def _chosen(ctx: Context, st: Statement) -> None:
    """An option has said what the check is: no other does."""
    ctx.proxy.options.discard("external-check")
    ctx.proxy.checks.option = st.words


def _tcp_check_option(ctx: Context, st: Statement) -> None:
    st.at_most(0, taken=2)
    ctx.proxy.checks.choose_tcp()
    _chosen(ctx, st)


def _httpchk(ctx: Context, st: Statement) -> None:
    """`option httpchk [[METHOD] URI [VERSION]]`; headers may hide behind the version."""
    st.at_most(3, taken=2)
    args = list(st.words[2:])
    method, uri, version = "", "", ""
    if len(args) == 1:
        uri = args[0]
    elif args:
        method, uri, *rest = args
        version = rest[0] if rest else ""
    version, _, rest_text = version.partition("\r\n")
    lines, _, body = (
        rest_text if rest_text[:2] != "\r\n" else "\r\n\r\n" + rest_text[2:]
    ).partition("\r\n\r\n")
    if rest_text:
        ctx.warn(
            st.location,
            "'option httpchk' : hiding headers or body at the end of the version string is"
            " deprecated. Please, consider to use 'http-check send' directive instead.",
        )
    reader = _reader(ctx, st, "option httpchk")
    headers: list[tuple[bytes, Format]] = []
    for line in lines.split("\r\n") if lines else ():
        name, colon, value = line.partition(":")
        if not colon or _TOKEN(name) is None:
            raise reader.error(f"'{line}' is not a valid header", st.arg(4))
        headers.append((name.lower().encode(), _format(reader, value.strip(" \t"))))
    request = HttpSendStep(
        method=method.encode("utf-8", "surrogateescape"),
        uri=os.fsencode(uri),
        version=os.fsencode(version),
        headers=tuple(headers),
        body=os.fsencode(body),
        from_option=True,
        option=st.words,
    )
    ctx.proxy.checks.choose_http(request)
    _chosen(ctx, st)


def _protocol_option(name: str) -> Parser:
    """An option that stands for a script of its own."""

    def parse(ctx: Context, st: Statement) -> None:
        script = checkprotocols.SCRIPTS[name](st)
        reader = _reader(ctx, st, f"option {name}")
        steps: list[Step] = []
        for index, words in enumerate(script.rules):
            if isinstance(words, ExpectStep):
                steps.append(replace(words, index=index))
                continue
            inner = replace(st, words=("tcp-check", *words), columns=())
            steps.append(replace(parse_tcp_step(ctx, inner, reader), index=index, words=()))
        ctx.proxy.checks.choose(name, steps)
        _chosen(ctx, st)

    return parse


def parse_tcp_step(ctx: Context, st: Statement, reader: RuleReader) -> Step:
    """A step of a protocol's script, which has its own place in the order of steps."""
    word = st.words[1]
    inner = replace(reader, words=st.words, position=2)
    if word == "connect":
        return _connect(ctx, inner)
    if word == "expect":
        return _ExpectReader(inner, http=False).read()
    return _send(inner, word)


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("tcp-check", BACK, _tcp_check),
    Keyword("http-check", BACK, _http_check),
    Keyword("option tcp-check", BACK, _tcp_check_option),
    Keyword("option httpchk", BACK, _httpchk),
    *(Keyword(f"option {name}", BACK, _protocol_option(name)) for name in checkprotocols.SCRIPTS),
)

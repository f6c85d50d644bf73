"""How clients come back to their server: cookie, use-server, force-persist, ... (manual 4.2).

Exports `KEYWORDS`.
"""

from __future__ import annotations

import os
from typing import Any

from mtproxy.base.errors import ConfigError
from mtproxy.base.settings import CookieSettings
from mtproxy.config.context import Context
from mtproxy.config.keywords_rules import parse_choice, reader_of
from mtproxy.config.model import BACK, BACK_ONLY, Keyword, Parser, Statement, seconds
from mtproxy.rules import points

_MODES = ("rewrite", "insert", "prefix")
_FLAGS = ("indirect", "nocache", "postonly", "preserve", "httponly", "secure", "dynamic")
_VALUES = ("domain", "maxidle", "maxlife", "attr")


def _cookie(ctx: Context, st: Statement) -> None:
    name = st.required(1, "a cookie name")
    values: dict[str, Any] = {}
    domains: list[bytes] = []
    attributes: list[bytes] = []
    position = 2
    while position < len(st.words):
        word = st.words[position]
        position += 1
        if word in _MODES:
            if values.get("mode", word) != word:
                raise ConfigError(
                    "'cookie' : 'rewrite', 'insert' and 'prefix' modes are incompatible", word=word
                )
            values["mode"] = word
        elif word in _FLAGS:
            values[word] = True
        elif word in _VALUES:
            if position >= len(st.words):
                raise ConfigError(f"'cookie {word}' expects an argument", word=word)
            text = st.words[position]
            position += 1
            if word == "domain":
                domains.append(_domain(ctx, st, text))
            elif word == "attr":
                attributes.append(_attribute(text))
            else:
                values[word] = _period(word, text)
        else:
            raise ConfigError(
                "'cookie' supports 'rewrite', 'insert', 'prefix', 'indirect', 'nocache',"
                " 'postonly', 'preserve', 'httponly', 'secure', 'domain', 'maxidle', 'maxlife',"
                f" 'dynamic' and 'attr' options (got '{word}')",
                word=word,
                suggestion=_nearest(word),
            )
    mode = values.get("mode", "")
    if (values.get("maxidle") or values.get("maxlife")) and mode != "insert":
        raise ConfigError("'cookie' : 'maxidle' and 'maxlife' work with 'insert' mode only")
    if values.get("preserve") and not (mode == "insert" or values.get("indirect")):
        raise ConfigError("'cookie preserve' requires at least 'insert' or 'indirect'")
    ctx.proxy.cookie = CookieSettings(
        os.fsencode(name), domains=tuple(domains), attributes=tuple(attributes), **values
    )


def _nearest(word: str) -> str | None:
    from mtproxy.base.nearest import nearest

    return nearest(word, (*_MODES, *_FLAGS, *_VALUES))


def _domain(ctx: Context, st: Statement, text: str) -> bytes:
    if not text.isascii() or any(char in "; \t," for char in text):
        raise ConfigError(f"'cookie' : character not permitted in domain '{text}'", word=text)
    if "." not in text:
        ctx.warn(
            st.location,
            f"domain '{text}' contains no embedded dot, this configuration may not work properly"
            " (see RFC6265#5.2.3)",
        )
    return os.fsencode(text)


def _attribute(text: str) -> bytes:
    for char in text:
        if ord(char) < 32 or char in ";\x7f":
            raise ConfigError(
                f"'cookie attr' : character {char!r} not permitted in attribute '{text}'", word=text
            )
    return os.fsencode(text)


def _period(name: str, text: str) -> int:
    value = seconds(f"cookie {name}", text)
    if not value:
        raise ConfigError(f"'cookie {name}' must be at least one second", word=text)
    return value


def _dynamic_cookie_key(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    ctx.proxy.dynamic_cookie_key = st.required(1, "a secret key")


def _use_server(ctx: Context, st: Statement) -> None:
    reader = reader_of(ctx, st, points.USE_SERVER, 1)
    choice = parse_choice(reader, "server")
    if choice.condition is None:
        raise reader.error("expects 'if' or 'unless' and a condition behind the server")
    ctx.proxy.rules.use_server.append(choice)


def _persist(force: bool) -> Parser:
    def parse(ctx: Context, st: Statement) -> None:
        reader = reader_of(ctx, st, points.USE_SERVER, 1)
        condition = reader.condition()
        if condition is None:
            raise reader.error("expects 'if' or 'unless' and a condition")
        ctx.proxy.rules.persist.append((force, condition))

    return parse


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("cookie", BACK, _cookie),
    Keyword("dynamic-cookie-key", BACK, _dynamic_cookie_key),
    Keyword("use-server", BACK_ONLY, _use_server, strict=True),
    Keyword("force-persist", BACK_ONLY, _persist(force=True)),
    Keyword("ignore-persist", BACK_ONLY, _persist(force=False)),
)

"""`stats` in proxies: the statistics page (manual 4.2).

Exports `KEYWORDS`. Every one of them turns the page on. The first in a proxy forgets what was
inherited from `defaults`, all of it, as in HAProxy: a proxy has either the page of its defaults or
one of its own. Main thread, at load.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.base.ruleset import StatsPage
from mtproxy.config.keywords_rules import parse_rule, reader_of
from mtproxy.config.model import DEFAULTS, PROXY, PROXY_ONLY, Keyword, Parser, Statement, seconds
from mtproxy.http.edit import fits_a_line
from mtproxy.rules import points

if TYPE_CHECKING:
    from mtproxy.config.context import Context
    from mtproxy.config.drafts import ProxyDraft

#: what browsers are told where nothing was configured; HAProxy's
DEFAULT_REALM: Final = b"HAProxy Statistics"

#: what `stats http-request` may do
_ACCESS: Final = ("allow", "deny", "auth")
_NODE: Final = re.compile(r"[A-Za-z0-9_.-]+")


def _page(ctx: Context) -> StatsPage:
    """The page of the section being read as it is so far."""
    proxy = ctx.proxy
    page, base = proxy.stats, proxy.base
    if page is None or (
        proxy.kind != DEFAULTS and base is not None and page is base.stats
    ):  # what was inherited does not mix with what the proxy says itself
        return StatsPage()
    return page


def _change(ctx: Context, **values: Any) -> None:
    ctx.proxy.stats = replace(_page(ctx), **values)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _at_most(ctx: Context, st: Statement, count: int) -> None:
    """HAProxy takes no notice of words behind the last one that it knows, such as those of a realm
    that is not quoted; files that work there have to load here.
    """
    if len(st.words) > count + 2:
        name = " ".join(st.words[:2])
        extra = " ".join(st.words[count + 2 :])
        ctx.warn(st.location, f"'{name}' : '{extra}' is ignored: it takes one word, quote blanks"
                 if count else f"'{name}' : '{extra}' is ignored")  # fmt: skip


def _flag(field: str = "") -> Parser:
    def parse(ctx: Context, st: Statement) -> None:
        _at_most(ctx, st, 0)
        _change(ctx, **({field: True} if field else {}))

    return parse


def _uri(ctx: Context, st: Statement) -> None:
    uri = _bytes(st.required(2, "a URI prefix", taken=2))
    _at_most(ctx, st, 1)
    if not fits_a_line(uri):
        raise ConfigError("'stats uri' : a header cannot hold a line end or a NUL", word=st.arg(2))
    _change(ctx, uri=uri)


def _realm(ctx: Context, st: Statement) -> None:
    realm = _bytes(st.required(2, "a realm", taken=2))
    _at_most(ctx, st, 1)
    if not fits_a_line(realm):
        raise ConfigError(
            "'stats realm' : a header cannot hold a line end or a NUL", word=st.arg(2)
        )
    _change(ctx, realm=realm)


def _refresh(ctx: Context, st: Statement) -> None:
    text = st.required(2, "a time", taken=2)
    _at_most(ctx, st, 1)
    _change(ctx, refresh=seconds("stats refresh", text))


def _auth(ctx: Context, st: Statement) -> None:
    name, _, password = st.required(2, "a user:password account", taken=2).partition(":")
    _at_most(ctx, st, 1)
    page = _page(ctx)
    if any(user == _bytes(name) for user, _ in page.users):
        ctx.warn(st.location, f"'stats auth' : ignoring duplicated user '{name}'")
        ctx.proxy.stats = page
        return
    _change(ctx, users=(*page.users, (_bytes(name), _bytes(password))))


def _scope(ctx: Context, st: Statement) -> None:
    name = st.required(2, "a proxy name", taken=2)
    _at_most(ctx, st, 1)
    scope = _page(ctx).scope
    _change(ctx, scope=scope if name in scope else (*scope, name))


def _show_node(ctx: Context, st: Statement) -> None:
    name = st.arg(2)
    _at_most(ctx, st, 1)
    if name and _NODE.fullmatch(name) is None:
        raise ConfigError(
            f"'stats show-node' : invalid node name '{name}': letters, digits, '-', '_' and '.'",
            word=name,
        )
    _change(ctx, node=name or _page(ctx).node or "")


def _show_desc(ctx: Context, st: Statement) -> None:
    text = " ".join(st.words[2:])
    if not text and not ctx.global_.values.get("description"):
        ctx.warn(
            st.location,
            "'stats show-desc' expects a text, or 'description' in the global section before it",
        )
        return
    _change(ctx, description=text or _page(ctx).description or "")


def _admin(ctx: Context, st: Statement) -> None:
    reader = reader_of(ctx, st, points.HTTP_REQUEST, 2)
    if reader.peek() not in ("if", "unless"):
        raise reader.error(
            "expects 'if' or 'unless' followed by a condition", reader.peek() or None
        )
    condition = reader.condition()
    assert condition is not None
    _change(ctx, admin=(*_page(ctx).admin, condition))


def _http_request(ctx: Context, st: Statement) -> None:
    reader = reader_of(ctx, st, points.HTTP_REQUEST, 2)
    word = reader.value("an action")
    if word not in _ACCESS:
        raise ConfigError(
            f"'stats http-request' : unknown action '{word}', expects 'allow', 'deny' or 'auth'",
            word=word,
            suggestion=nearest(word, _ACCESS),
        )
    reader.position -= 1
    rule = parse_rule(reader, "http-request")
    if rule.action == "auth" and rule.args is None:
        rule = replace(rule, args=DEFAULT_REALM)
    page = _page(ctx)
    if page.access and page.access[-1].condition is None:
        ctx.warn(
            st.location,
            "previous 'stats http-request' action has no condition attached,"
            " further entries are NOOP",
        )
    _change(ctx, access=(*page.access, rule))


def check(ctx: Context, proxy: ProxyDraft) -> None:
    """Two ways to say who may see the page exclude one another."""
    page = proxy.stats
    if page is not None and page.access and (page.users or page.realm is not None):
        ctx.diagnostics.alert(
            f"{proxy.title()} : 'stats auth' or 'stats realm' cannot be used together with"
            " 'stats http-request'",
            page.access[0].location,
        )


KEYWORDS: Final[tuple[Keyword, ...]] = (
    Keyword("stats admin", PROXY_ONLY, _admin),
    Keyword("stats auth", PROXY, _auth),
    Keyword("stats enable", PROXY, _flag()),
    Keyword("stats hide-version", PROXY, _flag("hide_version")),
    Keyword("stats http-request", PROXY_ONLY, _http_request),
    Keyword("stats realm", PROXY, _realm),
    Keyword("stats refresh", PROXY, _refresh),
    Keyword("stats scope", PROXY, _scope),
    Keyword("stats show-desc", PROXY, _show_desc),
    Keyword("stats show-legends", PROXY, _flag("legends")),
    Keyword("stats show-modules", PROXY, _flag("modules")),
    Keyword("stats show-node", PROXY, _show_node),
    Keyword("stats uri", PROXY, _uri),
)

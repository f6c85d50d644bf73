"""The statistics page of one proxy as a service: who may see it, what was asked for, the answer.

`stats` statements (manual 4.2) make one for each thread; the stream asks it behind the proxy's
http-request rules (`stream.rules.Intercept`). Reports are made in pieces while they are sent, so
that thousands of servers hold nobody up. Owner thread only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mtproxy.base.ruleset import Rule, StatsPage
from mtproxy.base.settings import UserSettings
from mtproxy.http.headers import make_header
from mtproxy.rules.build import BuiltRule
from mtproxy.rules.fetches.http_auth import Checker
from mtproxy.rules.reply import Message, Reply
from mtproxy.rules.verdict import Answer, Wait
from mtproxy.stats import admin, proxies, render, schema
from mtproxy.stats.page.report import report
from mtproxy.stats.pieces import in_pieces
from mtproxy.stream.stream import Stop

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.verdict import Verdict
    from mtproxy.rules.view import View
    from mtproxy.stats.runtime import ProxyRuntime, Runtime

#: how logs call it, in place of a server
NAME: Final = "<STATS>"

_DEFAULT_REALM: Final = b"HAProxy Statistics"
#: characters of a scope= that are looked at
_SCOPE_LENGTH: Final = 20
_find_scope = re.compile(rb"scope=([^;& ]*)").search
_match_name = re.compile(rb"[A-Za-z0-9_:.-]*").fullmatch
_find_state = re.compile(rb";st=(....)").search

_HTML, _CSV, _TYPED, _JSON, _SCHEMA = "html", "csv", "typed", "json", "json-schema"
_TYPES: Final = {
    _HTML: b"text/html",
    _CSV: b"text/plain",
    _TYPED: b"text/plain",
    _JSON: b"application/json",
    _SCHEMA: b"application/json",
}
#: as HAProxy looks for them: the last one that is there wins
_FORMATS: Final = (_CSV, _TYPED, _JSON, _SCHEMA)


@dataclass(frozen=True, slots=True)
class Query:
    """What stood behind the prefix of the page's URI. `state`: how the last change went."""

    form: str = _HTML
    up: bool = False
    no_maint: bool = False
    no_refresh: bool = False
    state: str = ""
    scope: str = ""
    #: what a link to the page as it is shown now has behind its prefix, but for `state`
    admin: bool = False


def parse(rest: bytes, *, admin_level: bool = False) -> Query:
    """Read what a target has behind the prefix; anything that is not known is ignored."""
    form = _HTML
    for one in _FORMATS:
        if b";" + one.encode() in rest:
            form = one
    state = _find_state(rest)
    scope = _find_scope(rest)
    wanted = b"" if scope is None else scope[1][:_SCOPE_LENGTH]
    if _match_name(wanted) is None:
        wanted = b""
    return Query(
        form,
        up=b";up" in rest,
        no_maint=b";no-maint" in rest,
        no_refresh=b";norefresh" in rest,
        state="" if state is None else state[1].decode("latin-1"),
        scope=wanted.decode(),
        admin=admin_level,
    )


class StatsService:
    """The page that one proxy answers with, on one thread."""

    __slots__ = ("_admin", "_build", "_page", "_runtime", "access", "name")

    def __init__(self, stats: StatsPage, runtime: Runtime, build: Build) -> None:
        self.name = NAME
        self._page = stats
        self._runtime = runtime
        self._build = build
        self._admin = [build.condition(condition) for condition in stats.admin]
        self.access: tuple[BuiltRule, ...] = tuple(BuiltRule(one, build) for one in stats.access)
        if stats.users:
            self.access = (_accounts(stats, build),)

    def wants(self, view: View) -> bool:
        """Whether a request is for the page."""
        request = view.request
        if request is None or request.method not in (b"GET", b"HEAD", b"POST"):
            return False
        target = request.target
        prefix = self._page.uri
        if target.startswith(prefix):
            return True
        return prefix.startswith(b"/") and _path(target).startswith(prefix)

    def answer(self, view: View) -> Verdict:
        """The page, or what becomes of a form."""
        request = view.request
        assert request is not None
        target = request.target
        prefix = self._page.uri
        if not target.startswith(prefix):
            target = _path(target)
        may_change = any(test(view) for test in self._admin)
        query = parse(target[len(prefix) :], admin_level=may_change)
        if request.method == b"POST":
            return Wait(_Form(self, query).run)
        return Answer(_Report(self, query))

    # --- what answers need
    @property
    def settings(self) -> StatsPage:
        return self._page

    @property
    def runtime(self) -> Runtime:
        return self._runtime

    def shown(self, query: Query) -> Iterator[ProxyRuntime]:
        """The proxies of the report."""
        scope = self._page.scope
        own = self._build.proxy
        wanted = query.scope.lower()
        for proxy in self._runtime.proxies:
            if scope and not (
                proxy.name in scope or ("." in scope and proxy.settings is own)
            ):  # a name that the statement does not list
                continue
            if wanted in proxy.name.lower():
                yield proxy

    def filter(self, query: Query) -> proxies.Filter:
        """Which rows of a proxy are shown; `proxy` is not set."""
        return proxies.Filter(up=query.up, no_maint=query.no_maint, legends=self._page.legends)

    def pieces(self, query: Query) -> Iterator[bytes]:
        """The body of the report."""
        if query.form == _SCHEMA:
            return in_pieces(iter([schema.text()]))
        if query.form == _HTML:
            return in_pieces(report(self, query))
        rows = proxies.rows_of(self._runtime, self.shown(query), self.filter(query))
        match query.form:
            case "csv":
                return in_pieces(render.render_csv(rows))
            case "typed":
                return in_pieces(render.render_typed(rows))
        return in_pieces(render.render_json(rows))


def _path(target: bytes) -> bytes:
    """Path and query of a target, whatever its form."""
    if target.startswith(b"/"):
        return target
    return b"/" + target.partition(b"://")[2].partition(b"/")[2]


def _accounts(stats: StatsPage, build: Build) -> BuiltRule:
    """`stats auth`: the rule that asks for one of the accounts."""
    realm = stats.realm or _DEFAULT_REALM
    rule = BuiltRule(Rule("auth", realm, words=("auth",)), build)
    users = {
        name.decode("utf-8", "surrogateescape"): UserSettings(password, insecure=True)
        for name, password in stats.users
    }
    checker = Checker(users)
    rule.test = lambda view: checker.right(view) is None
    return rule


class _Report(Reply):
    __slots__ = ("query", "service")

    def __init__(self, service: StatsService, query: Query) -> None:
        self.service = service
        self.query = query

    def message(self, _view: View) -> Message:
        service, query = self.service, self.query
        headers = [
            make_header(b"cache-control", b"no-cache"),
            make_header(b"content-type", _TYPES[query.form]),
        ]
        refresh = service.settings.refresh
        if refresh and not query.no_refresh:
            headers.append(make_header(b"refresh", b"%d" % refresh))
        message = Message(200, b"OK", headers, b"")
        message.pieces = service.pieces(query)
        return message


class _Form:
    """A form that was sent. Its answer leads back to the page, so that a reload sends nothing."""

    __slots__ = ("query", "service")

    def __init__(self, service: StatsService, query: Query) -> None:
        self.service = service
        self.query = query

    async def run(self, view: View) -> Verdict:
        """Wait for the form, do what it says. Raises Stop for a body that does not come."""
        if not self.query.admin:
            return Answer(self._back("DENY"))
        await view.wait_for_request_body(view.ctx.now + view.conf.http_request, 0)
        txn = view.txn
        if txn.pending is not None and not txn.body_complete:
            if txn.pending.cut:
                raise Stop(0, "LR")  # the client has gone in the middle of it
            return Answer(self._back("EXCD"))
        state = admin.act(self.service.runtime, view.ctx, txn.body or b"")
        return Answer(self._back(state))

    def _back(self, state: str) -> Reply:
        query = self.query
        target = self.service.settings.uri + b";st=" + state.encode()
        target += b";up" * query.up
        target += b";norefresh" * (query.no_refresh and self.service.settings.refresh > 0)
        if query.scope:
            target += b"?scope=" + query.scope.encode()
        return _Redirect(target)


class _Redirect(Reply):
    __slots__ = ("target",)

    def __init__(self, target: bytes) -> None:
        self.target = target

    def message(self, _view: View) -> Message:
        headers = [
            make_header(b"cache-control", b"no-cache"),
            make_header(b"content-type", b"text/plain"),
            make_header(b"content-length", b"0"),
            make_header(b"location", self.target),
        ]
        return Message(303, b"See Other", headers, b"")

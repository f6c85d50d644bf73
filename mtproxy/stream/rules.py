"""Rule sets at work: one thread's functions of a proxy's rules, and the ways between proxies.

`SideRules` is what a proxy's rules became on this thread; None where a proxy has none. `Route` is
the pair of a frontend and one backend that it may choose, with everything that depends on both
worked out at set-up. `evaluate` runs a rule set. Owner thread only; built by boot before the
thread serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mtproxy.base.ruleset import ProxyRules
from mtproxy.rules.acl import FAIL, MISS
from mtproxy.rules.keeping import build_keeper
from mtproxy.rules.verdict import ACCEPT, MISSING, Verdict, Wait
from mtproxy.stream.repeats import build_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtproxy.base.ruleset import Choice
    from mtproxy.http.h1_response import ResponseHead
    from mtproxy.proxy.backend import Backend
    from mtproxy.rules.build import Build, BuiltRule
    from mtproxy.rules.keeping import Keeper
    from mtproxy.rules.tables import Test
    from mtproxy.rules.view import View
    from mtproxy.stream.conf import BackConf, FrontConf


class Intercept(Protocol):
    """Answers some requests in place of servers, behind the http-request rules of its proxy.

    `name` stands for a server in logs. `access` are rules of its own, the first verdict of which
    decides; what they let pass gets `answer`, an Answer or a Wait that ends with one.
    """

    @property
    def name(self) -> str: ...
    @property
    def access(self) -> Sequence[BuiltRule]: ...
    def wants(self, view: View) -> bool: ...
    def answer(self, view: View) -> Verdict: ...


class BuiltChoice:
    """A `use_backend` or `use-server` line: `name` where it is fixed, else `name_of` a stream."""

    __slots__ = ("name", "name_of", "test")

    def __init__(self, choice: Choice, build: Build) -> None:
        self.test: Test | None = None
        if choice.condition is not None:
            self.test = build.condition(choice.condition)
        constant = choice.name.constant
        self.name = None if constant is None else constant.decode("utf-8", "surrogateescape")
        self.name_of: Callable[[View], bytes] = build.format(choice.name)

    def chosen(self, view: View) -> str | None:
        """The name, if this line is the one."""
        if self.test is not None and not self.test(view):
            return None
        if self.name is not None:
            return self.name
        return self.name_of(view).decode("utf-8", "surrogateescape")


class SideRules:
    """The rules of one proxy on one thread. Empty tuples where it has none of a kind."""

    __slots__ = (
        "after",
        "connection",
        "content",
        "inspect_delay",
        "keeper",
        "memory",
        "monitor_fail",
        "persist",
        "redirect",
        "request",
        "res_content",
        "response",
        "response_delay",
        "session",
        "stats",
        "use_backend",
        "use_server",
    )

    def __init__(self, rules: ProxyRules, build: Build) -> None:
        self.connection = build.rules(rules, "tcp-request connection")
        self.session = build.rules(rules, "tcp-request session")
        self.content = build.rules(rules, "tcp-request content")
        self.res_content = build.rules(rules, "tcp-response content")
        #: without `mode http` rules about HTTP are ignored
        http = rules if build.proxy.mode == "http" else ProxyRules()
        self.request = build.rules(http, "http-request")
        #: of `request`; None where the same head may meet another fate the next time
        self.memory = build_memory(self.request, build, bool(self.content))
        #: behind `request`, even where that was left by `allow`
        self.redirect = build.rules(http, "redirect")
        self.response = build.rules(http, "http-response")
        self.after = build.rules(http, "http-after-response")
        self.use_backend = tuple(BuiltChoice(choice, build) for choice in rules.use_backend)
        self.use_server = tuple(BuiltChoice(choice, build) for choice in rules.use_server)
        self.persist = tuple((force, build.condition(test)) for force, test in rules.persist)
        self.monitor_fail = tuple(build.condition(one) for one in rules.monitor_fail)
        #: what the log wants to be kept; of the frontend side
        self.keeper: Keeper | None = build_keeper(build)
        #: the statistics page, where the proxy has one; set by boot
        self.stats: Intercept | None = None
        #: ms; 0: rules about content do not wait for it
        self.inspect_delay = rules.inspect_delay or 0
        self.response_delay = rules.response_delay or 0


class Route:
    """A frontend with one of the backends that it may choose, on one thread.

    `ruled`: rules of either side look at every request. `plain`: request heads go on as they came;
    `usual`: complete responses do, and their connection then waits for the next request.
    `response` and `after` are the rule sets in their order: the backend's, then the frontend's.
    `incompatible`: the name is that of a backend of another mode, so the way leads nowhere.
    `switches`: the frontend is of `mode tcp` and the backend, which is not looked at here, of `mode
    http`: the connection becomes one of HTTP, see `FrontRoom.switched`.
    """

    __slots__ = (
        "after",
        "backend",
        "bconf",
        "changes_responses",
        "incompatible",
        "known",
        "name",
        "own",
        "plain",
        "res_content",
        "response",
        "response_delay",
        "ruled",
        "rules",
        "switches",
        "usual",
    )

    def __init__(
        self,
        conf: FrontConf,
        front: SideRules | None,
        backend: Backend | None = None,
        bconf: BackConf | None = None,
        back: SideRules | None = None,
        *,
        own: bool = False,
    ) -> None:
        """`back` is None where the backend has no rules, or is the frontend itself (`listen`); the
        latter is `own`.
        """
        self.backend = backend
        self.bconf = bconf
        self.rules = back
        self.own = own
        self.incompatible = False
        self.switches = False
        #: what the configuration calls the backend, whether there is one or not
        self.name: str | None = None
        self.ruled = (
            front is not None
            or back is not None
            or conf.buffer_request
            or bool(conf.restrict)
            or (
                bconf is not None
                and (
                    bconf.buffer_request
                    or bconf.persistence is not None
                    or bconf.needs_view
                    or bconf.checkcache
                    or bool(bconf.restrict)
                )
            )
        )
        self.usual = not (
            conf.logasap or conf.httpclose or conf.server_close or conf.adjust is not None
        ) and (bconf is None or not (bconf.reuse_private or bconf.close_server))
        self.plain = (
            conf.forwardfor is None
            and conf.originalto is None
            and not conf.server_close
            and (
                bconf is None
                or (
                    bconf.forwardfor is None
                    and bconf.originalto is None
                    and bconf.name_header is None
                    and bconf.adjust is None
                    and not bconf.close_server
                )
            )
        )
        sides = [side for side in (back, front) if side is not None]
        behind = front if own else back
        #: content rules for responses: of the backend alone
        self.res_content = () if behind is None else behind.res_content
        self.response_delay = 0 if behind is None else behind.response_delay
        self.response = tuple(side.response for side in sides if side.response)
        self.after = tuple(side.after for side in sides if side.after)
        #: what became of heads of responses, where that never depends on anything else
        self.known: dict[ResponseHead, ResponseHead] | None = None
        cookie = bconf is not None and (bconf.persistence is not None or bconf.checkcache)
        keeps = front is not None and front.keeper is not None
        self.changes_responses = bool(
            self.response or self.after or self.res_content or cookie or keeps
        )
        every = (*self.response, *self.after)
        fixed = all(rule.fixed for rules in every for rule in rules)
        if every and fixed and not (self.res_content or cookie or keeps):
            self.known = {}


def evaluate(rules: Sequence[BuiltRule], view: View) -> Verdict | None:
    """Run a rule set up to its end (None) or to the first verdict, whose rule is noted in `txn`."""
    for rule in rules:
        test = rule.test
        if test is None or test(view):
            verdict = rule.act(view)
            if verdict is not None:
                txn = view.txn
                txn.rule_before, txn.rule = txn.rule, rule
                return verdict
    return None


def rest_of(rules: Sequence[BuiltRule], view: View) -> Sequence[BuiltRule]:
    """What follows the rule that gave the last verdict."""
    for position, rule in enumerate(rules):
        if rule is view.txn.rule:
            return rules[position + 1 :]
    return ()


async def run(rules: Sequence[BuiltRule], view: View, verdict: Verdict | None) -> Verdict | None:
    """Go on after `verdict`, the first one of the rule set, until it ends or something is final."""
    while type(verdict) is Wait:
        rest = rest_of(rules, view)
        verdict = await verdict.run(view)
        if verdict is None:
            rules = rest
            verdict = evaluate(rules, view)
    return None if verdict is ACCEPT else verdict


async def run_content(rules: Sequence[BuiltRule], view: View) -> Verdict | None:
    """Run a content rule set on what is there: None when it lets the stream pass, MISSING when it
    needs more first, else the verdict of the rule that is noted in `txn.rule`.
    """
    final = view.txn.payload_final
    for rule in rules:
        if final:
            if rule.test is not None and not rule.test(view):
                continue
        elif rule.undecided is not None:
            result = rule.undecided(view)
            if result == MISS:
                return MISSING
            if result == FAIL:
                continue
        verdict = rule.act(view)
        while type(verdict) is Wait:
            verdict = await verdict.run(view)
        if verdict is None or (verdict is MISSING and final):
            continue
        if verdict is MISSING:
            return MISSING
        view.txn.rule = rule
        return None if verdict is ACCEPT else verdict
    return None

"""Warnings about statements that are understood, and yet do nothing or not what was meant.

HAProxy gives them too, if only for the proxy as a whole. Validation calls it for each proxy that is
not disabled, and once for the other sections. Main thread, at load.
"""

from __future__ import annotations

from mtproxy.base.checkscript import HttpSendStep
from mtproxy.base.ruleset import AclLine, Condition, Rule
from mtproxy.base.ruleset import Expression as RuleExpression
from mtproxy.config.context import Context
from mtproxy.config.drafts import ProxyDraft
from mtproxy.rules import lookup
from mtproxy.rules.actions.capture import Take
from mtproxy.rules.points import Need

#: what comes with the contents of a request
_CONTENTS = Need.REQ_BYTES | Need.REQ_HEAD | Need.REQ_BODY | Need.TXN
#: what `retry-on` has to name, so that data sent with a SYN can be sent again
_TFO_RETRIES = frozenset({"empty-response", "response-timeout"})


def advise(ctx: Context, proxy: ProxyDraft) -> None:
    """The warnings of one proxy."""
    _check_rules(ctx, proxy)
    _state_file(ctx, proxy)
    _servers(ctx, proxy)
    _contents(ctx, proxy)


def advise_sections(ctx: Context) -> None:
    """The warnings of sections that are no proxies."""
    for section in ctx.resolvers.values():
        if not section.nameservers and not section.implicit:
            ctx.warn(section.location, f"resolvers '{section.name}' has no name servers configured")
    for forward in ctx.log_forwards:
        if not forward.bind_lines and not forward.datagrams:
            ctx.warn(
                forward.location,
                f"log-forward '{forward.name}' has no 'bind' or 'dgram-bind' directive:"
                " no message will ever come",
            )


def _check_rules(ctx: Context, proxy: ProxyDraft) -> None:
    """`http-check` and `tcp-check` rules without the option that uses them."""
    if not proxy.is_backend:
        return
    checks = proxy.checks
    http = any(not (isinstance(s, HttpSendStep) and s.from_option) for s in checks.own_http)
    for kind, own, option in (
        ("http", http, "httpchk"),
        ("tcp", bool(checks.own_tcp), "tcp-check"),
    ):
        if own and checks.kind != kind:
            ctx.warn(
                proxy.location,
                f"{proxy.title()} uses {kind}-check rules without 'option {option}',"
                " so the rules are ignored",
            )


def _state_file(ctx: Context, proxy: ProxyDraft) -> None:
    wanted = proxy.is_backend and proxy.load_server_state == "global"
    if wanted and not ctx.global_.values.get("server_state_file"):
        ctx.warn(
            proxy.location,
            f"{proxy.title()} is to load its servers' state from the global 'server-state-file',"
            " which is not set",
        )


def _servers(ctx: Context, proxy: ProxyDraft) -> None:
    if not proxy.is_backend or not proxy.servers:
        return
    if proxy.is_frontend and proxy.default_backend is not None:
        ctx.warn(
            proxy.default_backend_location,
            f"in {proxy.title()}, 'default_backend' always has precedence over the servers,"
            " which will never be used",
        )
    if proxy.mode == "tcp" and proxy.is_frontend:
        _switched(ctx, proxy)
    for server in proxy.servers:
        title = f"server {proxy.name}/{server.name}"
        if server.tfo and not proxy.retry_on >= _TFO_RETRIES:
            ctx.warn(
                server.location,
                f"'{title}' : 'tfo' needs 'retry-on' with at least 'conn-failure',"
                " 'empty-response' and 'response-timeout': a connection that fails could not be"
                " tried again",
            )
        if proxy.mode == "http":
            continue
        if server.redir:
            ctx.diagnostics.alert(
                f"'{title}' : 'redir' can only be used in mode http", server.location, word="redir"
            )
        if server.cookie:
            ctx.warn(server.location, f"'{title}' : 'cookie' is ignored as it requires HTTP mode")


def _switched(ctx: Context, proxy: ProxyDraft) -> None:
    """Connections that become HTTP need a backend of mode http."""
    if proxy.default_backend is not None or proxy.rules.use_backend:
        return
    for rule in proxy.rules.sets.get("tcp-request content", ()):
        if rule.action == "switch-mode":
            ctx.warn(
                rule.location,
                f"{proxy.title()} : 'switch-mode http' in a tcp proxy with no backend: connections"
                " that become HTTP cannot be routed to TCP servers",
            )
            return


def _contents(ctx: Context, proxy: ProxyDraft) -> None:
    """`tcp-request content` rules of frontends that look at contents without waiting for them, or
    that could run earlier.
    """
    if not proxy.is_frontend:
        return
    title = proxy.title()
    for rule in proxy.rules.sets.get("tcp-request content", ()):
        expression = _taken(rule)
        if expression is None:
            continue
        needs = _needs(expression)
        if needs & _CONTENTS and not proxy.rules.inspect_delay:
            ctx.warn(
                rule.location,
                f"{title} : 'tcp-request content {rule.action}' depends on the contents of requests"
                " without any 'tcp-request inspect-delay': it finds them, or not, as time has it",
            )
        if (
            rule.action.startswith("track-sc")
            and proxy.mode == "http"
            and not (needs | _of_condition(proxy, rule.condition)) & _CONTENTS
        ):
            ctx.warn(
                rule.location,
                f"{title} : 'tcp-request content {rule.action}' does not depend on the contents of"
                " requests: in HTTP it belongs into a 'tcp-request session' rule, so that invalid"
                " requests are tracked too",
            )


def _taken(rule: Rule) -> RuleExpression | None:
    """What a rule captures or tracks."""
    if isinstance(rule.args, Take):
        return rule.args.expression
    if rule.action.startswith("track-sc") and isinstance(rule.args, tuple):
        expression = rule.args[1].expression
        assert isinstance(expression, RuleExpression)
        return expression
    return None


def _needs(expression: RuleExpression) -> Need:
    return lookup.fetches()[expression.fetch.name].needs


def _of_condition(proxy: ProxyDraft, condition: Condition | None) -> Need:
    found = Need.NOTHING
    for suite in condition.suites if condition is not None else ():
        for term in suite:
            named = proxy.rules.acls.get(term.acl, ()) if isinstance(term.acl, str) else [term.acl]
            for line in named:
                assert isinstance(line, AclLine)
                found |= _needs(line.expression)
    return found

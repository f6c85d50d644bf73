"""Warnings about rules that do not run where they stand, and about those that never run.

A proxy's rule sets run in a fixed order, whatever the order of the lines. What a section inherits
from `defaults` was written without it and is not looked at. Main thread, at load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.rules import registry

if TYPE_CHECKING:
    from mtproxy.base.ruleset import Rule
    from mtproxy.config.context import Context
    from mtproxy.config.drafts import ProxyDraft
    from mtproxy.config.model import Statement

#: in the order in which they run
ORDER = (
    "tcp-request connection",
    "tcp-request session",
    "tcp-request content",
    "monitor fail",
    "http-request",
    "redirect",
    "use_backend",
    "use-server",
)

#: final actions of which HAProxy says nothing: a hint (-dD), so that `zero-warning` means the same
_UNSAID = ("reject", "silent-drop", "use-service")


def _own(proxy: ProxyDraft, name: str) -> list[Rule]:
    """The rules of a set that the section itself has."""
    inherited = 0 if proxy.base is None else len(proxy.base.rules.sets.get(name, ()))
    return proxy.rules.sets.get(name, [])[inherited:]


def _present(proxy: ProxyDraft, name: str) -> bool:
    rules = proxy.rules
    match name:
        case "monitor fail":
            return bool(rules.monitor_fail)
        case "use_backend":
            return bool(rules.use_backend)
        case "use-server":
            return bool(rules.use_server)
    return bool(_own(proxy, name))


def warn_misplaced(ctx: Context, st: Statement, name: str) -> None:
    """Call before a rule of the kind `name` is added: one that runs later stands before it."""
    if name not in ORDER:
        return
    for later in ORDER[ORDER.index(name) + 1 :]:
        if _present(ctx.proxy, later):
            ctx.warn(
                st.location,
                f"a '{name}' rule placed after a '{later}' rule will still be processed before",
            )
            return


def warn_unreachable(ctx: Context, st: Statement, name: str) -> None:
    """Call before a rule is added to the set `name`: the one before it may end every evaluation."""
    rules = _own(ctx.proxy, name)
    if not rules or rules[-1].condition is not None:
        return
    action = rules[-1].action
    if not registry.ACTIONS[action].final and action != "redirect":
        return
    message = (
        f"previous '{name}' action '{action}' is final and has no condition attached,"
        " further entries are NOOP"
    )
    # HAProxy looks at the sets of HTTP alone, and not at what ends a connection
    if name.startswith("http-") and action not in _UNSAID:
        ctx.warn(st.location, message)
    else:
        ctx.diagnostics.diag(message, st.location)

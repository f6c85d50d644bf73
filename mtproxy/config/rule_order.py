"""Warnings about rules that do not run where they stand, and about those that never run.

A proxy's rule sets run in a fixed order, whatever the order of the lines. Main thread, at load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.rules import registry

if TYPE_CHECKING:
    from mtproxy.config.context import Context
    from mtproxy.config.drafts import RulesDraft
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


def _present(rules: RulesDraft, name: str) -> bool:
    match name:
        case "monitor fail":
            return bool(rules.monitor_fail)
        case "use_backend":
            return bool(rules.use_backend)
        case "use-server":
            return bool(rules.use_server)
    return bool(rules.sets.get(name))


def warn_misplaced(ctx: Context, st: Statement, name: str) -> None:
    """Call before a rule of the kind `name` is added: one that runs later stands before it."""
    if name not in ORDER:
        return
    for later in ORDER[ORDER.index(name) + 1 :]:
        if _present(ctx.proxy.rules, later):
            ctx.warn(
                st.location,
                f"a '{name}' rule placed after a '{later}' rule will still be processed before",
            )
            return


def warn_unreachable(ctx: Context, st: Statement, name: str) -> None:
    """Call before a rule is added to the set `name`: the one before it may end every evaluation."""
    rules = ctx.proxy.rules.sets.get(name)
    if not rules or rules[-1].condition is not None:
        return
    action = rules[-1].action
    if registry.ACTIONS[action].final:
        ctx.warn(
            st.location,
            f"previous '{name}' action '{action}' is final and has no condition attached,"
            " further entries are NOOP",
        )

"""`set-var` and `set-var-fmt` in the global section (manual 3.1).

Exports `KEYWORDS`.
"""

from __future__ import annotations

from dataclasses import replace

from mtproxy.base.errors import ConfigError
from mtproxy.config.context import Context
from mtproxy.config.model import IN_GLOBAL, Keyword, Statement
from mtproxy.rules import points
from mtproxy.rules.actions.variables import parse_set, parse_set_format
from mtproxy.rules.reader import RuleReader


def _set_var(ctx: Context, st: Statement) -> None:
    word = st.words[0]
    if not st.arg(1) or not st.arg(2):
        kind = "an expression" if word == "set-var" else "a format"
        raise ConfigError(
            f"'{word}' requires a process-wide variable name ('proc.<name>') and {kind}"
        )
    reader = RuleReader(
        st.words,
        st.location,
        points.GLOBAL,
        kind="global",
        mode="tcp",
        position=2,
        title=word,
        argument=st.words[1],
        warn=lambda message: ctx.warn(st.location, message),
        global_draft=ctx.global_,
    )
    assignment = (parse_set if word == "set-var" else parse_set_format)(reader)
    if not assignment.name.startswith("proc."):
        raise ConfigError(
            f"'{word}': cannot set variable '{assignment.name}', only scope 'proc' is permitted in"
            " the global section.",
            word=st.words[1],
        )
    if reader.more():
        raise ConfigError(f"'{word}' : unexpected word '{reader.peek()}'", word=reader.peek())
    before = ctx.global_.values.get("variables", ())
    assert isinstance(before, tuple)
    ctx.global_.values["variables"] = (*before, replace(assignment, words=st.words[2:]))


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("set-var", IN_GLOBAL, _set_var),
    Keyword("set-var-fmt", IN_GLOBAL, _set_var),
)

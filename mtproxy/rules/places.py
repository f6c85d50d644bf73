"""ACLs that cannot match where a condition stands: HAProxy warns, and so do we. So do fetches of
bytes in `mode http`.

The fetch of such an ACL has nothing to read there (`points`), so it never matches: it is not even
evaluated. Main thread, at load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mtproxy.base.ruleset import AclLine, Condition, Expression, Term
from mtproxy.rules import lookup
from mtproxy.rules.points import Need

if TYPE_CHECKING:
    from mtproxy.rules.reader import RuleReader


def term(reader: RuleReader, acl: str | AclLine, *, negated: bool) -> Term:
    """A term of the condition that is being read; warns of what cannot match.

    `acl` is the key of a named ACL, or an anonymous one.
    """
    lines = [acl] if isinstance(acl, AclLine) else reader.acls[acl]
    dead = tuple(i for i, line in enumerate(lines) if not _usable(reader, line))
    if dead:
        words = sorted({_keyword(lines[i]) for i in dead})
        place = reader.point.described(reader.kind)
        name = "" if isinstance(acl, AclLine) else acl.rpartition("/")[2]
        if isinstance(acl, AclLine):
            message = (
                f"anonymous acl will never match because it uses keyword '{words[0]}' which is"
                f" incompatible with '{place}'"
            )
        elif len(dead) == len(lines):
            message = (
                f"acl '{name}' will never match because it only involves keywords that are"
                f" incompatible with '{place}'"
            )
        else:
            message = (
                f"acl '{name}' involves keywords {', '.join(map(repr, words))} which is"
                f" incompatible with '{place}'"
            )
        reader.warn(message)
    return Term(acl, negated, dead)


def looks_at_bytes(expression: Expression) -> bool:
    """Whether it reads bytes as they come (HAProxy's L6), of which HTTP shows none."""
    needs = lookup.fetches()[expression.fetch.name].needs
    return bool(needs & (Need.REQ_BYTES | Need.RES_BYTES))


def reads_bytes(condition: Condition, acls: Mapping[str, Sequence[AclLine]]) -> str | None:
    """The first fetch of a condition that `looks_at_bytes`; None if there is none."""
    for suite in condition.suites:
        for one in suite:
            for line in [one.acl] if isinstance(one.acl, AclLine) else acls.get(one.acl, ()):
                if looks_at_bytes(line.expression):
                    return _keyword(line)
    return None


def _usable(reader: RuleReader, line: AclLine) -> bool:
    needs = lookup.fetches()[line.expression.fetch.name].needs
    return reader.point.missing(needs, reader.kind) is None


def _keyword(line: AclLine) -> str:
    """The word as it was written."""
    return line.text.partition("(")[0].partition(",")[0].partition(" ")[0]

"""Changes of ACLs and maps by rules: add-acl, del-acl, set-map, del-map (manual 4.2).

A change is seen by every thread's next look-up, and by the runtime socket; the file stays as it
is. It costs the same whatever the size of the list. What is no pattern of a method by which the
list is used, or no value of a map's kind, changes nothing, as in HAProxy.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mtproxy.base.ruleset import Format
from mtproxy.rules.patterns.methods import PatternError
from mtproxy.rules.tables import Action

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act
    from mtproxy.rules.view import View

_SETS: Final = frozenset({"http-request", "http-response"})


@dataclass(frozen=True, slots=True)
class Change:
    """The words of one of these actions."""

    what: str
    file: str
    key: Format
    value: Format | None = None


class _Parse:
    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self, reader: RuleReader) -> Change:
        file = reader.argument
        if not file:
            raise reader.error("expects the name of a file in its parentheses")
        reader.patterns.want(file, reader.title, reader.location)
        key = reader.format(reader.value("a key"))
        value = reader.format(reader.value("a value")) if self.what == "set-map" else None
        return Change(self.what, file, key, value)


def _build(change: Change, build: Build) -> Act:
    ref = build.shared.patterns.find(change.file)
    if ref is None:
        return lambda _view: None  # said at load
    tid: int = build.ctx.tid
    key_of = build.format(change.key)
    if change.value is not None:
        value_of = build.format(change.value)

        def set_map(view: View) -> None:
            with suppress(PatternError):  # as in HAProxy, which tells nobody
                ref.set_or_add(key_of(view), value_of(view), tid)

        return set_map
    if change.what == "add-acl":

        def add_acl(view: View) -> None:
            with suppress(PatternError):
                ref.add_once(key_of(view), tid)

        return add_acl

    def delete(view: View) -> None:
        ref.delete(key_of(view), tid)

    return delete


ACTIONS: tuple[Action, ...] = tuple(
    Action(f"{what}(", _SETS, _Parse(what), _build)
    for what in ("add-acl", "del-acl", "set-map", "del-map")
)

"""`show stat domain resolvers`: the name servers' counters in the forms of `show stat`.

Columns, their order and their tags are HAProxy 2.6's. Any thread may call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtproxy.stats.render import Value
    from mtproxy.stats.runtime import Runtime

#: column -> its description
FIELDS = {
    "id": "Name of the name server",
    "pid": "Name of its resolvers section",
    "sent": "Questions that were sent",
    "send_error": "Questions that could not be sent",
    "valid": "Answers that were valid",
    "update": "Answers that changed addresses",
    "cname": "Answers that were an alias",
    "cname_error": "Answers with an alias that leads nowhere",
    "any_err": "Answers without an address",
    "nx": "Answers that the name does not exist",
    "timeout": "Questions without an answer",
    "refused": "Questions that were refused",
    "other": "Other errors that were answered",
    "invalid": "Answers that could not be understood",
    "too_big": "Answers that were too big",
    "truncated": "Answers that were cut off",
    "outdated": "Answers that came too late",
}
#: columns that `show resolvers` calls otherwise
_NAMES = {"send_error": "snd_error"}


def _rows(runtime: Runtime) -> Iterator[list[Value]]:
    """The values of each name server, in the order of FIELDS."""
    for name, section in runtime.resolvers.items():
        for position, server in enumerate(section.settings.nameservers):
            totals = section.totals(position)
            counters = [totals[_NAMES.get(field, field)] for field in list(FIELDS)[2:]]
            yield [server.name, name, *counters]


def _kind(value: Value) -> tuple[str, str, str]:
    """Tags, type and origin."""
    return ("CGP", "str", "Config") if isinstance(value, str) else ("MGP", "u64", "Metric")


def render_csv(runtime: Runtime) -> Iterator[str]:
    """A header line, then one line for each name server."""
    yield "# " + "".join(f"{name}," for name in FIELDS) + "\n"
    for row in _rows(runtime):
        yield "".join(f"{value}," for value in row) + "\n"


def render_typed(runtime: Runtime, *, describe: bool = False) -> Iterator[str]:
    """One line for each field of each name server."""
    for row in _rows(runtime):
        lines = []
        for position, (name, value) in enumerate(zip(FIELDS, row, strict=True)):
            tags, kind, _ = _kind(value)
            text = f":{json.dumps(FIELDS[name])}" if describe else ""
            lines.append(f"N.{position}.{name}:{tags}:{kind}:{value}{text}\n")
        yield "".join(lines)


def render_json(runtime: Runtime) -> Iterator[str]:
    """An array of name servers, each an array of fields, on one line."""
    servers = [
        [
            {
                "field": {"pos": position, "name": name},
                "tags": {"origin": _kind(value)[2], "nature": "Gauge", "scope": "Process"},
                "value": {"type": _kind(value)[1], "value": value},
            }
            for position, (name, value) in enumerate(zip(FIELDS, row, strict=True))
        ]
        for row in _rows(runtime)
    ]
    yield json.dumps(servers, separators=(",", ":")) + "\n"

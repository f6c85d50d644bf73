"""The tables of the statistics page: which columns there are, and a row of a proxy as HTML. Pure.

Columns and the meaning of colours are those that HAProxy's users know; every text of the
configuration, of servers' checks and of modules is escaped.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Final

from mtproxy.stats.fields import MODULES
from mtproxy.stats.render import ObjectType, Row, Value

if TYPE_CHECKING:
    from mtproxy.base.ruleset import StatsPage

#: groups of columns: (title, ((field, heading), ...))
GROUPS: Final[tuple[tuple[str, tuple[tuple[str, str], ...]], ...]] = (
    ("Queue", (("qcur", "Cur"), ("qmax", "Max"), ("qlimit", "Limit"))),
    ("Session rate", (("rate", "Cur"), ("rate_max", "Max"), ("rate_lim", "Limit"))),
    (
        "Sessions",
        (
            ("scur", "Cur"),
            ("smax", "Max"),
            ("slim", "Limit"),
            ("stot", "Total"),
            ("lbtot", "LbTot"),
            ("lastsess", "Last"),
        ),
    ),
    ("Bytes", (("bin", "In"), ("bout", "Out"))),
    ("Denied", (("dreq", "Req"), ("dresp", "Resp"))),
    ("Errors", (("ereq", "Req"), ("econ", "Conn"), ("eresp", "Resp"))),
    ("Warnings", (("wretr", "Retr"), ("wredis", "Redis"))),
    (
        "Server",
        (
            ("status", "Status"),
            ("last_chk", "LastChk"),
            ("weight", "Wght"),
            ("act", "Act"),
            ("bck", "Bck"),
            ("chkfail", "Chk"),
            ("chkdown", "Dwn"),
            ("downtime", "Dwntme"),
            ("throttle", "Thrtle"),
        ),
    ),
)
_TEXT: Final = frozenset({"status", "last_chk"})

#: class of a row -> what its colour means, in the order of the legend
MEANINGS: Final = {
    "up": "active UP",
    "going-down": "active UP, going down",
    "going-up": "active DOWN, going up",
    "backup-up": "backup UP",
    "backup-going-down": "backup UP, going down",
    "backup-going-up": "backup DOWN, going up",
    "down": "active or backup DOWN",
    "maint": "DOWN for maintenance (MAINT)",
    "drain": "SOFT STOPPED for maintenance (DRAIN)",
    "nolb": "UP, load balancing disabled (NOLB)",
    "unchecked": "not checked",
}


def meaning(row: Row) -> str:
    """The class of a row, which gives it its colour."""
    if row.kind is not ObjectType.SERVER:
        return row.kind.word.lower()
    status = str(row.values["status"])
    word = status.partition(" ")[0]
    backup = "backup-" if row.values.get("bck") else ""
    match word:
        case "MAINT" | "DRAIN" | "NOLB":
            return word.lower()
        case "UP":
            return backup + ("going-down" if "/" in status else "up")
        case "DOWN":
            return backup + "going-up" if "/" in status else "down"
    return "unchecked"


def time_text(seconds: int) -> str:
    """A time span in its two largest units: 3d4h, 5m7s, 0s."""
    for size, name, below, lesser in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if seconds >= size:
            return f"{seconds // size}{name}{seconds % size // below}{lesser}"
    return f"{seconds}s"


def _number(value: Value) -> str:
    return f"{value:,}" if isinstance(value, int | float) else escape(str(value))


def _span(seconds: Value) -> str:
    return "?" if int(seconds) < 0 else time_text(int(seconds))


def _plain(row: Row, field: str) -> tuple[str, str, str]:
    value = row.values.get(field)
    if value is None:
        return "", "", ""
    shown = _number(value)
    return shown, "" if shown == str(value) else str(value), ""


def _time(row: Row, field: str) -> tuple[str, str, str]:
    value = row.values.get(field)
    return ("", "", "") if value is None else (_span(value), str(value), "")


def _limit(row: Row, field: str) -> tuple[str, str, str]:
    return _plain(row, field) if row.values.get(field) else ("", "", "")


def _active(row: Row, field: str) -> tuple[str, str, str]:
    value = row.values.get(field)
    if row.kind is not ObjectType.SERVER or value is None:
        return _plain(row, field)
    return ("Y" if value else "-"), "", ""


def _sessions(row: Row, field: str) -> tuple[str, str, str]:
    """The total, with what else is counted of requests as its tip."""
    shown, raw, _ = _plain(row, field)
    get = row.values.get
    lines = []
    if get("req_tot") is not None:
        lines.append(f"HTTP requests: {_number(get('req_tot') or 0)}")
        lines += [
            f"HTTP {name} responses: {_number(get(f'hrsp_{name}') or 0)}"
            for name in ("1xx", "2xx", "3xx", "4xx", "5xx", "other")
        ]
    for name, title in (
        ("conn_tot", "Connections"),
        ("intercepted", "Intercepted requests"),
        ("connect", "Connections to servers"),
        ("reuse", "Reused connections"),
        ("cli_abrt", "Aborted by clients"),
        ("srv_abrt", "Aborted by servers"),
        ("wrew", "Failed rewrites"),
        ("eint", "Internal errors"),
        ("qtime", "Average queue time, ms"),
        ("ctime", "Average connect time, ms"),
        ("rtime", "Average response time, ms"),
        ("ttime", "Average total time, ms"),
    ):
        if get(name) is not None:
            lines.append(f"{title}: {_number(get(name) or 0)}")
    return shown, raw, "\n".join(lines)


def _status(row: Row, _field: str) -> tuple[str, str, str]:
    status = str(row.values.get("status", ""))
    shown = escape(status)
    since = row.values.get("lastchg")
    if since is not None:
        shown = f"{_span(since)} {shown}"
    tracked = row.values.get("tracked")
    return shown, status, f"tracks {tracked}" if tracked else ""


def _check(row: Row, _field: str) -> tuple[str, str, str]:
    """The last check, of the agent too, with all that is known of it as its tip."""
    get = row.values.get
    parts, tips = [], []
    for name, last, what in (("check", "last_chk", "check"), ("agent", "last_agt", "agent")):
        status = get(f"{name}_status")
        if status is None:
            continue
        text = str(status)
        code = get(f"{name}_code")
        if code:
            text += f"/{code}"
        duration = get(f"{name}_duration")
        if duration is not None:
            text += f" in {duration}ms"
        parts.append(escape(text))
        tip = f"{what}: {get(f'{name}_desc') or ''}"
        if get(last):
            tip += f": {get(last)}"
        health, rise, fall = (get(f"{name}_{one}") for one in ("health", "rise", "fall"))
        if health is not None:
            tip += f" (health {health}, rise {rise}, fall {fall})"
        tips.append(tip)
    return ", ".join(parts), "", "\n".join(tips)


#: makes (what is shown as HTML, what it is sorted by where that is not the text, its tip as text)
_CELLS: Final[dict[str, Callable[[Row, str], tuple[str, str, str]]]] = {
    "lastsess": _time,
    "downtime": _time,
    "qlimit": _limit,
    "rate_lim": _limit,
    "act": _active,
    "bck": _active,
    "stot": _sessions,
    "status": _status,
    "last_chk": _check,
}
_COLUMNS: Final = tuple(
    (field, f"{group} {heading}", _CELLS.get(field, _plain), " class=text" * (field in _TEXT))
    for group, columns in GROUPS
    for field, heading in columns
)


def head(*, boxes: bool, modules: bool) -> str:
    """The two lines of headings. `boxes`: there is a column for marks."""
    first = ["<tr>"]
    second = ["<tr>"]
    if boxes:
        first.append("<th></th>")
        second.append(
            '<th><input type="checkbox" class="all" hidden aria-label="mark all servers"></th>'
        )
    first.append("<th></th>")
    number = int(boxes)
    second.append(f'<th class="name" data-c="{number}"><button type="button">Name</button></th>')
    for group, columns in GROUPS:
        first.append(f'<th colspan="{len(columns)}">{group}</th>')
        for field, heading in columns:
            number += 1
            kind = ' class="text"' if field in _TEXT else ""
            second.append(
                f'<th{kind} data-c="{number}"><button type="button">{heading}</button></th>'
            )
    if modules:
        first.append("<th>Modules</th>")
        second.append("<th></th>")
    return f"<thead>{''.join(first)}</tr>{''.join(second)}</tr></thead>\n"


def line(row: Row, page: StatsPage, *, boxes: bool) -> str:
    """A row of the report. `boxes`: servers can be marked."""
    kind = meaning(row)
    values = row.values
    cells = []
    name = escape(str(values["svname"]))
    if row.kind in (ObjectType.FRONTEND, ObjectType.BACKEND):
        name = row.kind.word
    if boxes:
        mark = ""
        if row.kind is ObjectType.SERVER:
            mark = f'<input type="checkbox" name="s" value="{name}" aria-label="{name}">'
        cells.append(f'<td data-l="mark">{mark}</td>')
    tip = ""
    if page.legends:
        facts = [f"id: {row.id or row.proxy_id}", f"mode: {values.get('mode', '')}"]
        facts += [
            f"{title}: {values[field]}"
            for field, title in (("addr", "IP"), ("cookie", "cookie"), ("algo", "algorithm"))
            if field in values
        ]
        tip = f' title="{escape(", ".join(facts))}"'
        if "addr" in values:
            name += f' <span class="extra">{escape(str(values["addr"]))}</span>'
    cells.append(f'<td class="name"{tip}>{name}</td>')
    for field, label, make, text in _COLUMNS:
        shown, raw, tip = make(row, field)
        attributes = f' data-v="{escape(raw)}"' if raw else ""
        if tip:
            attributes += f' title="{escape(tip)}"'
        cells.append(f'<td data-l="{label}"{text}{attributes}>{shown}</td>')
    if page.modules:
        known = [f"{one.name}: {values[one.name]}" for one in MODULES if one.name in values]
        title = escape("\n".join(known))
        cells.append(f'<td data-l="Modules" title="{title}">{"h1" if known else ""}</td>')
    return f'<tr class="{kind}">{"".join(cells)}</tr>\n'

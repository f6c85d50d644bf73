"""`use-service prometheus-exporter`: the counters in Prometheus' text format, version 0.0.4.

Samples stand as HAProxy's exporter prints them: name by name, the process first, then frontends,
listeners, backends, servers and stick tables; then what only this proxy has, threads and locks. The
text is written here rather than by a library's registry: there are tens of samples for each of
thousands of servers, made anew for every scrape, in pieces. Owner thread only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from mtproxy.http.headers import make_header
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.states import server_status
from mtproxy.rules.reply import ErrorReply, Message, Reply
from mtproxy.stats import metrics, process, proxies
from mtproxy.stats.pieces import in_pieces
from mtproxy.sync.reports import render_prometheus

if TYPE_CHECKING:
    from mtproxy.proxy.server import ServerState
    from mtproxy.rules.view import View
    from mtproxy.sched.context import ThreadContext
    from mtproxy.stats.metrics import Metric
    from mtproxy.stats.render import Row, Value
    from mtproxy.stats.runtime import Runtime

#: how logs call it, in place of a server
NAME: Final = "<PROMEX>"

#: samples that are made at once
_LINES: Final = 200
#: what `scope` may be; those of HAProxy first
SCOPES: Final = (
    "global", "frontend", "listener", "backend", "server", "sticktable", "thread", "lock",
)  # fmt: skip
_KINDS: Final = {
    "frontend": ("F", proxies.FRONTENDS),
    "listener": ("L", proxies.LISTENERS),
    "backend": ("B", proxies.BACKENDS),
    "server": ("S", proxies.SERVERS),
}
_CODES: Final = ("1xx", "2xx", "3xx", "4xx", "5xx", "other")
_MILLISECONDS: Final = frozenset({
    "qtime", "ctime", "rtime", "ttime", "qtime_max", "ctime_max", "rtime_max", "ttime_max",
    "check_duration",
})  # fmt: skip
#: there are no samples of rows that lack them; of others, NaN says so
_LEFT_OUT: Final = frozenset({
    "req_rate_max", "req_tot", "intercepted", "cache_lookups", "cache_hits", "comp_in", "comp_out",
    "comp_byp", "comp_rsp", "check_duration",
})  # fmt: skip
_HTTP_ONLY: Final = _LEFT_OUT - {"check_duration"}
#: the states that a metric of states has, by kind
_STATES: Final = {
    "F": ("DOWN", "UP"),
    "L": ("WAITING", "OPEN", "FULL"),
    "B": ("DOWN", "UP"),
    "S": ("DOWN", "UP", "MAINT", "DRAIN", "NOLB"),
}
_CHECKS: Final = tuple(
    one.code for one in sorted(CheckStatus, key=lambda one: one.number) if one.number > 3
)


class BadQuery(ValueError):
    """A query that the exporter does not understand."""


def scopes_of(target: bytes) -> tuple[frozenset[str], bool]:
    """What a request asks for, and whether servers in maintenance are left out. Raises BadQuery."""
    wanted: set[str] = set()
    chosen = no_maint = False
    query = target.partition(b"?")[2].partition(b"#")[0]
    for field in query.split(b"&") if query else ():
        raw, equals, rest = field.partition(b"=")
        if b"=" in rest:
            raise BadQuery(query)
        key, value = _decoded(raw), _decoded(rest)
        if key == "scope":
            chosen = True
            if not equals:
                raise BadQuery(query)
            if not value:
                wanted.clear()
            elif value.startswith("*"):
                wanted.update(SCOPES)
            elif value in SCOPES:
                wanted.add(value)
            else:
                raise BadQuery(query)
        elif key == "no-maint":
            no_maint = True
    return frozenset(wanted if chosen else SCOPES), no_maint


def _decoded(text: bytes) -> str:
    return unquote_to_bytes(text.replace(b"+", b" ")).decode("utf-8", "replace")


class Exporter(Reply):
    """The answer to a scrape."""

    __slots__ = ("_runtime",)

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def message(self, view: View) -> Message | None:
        view.server = NAME
        view.t_w = view.t_c = view.t_r = 0
        assert view.request is not None
        try:
            scopes, no_maint = scopes_of(view.request.target)
        except BadQuery:
            return ErrorReply(400).message(view)
        headers = [
            make_header(b"cache-control", b"no-cache"),
            make_header(b"content-type", b"text/plain; version=0.0.4"),
        ]
        message = Message(200, b"OK", headers, b"")
        message.pieces = in_pieces(render(self._runtime, scopes, no_maint=no_maint))
        return message


def render(
    runtime: Runtime, scopes: frozenset[str] = frozenset(SCOPES), *, no_maint: bool = False
) -> Iterator[str]:
    """The exposition, in small texts; empty ones where much has been read meanwhile."""
    if "global" in scopes:
        yield from _process(runtime)
    for scope, (kind, mask) in _KINDS.items():
        if scope not in scopes:
            continue
        rows = []
        wanted = proxies.Filter(types=mask, no_maint=no_maint and kind == "S", legends=False)
        for row in proxies.rows(runtime, wanted):
            rows.append(row)
            yield ""
        yield from _families(runtime, kind, scope, rows)
    if "sticktable" in scopes:
        yield from _tables(runtime)
    if "thread" in scopes:
        yield from _threads(runtime)
    if "lock" in scopes:
        yield render_prometheus()


def _head(name: str, metric: Metric) -> str:
    return f"# HELP {name} {metric.help}\n# TYPE {name} {metric.type}\n"


def _text(value: Value | None) -> str:
    if value is None or isinstance(value, str):
        return "NaN"
    return f"{value:f}" if isinstance(value, float) else str(value)


def _process(runtime: Runtime) -> Iterator[str]:
    values: dict[str, Value] = {
        item.field.name: item.value for item in process.info(runtime) if item.value is not None
    }
    for metric in metrics.PROCESS:
        name = f"haproxy_process_{metric.name}"
        if metric.field == "Build info":
            sample = f'{name}{{version="{_escaped(runtime.version)}"}} 1\n'
        else:
            sample = f"{name} {_text(values.get(metric.field))}\n"
        yield _head(name, metric) + sample


def _escaped(text: str) -> str:
    """A value of a label."""
    text = text.encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# --- rows


@dataclass(frozen=True, slots=True)
class _Part:
    """Some of the rows of a kind, for which the samples of one metric are made."""

    runtime: Runtime
    #: of the metric
    name: str
    kind: str
    rows: Sequence[Row]
    #: of each row, without the closing brace
    labels: Sequence[str]


def _families(runtime: Runtime, kind: str, scope: str, rows: Sequence[Row]) -> Iterator[str]:
    """All metrics of the rows of one kind."""
    labels = [_labels(kind, row) for row in rows]
    for metric in metrics.ROWS:
        if kind not in metric.kinds:
            continue
        name = f"haproxy_{scope}_{metric.name}"
        head = _head(name, metric)
        # classes of statuses stand one after the other, each for all rows
        makers = _RESPONSES if metric.field == "hrsp" else (_MAKERS.get(metric.field),)
        for make in makers:
            for start in range(0, len(rows), _LINES):
                some = rows[start : start + _LINES]
                own = labels[start : start + _LINES]
                if make is None:
                    text = _samples(name, metric.field, some, own)
                else:
                    text = "".join(make(_Part(runtime, name, kind, some, own)))
                if text:
                    yield head + text
                    head = ""


def _labels(kind: str, row: Row) -> str:
    """The labels of a row without the closing brace."""
    text = f'{{proxy="{_escaped(str(row.values["pxname"]))}"'
    if kind in "LS":
        word = "listener" if kind == "L" else "server"
        text += f',{word}="{_escaped(str(row.values["svname"]))}"'
    return text


def _samples(name: str, field: str, rows: Sequence[Row], labels: Sequence[str]) -> str:
    pairs = zip(labels, [row.values.get(field) for row in rows], strict=True)
    if field in _MILLISECONDS:
        return "".join(
            [
                f"{name}{label}}} {'NaN' if value is None else f'{int(value) / 1000:f}'}\n"
                for label, value in pairs
                if value is not None or field not in _LEFT_OUT
            ]
        )
    if field in _HTTP_ONLY:
        http = [row.values.get("mode") == "http" for row in rows]
        return "".join(
            [
                f"{name}{label}}} {value}\n"
                for (label, value), on in zip(pairs, http, strict=True)
                if on and value is not None
            ]
        )
    return "".join(
        [f"{name}{label}}} {'NaN' if value is None else value}\n" for label, value in pairs]
    )


type _Make = Callable[[_Part], Iterator[str]]


def _responses(code: str) -> _Make:
    """Responses with a class of statuses."""
    field = f"hrsp_{code}"

    def make(part: _Part) -> Iterator[str]:
        for label, row in zip(part.labels, part.rows, strict=True):
            value = row.values.get(field)
            if value is not None:
                yield f'{part.name}{label},code="{code}"}} {value}\n'

    return make


_RESPONSES: Final = tuple(_responses(code) for code in _CODES)


def _states(part: _Part) -> Iterator[str]:
    for row, label in zip(part.rows, part.labels, strict=True):
        now = _state(part.kind, str(row.values["status"]))
        for state in _STATES[part.kind]:
            yield f'{part.name}{label},state="{state}"}} {int(state == now)}\n'


def _state(kind: str, status: str) -> str:
    word = status.partition(" ")[0]
    if kind == "F":
        return "DOWN" if word == "STOP" else "UP"
    return "UP" if word == "no" else word


def _check_states(part: _Part) -> Iterator[str]:
    for row, label in zip(part.rows, part.labels, strict=True):
        status = row.values.get("check_status")
        if status is None:
            continue
        now = str(status).removeprefix("* ")
        for code in _CHECKS:
            yield f'{part.name}{label},state="{code}"}} {int(code == now)}\n'


def _check_codes(part: _Part) -> Iterator[str]:
    for row, label in zip(part.rows, part.labels, strict=True):
        if "check_status" in row.values:
            yield f"{part.name}{label}}} {row.values.get('check_code', 0)}\n"


def _servers_by_state(part: _Part) -> Iterator[str]:
    for servers, label in _with_servers(part):
        counts = Counter(_state("S", server_status(one)) for one in servers)
        for state in _STATES["S"]:
            yield f'{part.name}{label},state="{state}"}} {counts[state]}\n'


def _servers_by_check(part: _Part) -> Iterator[str]:
    for servers, label in _with_servers(part):
        counts = Counter(one.check.status.code for one in servers)
        for code in _CHECKS:
            yield f'{part.name}{label},state="{code}"}} {counts[code]}\n'


def _with_servers(part: _Part) -> Iterator[tuple[Sequence[ServerState], str]]:
    """The backends that have any."""
    servers = {
        proxy.settings.id: proxy.shared.servers
        for proxy in part.runtime.proxies
        if proxy.shared is not None and proxy.shared.servers
    }
    for row, label in zip(part.rows, part.labels, strict=True):
        if row.proxy_id in servers:
            yield servers[row.proxy_id], label


_MAKERS: Final[dict[str, _Make]] = {
    "status": _states,
    "check_status": _check_states,
    "check_code": _check_codes,
    "agg_server_status": _servers_by_state,
    "agg_server_check_status": _servers_by_state,
    "agg_check_status": _servers_by_check,
}


# --- what stands behind the rows


def _tables(runtime: Runtime) -> Iterator[str]:
    tables = list(runtime.tables.values())
    for metric in metrics.TABLES if tables else ():
        name = f"haproxy_sticktable_{metric.name}"
        yield _head(name, metric) + "".join(
            f'{name}{{name="{_escaped(table.name)}",type="{table.settings.type}"}} '
            f"{table.settings.size if metric.field == 'size' else table.used}\n"
            for table in tables
        )


type _Figure = Callable[[ThreadContext], int | float]

#: what is told of each thread: (name, type, help, value)
_THREAD: Final[tuple[tuple[str, str, str, _Figure], ...]] = (
    ("cpu_seconds_total", "counter", "CPU time of the thread.", lambda ctx: ctx.cpu_ns / 1e9),
    ("loop_seconds", "gauge", "Mean CPU time of a turn of the loop over the last second.",
     lambda ctx: ctx.loop_ns / 1e9),
    ("connections", "gauge", "Client connections that the thread serves now.",
     lambda ctx: ctx.shared.conns),
    ("tasks", "gauge", "Tasks that the thread has.", lambda ctx: len(ctx.tasklets)),
    ("run_queue", "gauge", "Tasklets that wait for their turn.",
     lambda ctx: len(ctx.urgent) + len(ctx.normal) + len(ctx.bulk)),
)  # fmt: skip
_ACTIVITY: Final = {
    "loops": "Turns of the loop.",
    "ctxsw": "Tasklets that were run.",
    "urgent": "Urgent tasklets that were run.",
    "bulk": "Tasklets of bulk transfers that were run.",
    "tasksw": "Shared tasks that were run.",
    "poll_io": "Descriptors that polling reported ready.",
    "poll_exp": "Timers that fired.",
    "wake_tasks": "Polls that did not wait because tasklets were queued.",
    "wake_signal": "Polls that another thread cut short.",
    "inbox": "Messages taken from other threads.",
    "accepted": "Connections that were accepted.",
    "accq_pushed": "Accepted connections that were handed to another thread.",
    "empty_rq": "Turns of the loop without a tasklet to run.",
    "long_rq": "Turns of the loop that left tasklets for the next one.",
    "errors": "Tasklets that ended with an unexpected exception.",
}


def _activity(name: str) -> _Figure:
    return lambda ctx: int(getattr(ctx.activity, name))


def _threads(runtime: Runtime) -> Iterator[str]:
    figures = list(_THREAD)
    figures += [
        (f"{name}_total", "counter", text, _activity(name)) for name, text in _ACTIVITY.items()
    ]
    for suffix, type_, text, value in figures:
        name = f"mtproxy_thread_{suffix}"
        yield f"# HELP {name} {text}\n# TYPE {name} {type_}\n" + "".join(
            f'{name}{{thread="{ctx.tid + 1}"}} {value(ctx)}\n' for ctx in runtime.pool.contexts
        )

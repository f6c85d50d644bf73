"""The statistics page, text by text: head, process, charts, a table for each proxy.

Every text is small, so that whoever sends the page lets others go on in between. The page needs no
other file and no script; forms have HAProxy's field names (see `stats.admin`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Final

from mtproxy.stats import proxies
from mtproxy.stats.page import columns
from mtproxy.stats.page.assets import SCRIPT, STYLE
from mtproxy.stats.page.charts import panels
from mtproxy.stats.process import uptime_text
from mtproxy.stats.render import ObjectType

if TYPE_CHECKING:
    from mtproxy.stats.runtime import ProxyRuntime, Runtime
    from mtproxy.stats.service import Query, StatsService

#: value of `action`, and what it says in the menu
ACTIONS: Final = (
    ("ready", "Set state to READY"),
    ("drain", "Set state to DRAIN"),
    ("maint", "Set state to MAINT"),
    ("dhlth", "Health: disable checks"),
    ("ehlth", "Health: enable checks"),
    ("hrunn", "Health: force UP"),
    ("hnolb", "Health: force NOLB"),
    ("hdown", "Health: force DOWN"),
    ("dagent", "Agent: disable checks"),
    ("eagent", "Agent: enable checks"),
    ("arunn", "Agent: force UP"),
    ("adown", "Agent: force DOWN"),
    ("shutdown", "Kill sessions"),
)

#: what `;st=` says, and how the note looks
_STATES: Final = {
    "DONE": ("good", "Action processed successfully."),
    "NONE": ("", "Nothing has changed."),
    "PART": ("", "Action partially processed: some server names are unknown, or nothing applied."),
    "ERRP": ("bad", "Action not processed: invalid parameters (action, backend or servers)."),
    "EXCD": ("bad", "Action not processed: the buffer could not store all the data. Mark fewer."),
    "DENY": ("bad", "Action denied: the page is read-only for you."),
    "IVAL": ("bad", "Invalid request."),
    "UNKN": ("bad", "Unexpected result."),
}


def report(service: StatsService, query: Query) -> Iterator[str]:
    """The whole page."""
    link = _link(service, query)
    yield from _head(service, query, link)
    yield "<main>\n"
    for proxy in service.shown(query):
        yield from _proxy(service, query, proxy, link)
    yield from panels(service.runtime)
    yield f"</main>\n<script>{SCRIPT}</script>\n</body></html>\n"


def _link(service: StatsService, query: Query, **changed: bool) -> str:
    """The address of the page as it is shown, or with something changed, escaped."""
    wanted = {"up": query.up, "no_maint": query.no_maint, "no_refresh": query.no_refresh} | changed
    text = service.settings.uri.decode("utf-8", "surrogateescape")
    words = {"up": ";up", "no_maint": ";no-maint", "no_refresh": ";norefresh"}
    text += "".join(words[name] for name, on in wanted.items() if on)
    if query.scope:
        text += f"?scope={query.scope}"
    return escape(_clean(text))


def _clean(text: str) -> str:
    """Bytes that are no UTF-8 cannot be shown."""
    return text.encode("utf-8", "replace").decode()


def _head(service: StatsService, query: Query, link: str) -> Iterator[str]:
    page = service.settings
    runtime = service.runtime
    global_ = runtime.settings.global_
    title = f"Statistics Report for {runtime.product}"
    extra = ""
    if page.node is not None:
        node = escape(_clean(page.node or runtime.node))
        extra += f" on {node}"
    if page.description is not None:
        extra += f": {escape(_clean(page.description or global_.description or ''))}"
    version = "" if page.hide_version else f" version {escape(runtime.version)}"
    released = "" if page.hide_version else f", released {escape(runtime.release_date)}"
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,"><meta name="robots" content="noindex">'
        f"<title>{title}{extra}</title>\n<style>{STYLE}</style></head>\n<body>\n"
    )
    yield f"<header><h1>{runtime.product}<small>{version}{released}</small></h1>\n"
    yield f'<p class="about">{title}, pid {runtime.pid}{extra}</p>\n'
    if query.state:
        look, text = _STATES.get(query.state, _STATES["UNKN"])
        yield f'<p class="note {look}" role="status">{text} <a href="{link}">Remove</a></p>\n'
    yield _facts(runtime)
    yield from _links(service, query, link)
    keys = "".join(
        f'<span class="key {name}">{text}</span>' for name, text in columns.MEANINGS.items()
    )
    yield f'<p class="keys">{keys}</p>\n</header>\n'


def _facts(runtime: Runtime) -> str:
    """The process in figures."""
    totals = runtime.rates.process_totals()
    rate = runtime.rates.rate
    contexts = runtime.pool.contexts
    tasks = sum(len(ctx.tasklets) for ctx in contexts)
    queued = sum(len(ctx.urgent) + len(ctx.normal) + len(ctx.bulk) for ctx in contexts)
    bits = 8 * rate((None, None, "bytes_out"), totals["bytes_out"])
    facts = (
        ("uptime", uptime_text(time.monotonic() - runtime.started_monotonic)),
        ("threads", runtime.pool.nbthread),
        ("ulimit-n", runtime.ulimit_n),
        ("maxsock", runtime.maxsock),
        ("maxconn", runtime.maxconn),
        ("current connections", runtime.current_connections),
        ("connection rate", f"{rate((None, None, 'cum_conn'), totals['cum_conn'])}/s"),
        ("session rate", f"{rate((None, None, 'cum_sess'), totals['cum_sess'])}/s"),
        ("requests", f"{totals['cum_req']:,}"),
        ("bit rate", f"{bits / 1000:,.3f} kbps"),
        ("running tasks", f"{queued}/{tasks}"),
        ("idle", f"{runtime.rates.idle_percent} %"),
        ("dropped logs", runtime.dropped_logs),
    )
    rows = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    return f'<dl class="facts">{rows}</dl>\n'


def _links(service: StatsService, query: Query, link: str) -> Iterator[str]:
    page = service.settings
    links = [
        (
            _link(service, query, up=not query.up),
            ("Show" if query.up else "Hide") + " DOWN servers",
        ),
        (
            _link(service, query, no_maint=not query.no_maint),
            ("Show" if query.no_maint else "Hide") + " servers in maintenance",
        ),
    ]
    if page.refresh:
        word = "Enable" if query.no_refresh else "Disable"
        links.append((_link(service, query, no_refresh=not query.no_refresh), f"{word} refresh"))
    links.append((link, "Refresh now"))
    base, mark, scope = link.partition("?scope=") if query.scope else (link, "", "")
    links += [(f"{base};{form}{mark}{scope}", text) for form, text in _EXPORTS]
    links += [("#threads", "Threads"), ("#locks", "Locks")]
    yield "<nav>"
    for target, text in links:
        yield f'<a href="{target}">{text}</a>'
    yield f"{_scope_form(service, query)}</nav>\n"


_EXPORTS: Final = (
    ("csv", "CSV export"),
    ("json", "JSON export"),
    ("json-schema", "JSON schema"),
)


def _scope_form(service: StatsService, query: Query) -> str:
    """A field for a part of a proxy's name. Sending it replaces the query part of the address,
    which the configured prefix may have: it stands in the form then.
    """
    uri = service.settings.uri.decode("utf-8", "replace")
    path, mark, rest = uri.partition("?")
    hidden = ""
    if mark:
        for part in rest.split("&"):
            name, _, value = part.partition("=")
            hidden += f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
    target = path + ";up" * query.up + ";no-maint" * query.no_maint if not mark else path
    return (
        f'<form class="scope" method="get" action="{escape(target)}">{hidden}'
        f'<label>Scope: <input name="scope" size="8" maxlength="20" value="{escape(query.scope)}">'
        "</label> <button>Filter</button></form>"
    )


def _proxy(service: StatsService, query: Query, proxy: ProxyRuntime, link: str) -> Iterator[str]:
    page = service.settings
    settings = proxy.settings
    boxes = query.admin and proxy.shared is not None and bool(proxy.shared.servers)
    name = escape(_clean(proxy.name))
    about = ""
    if page.legends:
        caps = [
            word for word, on in (("frontend", proxy.frontends), ("backend", proxy.backends)) if on
        ]
        about = f"{'/'.join(caps)}, mode {settings.mode}, id {settings.id}"
    if settings.description:
        about += f" {escape(_clean(settings.description))}"
    yield f'<section id="{name}"><h2>{name} <small>{about}</small></h2>\n'
    if boxes:
        yield f'<form method="post" action="{link}">\n'
    yield f'<table class="proxy">{columns.head(boxes=boxes, modules=page.modules)}'
    group = ""
    rows = proxies.rows_of(service.runtime, [proxy], service.filter(query))
    for row in rows:
        wanted = "servers" if row.kind is ObjectType.SERVER else "whole"
        if wanted != group:
            yield f'{"</tbody>" if group else ""}<tbody class="{wanted}">\n'
            group = wanted
        yield columns.line(row, page, boxes=boxes)
    yield ("</tbody>" if group else "") + "</table>\n"
    if boxes:
        options = "".join(f'<option value="{value}">{text}</option>' for value, text in ACTIONS)
        yield (
            f'<p class="act"><label>Choose the action to perform on the marked servers: '
            f'<select name="action"><option value=""></option>{options}</select></label>'
            f'<input type="hidden" name="b" value="#{settings.id}"> <button>Apply</button></p>'
            "</form>\n"
        )
    yield "</section>\n"

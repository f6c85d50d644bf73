"""Runtime commands `show stat`, `show info` and `clear counters`. Exports COMMANDS."""

from __future__ import annotations

from mtproxy.cli.numbers import c_integer
from mtproxy.cli.runtime import Answer, CliError, CliSession, Command, Level
from mtproxy.stats import nameservers, process, proxies, render
from mtproxy.stats.totals import clear_maxima

_STAT_FLAGS = frozenset({"typed", "json", "desc", "no-maint", "up", "float"})


def _show_stat(cli: CliSession, args: list[str]) -> Answer:
    flags = {word for word in args if word in _STAT_FLAGS}
    words = [word for word in args if word not in _STAT_FLAGS]
    if words[:1] == ["domain"]:
        if words[1:2] == ["resolvers"]:
            return _nameservers(cli, flags)
        if words[1:2] != ["proxy"]:
            raise CliError("Invalid statistics domain.")
        words = words[2:]
    # HAProxy: the first three words are a filter if there are three, others than flags say nothing
    words = words[:3] if len(words) > 2 else []
    wanted = _filter(cli, words, flags)
    rows = proxies.rows(cli.runtime, wanted)
    if "json" in flags:
        return render.render_json(rows)
    if "typed" in flags:
        return render.render_typed(rows, describe="desc" in flags)
    return render.render_csv(rows)


def _nameservers(cli: CliSession, flags: set[str]) -> Answer:
    if "json" in flags:
        return nameservers.render_json(cli.runtime)
    if "typed" in flags:
        return nameservers.render_typed(cli.runtime, describe="desc" in flags)
    return nameservers.render_csv(cli.runtime)


def _filter(cli: CliSession, words: list[str], flags: set[str]) -> proxies.Filter:
    proxy = None
    types = server = -1
    if words:
        if words[0] != "-1":
            proxy = cli.runtime.proxy(words[0])
        types, server = c_integer(words[1]), c_integer(words[2])
        if words[0] != "-1" and proxy is None:
            if not c_integer(words[0]):
                raise CliError("No such proxy.")
            types = 0  # a number that no proxy has: nothing but the header
    return proxies.Filter(
        proxy,
        types,
        server,
        up="up" in flags,
        no_maint="no-maint" in flags,
        legends=cli.level >= Level.OPERATOR,
    )


def _show_info(cli: CliSession, args: list[str]) -> Answer:
    # HAProxy: other words say nothing
    items = process.info(cli.runtime, precise="float" in args)
    if "json" in args:
        return process.render_json(items)
    if "typed" in args:
        return process.render_typed(items, describe="desc" in args)
    return process.render_text(items, describe="desc" in args)


def _clear_counters(cli: CliSession, args: list[str]) -> Answer:
    """Without `all` only the highest values are cleared (management guide, "clear counters")."""
    if args not in ([], ["all"]):
        raise CliError("Expected: clear counters [all]")
    runtime = cli.runtime
    if args:
        cli.need(Level.ADMIN)
        for proxy in runtime.proxies:
            number = proxy.settings.id
            if proxy.frontends:
                runtime.baselines.clear((number, "F"), proxy.frontend_counters())
            for listener in proxy.listeners:
                key = (number, "L", listener.settings.id)
                runtime.baselines.clear(key, listener.counters)
            if proxy.backends and proxy.shared is not None:
                runtime.baselines.clear((number, "B"), proxy.backend_counters())
                for server in proxy.shared.servers:
                    sets = [side.counters for side in server.sides]
                    runtime.baselines.clear((number, server.id), sets)
    runtime.rates.clear()
    # each thread clears its own maxima
    for tid in range(runtime.pool.nbthread):
        runtime.pool.run_on(tid, lambda ctx: _clear_maxima_of(cli, ctx.tid))
    return ""


def _clear_maxima_of(cli: CliSession, tid: int) -> None:
    for proxy in cli.runtime.proxies:
        for frontend in proxy.frontends:
            if frontend.tid == tid:
                clear_maxima(frontend.counters)
        for backend in proxy.backends:
            if backend.tid == tid:
                clear_maxima(backend.counters)
                for server in backend.servers:
                    clear_maxima(server.counters)


COMMANDS: tuple[Command, ...] = (
    Command(
        ("show", "stat"),
        "show stat [desc|json|no-maint|typed|up]*",
        "counters of frontends, backends and servers",
        Level.USER,
        _show_stat,
    ),
    Command(
        ("show", "info"),
        "show info [desc|json|typed|float]*",
        "the process in figures",
        Level.USER,
        _show_info,
    ),
    Command(
        ("clear", "counters"),
        "clear counters [all]",
        "clear the highest values, or all counters",
        Level.OPERATOR,
        _clear_counters,
    ),
)

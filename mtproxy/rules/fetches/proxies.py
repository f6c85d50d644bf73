"""State of frontends, backends, servers and queues (manual 7.3.2).

Numbers count all threads: sessions exactly for what this thread did and up to a millisecond ago
for the others, queues and free places as they are, rates as the statistics have them. Servers are
found when the functions are made. Functions belong to the thread that made them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.points import Need
from mtproxy.rules.tables import ArgKind, Fetch, required
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate, Maker
    from mtproxy.rules.view import View

#: more than any timeout of a configuration (ms): there is none
_NEVER: Final = 1 << 40


# --- a named frontend, backend or server


def _backend(args: tuple[Any, ...], build: Build) -> Any:
    """This thread's side of the backend."""
    return build.room.backends[args[0] or build.proxy.name]


def _server(args: tuple[Any, ...], build: Build) -> Any:
    """This thread's side of the server."""
    backend, name = args[0]
    servers = build.room.backends[backend or build.proxy.name].servers
    return next(server for server in servers if server.name == name)


def _check_server(args: tuple[Any, ...]) -> str | None:
    return None if args[0][1] else "missing server name"


def _of_backend(function: Callable[[Any, View], int]) -> Maker:
    def make(args: tuple[Any, ...], build: Build) -> Evaluate:
        backend = _backend(args, build)
        return lambda view: function(backend, view)

    return make


def _of_server(function: Callable[[Any, View], int]) -> Maker:
    def make(args: tuple[Any, ...], build: Build) -> Evaluate:
        server = _server(args, build)
        return lambda view: function(server, view)

    return make


def _sessions(side: Any, view: View) -> int:
    return int(side.load.total(view.ctx.now))


def _usable(backend: Any, _view: View) -> int:
    """Servers that get traffic now."""
    shared = backend.shared
    if shared.active or "allbackups" in shared.settings.options:
        return int(shared.active or shared.backup)
    return 1 if shared.backup else 0


def _queue(backend: Any, _view: View) -> int:
    """Sessions that wait, in the backend's queue and in those of its servers."""
    queue = backend.shared.queue
    return 0 if queue is None else int(queue.waiting_in_all)


def _avg_queue(backend: Any, view: View) -> int:
    waiting = _queue(backend, view)
    usable = _usable(backend, view)
    return (waiting + usable - 1) // usable if usable else waiting * 2


def _free_places(backend: Any, _view: View) -> int:
    """Sessions that the servers could take now; -1: one of them has no limit."""
    total = 0
    for server in backend.shared.servers:
        if not backend.shared.elects(server):
            continue
        limit = server.limit
        if limit is None or not limit.maxconn:
            return -1
        total += max(0, limit.most() - limit.served)
    return total


def _slots(backend: Any, _view: View) -> int:
    """Free places of servers and of their queues; -1: one of them has no limit."""
    total = 0
    for server in backend.shared.servers:
        if not server.running:
            continue
        limit = server.limit
        if limit is None or not limit.maxconn or not limit.maxqueue:
            return -1
        total += limit.maxconn - limit.served + limit.maxqueue - limit.waiting.length
    return total


def _server_queue(server: Any, _view: View) -> int:
    limit = server.shared.limit
    return 0 if limit is None else int(limit.waiting.length)


def _server_places(server: Any, _view: View) -> int:
    """Sessions that the server could take now; -1: it has no limit."""
    limit = server.shared.limit
    if limit is None or not limit.maxconn:
        return -1
    return int(max(0, limit.most() - limit.served))


def _is_up(server: Any, _view: View) -> bool:
    return bool(server.shared.running)


def _weight(server: Any, _view: View) -> int:
    return int(server.shared.weight)


def _shown_weight(server: Any, view: View) -> int:
    return int(server.shared.shown_weight(view.ctx.now))


def _initial_weight(server: Any, _view: View) -> int:
    return int(server.settings.weight)


# --- rates


def _backend_rate(args: tuple[Any, ...], build: Build) -> Evaluate:
    backend = _backend(args, build)
    rate = build.shared.rate
    key = (backend.settings.id, "B", "cum_sess")
    sides = backend.shared.sides

    def current(view: View) -> int:
        # a stream is counted when it gets its server: the one that asks may be on its way
        coming = view.be is backend and view.srv is None
        return rate(key, sum([side.sessions_so_far() for side in sides]) + coming)

    return current


def _server_rate(args: tuple[Any, ...], build: Build) -> Evaluate:
    server = _server(args, build)
    rate = build.shared.rate
    key = (server.backend.settings.id, server.settings.id, "cum_sess")
    sides = server.shared.side_counters
    return lambda _view: rate(key, sum([counters.cum_sess for counters in sides]))


def _frontend_rate(name: str) -> Maker:
    def make(args: tuple[Any, ...], build: Build) -> Evaluate:
        rate = build.shared.rate
        # log lines are made before all frontends are there: it is found when it is used
        fronts = build.room.fronts
        front = args[0] or build.proxy.name

        def current(_view: View) -> int:
            frontend = fronts[front].frontend
            key = (frontend.settings.id, "F", name)
            return rate(key, sum([getattr(side, name) for side in frontend.side_counters]))

        return current

    return make


def _frontend_sessions(args: tuple[Any, ...], build: Build) -> Evaluate:
    fronts = build.room.fronts
    front = args[0] or build.proxy.name
    return lambda view: fronts[front].frontend.load.total(view.ctx.now)


# --- the stream's own frontend, backend and server


def _fe_id(view: View) -> int:
    return int(view.fe.settings.id)


def _fe_name(view: View) -> bytes:
    return str(view.fe.name).encode()


def _fe_defbe(view: View) -> bytes | None:
    name = view.fe.settings.default_backend
    return None if name is None else str(name).encode()


def _fe_client_timeout(view: View) -> int:
    return view.fe.settings.timeouts.client or 0


def _be_settings(view: View) -> Any:
    """The settings of the backend: of the frontend, as long as none is chosen.

    For log lines the stream has left its backend, whose name it keeps.
    """
    if view.be is not None:
        return view.be.settings
    backend = view.ctx.room.backends.get(view.backend)
    return view.fe.settings if backend is None else backend.settings


def _be_id(view: View) -> int:
    return int(_be_settings(view).id)


def _be_name(view: View) -> bytes:
    return view.backend.encode()


def _be_server_timeout(view: View) -> int:
    return _be_settings(view).timeouts.server or 0


def _be_tunnel_timeout(view: View) -> int:
    return _be_settings(view).timeouts.tunnel or 0


def _current_timeout(name: str, configured: Evaluate) -> Evaluate:
    """A timeout as it applies now: none before there is a connection, unless a rule set it."""

    def timeout(view: View) -> int:
        be = view.be
        if be is None:
            limits = view.txn.limits
            if limits is not None and name in limits:
                return limits[name]
            return 0 if view.t_c < 0 else int(configured(view) or 0)
        value = getattr(view.bconf, name)
        if view.t_c < 0 and value == getattr(view.ctx.room.confs[be.name], name):
            return 0
        return value if value < _NEVER else 0

    return timeout


def _srv_name(view: View) -> bytes | None:
    srv = view.srv
    if srv is not None and srv.settings.id:
        return str(srv.name).encode()
    # a name that is written in brackets is none
    return None if view.server.startswith("<") else view.server.encode()


def _srv_id(view: View) -> int | None:
    srv = view.srv
    if srv is not None:
        return int(srv.settings.id) or None
    backend = view.ctx.room.backends.get(view.backend)
    for server in () if backend is None else backend.servers:
        if server.name == view.server:
            return int(server.settings.id)
    return None


_BACKEND: Final = required(ArgKind.BACKEND)
_FRONTEND: Final = required(ArgKind.FRONTEND)
_SERVER: Final = required(ArgKind.SERVER)
_RUNNING: Final = Need.RUNNING

FETCHES: tuple[Fetch, ...] = (
    *(
        Fetch(name, Type.SINT, _RUNNING, make=_of_backend(function), args=_BACKEND)
        for name, function in (
            ("avg_queue", _avg_queue),
            ("be_conn", _sessions),
            ("be_conn_free", _free_places),
            ("connslots", _slots),
            ("nbsrv", _usable),
            ("queue", _queue),
        )
    ),
    Fetch("be_sess_rate", Type.SINT, _RUNNING, make=_backend_rate, args=_BACKEND),
    Fetch("fe_conn", Type.SINT, _RUNNING, make=_frontend_sessions, args=_FRONTEND),
    Fetch("fe_req_rate", Type.SINT, _RUNNING, make=_frontend_rate("cum_req"), args=_FRONTEND),
    Fetch("fe_sess_rate", Type.SINT, _RUNNING, make=_frontend_rate("cum_sess"), args=_FRONTEND),
    *(
        Fetch(
            name, Type.SINT, _RUNNING, make=_of_server(function), args=_SERVER, check=_check_server
        )
        for name, function in (
            ("srv_conn", _sessions),
            ("srv_conn_free", _server_places),
            ("srv_iweight", _initial_weight),
            ("srv_queue", _server_queue),
            ("srv_uweight", _weight),
            ("srv_weight", _shown_weight),
        )
    ),
    Fetch(
        "srv_is_up", Type.BOOL, _RUNNING, make=_of_server(_is_up), args=_SERVER, check=_check_server
    ),
    Fetch(
        "srv_sess_rate", Type.SINT, _RUNNING, make=_server_rate, args=_SERVER, check=_check_server
    ),
    Fetch("fe_id", Type.SINT, Need.FRONT, call=_fe_id),
    Fetch("fe_name", Type.STR, Need.FRONT, call=_fe_name),
    Fetch("fe_defbe", Type.STR, Need.FRONT, call=_fe_defbe),
    Fetch("fe_client_timeout", Type.SINT, Need.FRONT, call=_fe_client_timeout),
    Fetch("be_id", Type.SINT, Need.BACK, call=_be_id),
    Fetch("be_name", Type.STR, Need.BACK, call=_be_name),
    Fetch("be_server_timeout", Type.SINT, Need.BACK, call=_be_server_timeout),
    Fetch("be_tunnel_timeout", Type.SINT, Need.BACK, call=_be_tunnel_timeout),
    Fetch(
        "cur_server_timeout",
        Type.SINT,
        Need.BACK,
        call=_current_timeout("server", _be_server_timeout),
    ),
    Fetch(
        "cur_tunnel_timeout",
        Type.SINT,
        Need.BACK,
        call=_current_timeout("tunnel", _be_tunnel_timeout),
    ),
    Fetch("srv_id", Type.SINT, Need.SERVER, call=_srv_id),
    Fetch("srv_name", Type.STR, Need.SERVER, call=_srv_name),
)

"""State of proxies and servers as samples: with real backends, on two threads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.base.settings import ProxySettings, Timeouts
from mtproxy.proxy.frontend import Frontend
from mtproxy.proxy.queue import BackendQueue
from mtproxy.proxy.transitions import set_drain, set_maint, set_ready, set_weight
from mtproxy.rules import points
from mtproxy.testing.proxies import FakeContext, make_backend
from mtproxy.testing.samples import Samples


class Proxies(Samples):
    """Samples of frontend "fe" (number 2) and backend "be" (1) with servers s1, s2 and s3 (backup).

    The view is a stream of the first of two threads, still without a backend.
    """

    def __init__(self, **backend: Any) -> None:
        super().__init__(points.HTTP_RESPONSE)
        self.ctx: Any = FakeContext()
        timeouts = Timeouts(client=1000, server=2000, tunnel=3000)
        self.shared, self.backends = make_backend(
            [10, 20, 30], backups=[2], threads=2, timeouts=timeouts, **backend
        )
        settings = ProxySettings("fe", 2, "frontend", default_backend="be", timeouts=timeouts)
        counters: list[Any] = []
        self.fronts = [Frontend(settings, tid, None, counters) for tid in range(2)]
        self.rates: list[tuple[object, int]] = []
        room = SimpleNamespace(
            backends={"be": self.backends[0]},
            fronts={"fe": SimpleNamespace(frontend=self.fronts[0])},
        )
        self.ctx.room = room
        self.build.ctx = self.ctx
        self.build.room = room
        self.build.proxy = SimpleNamespace(name="be")
        self.build.shared.rate = self.rate
        view = self.view
        view.ctx, view.fe, view.be, view.srv = self.ctx, self.fronts[0], None, None
        view.backend, view.server = "fe", "<NOSRV>"

    def rate(self, key: object, total: int) -> int:
        self.rates.append((key, total))
        return 7

    def turn(self) -> None:
        """The next tick: what other threads did can be seen."""
        self.ctx.now += 1


@pytest.fixture
def proxies() -> Proxies:
    return Proxies()


def test_sessions_of_all_threads_count(proxies: Proxies) -> None:
    for number, (front, backend) in enumerate(zip(proxies.fronts, proxies.backends, strict=True)):
        front.counters.conn_cur = 2 + number
        backend.counters.conn_cur = 4 + number
        backend.servers[1].counters.conn_cur = 6 + number
    proxies.turn()
    assert proxies.value("fe_conn(fe)") == 5
    assert proxies.value("be_conn") == proxies.value("be_conn(be)") == 9
    assert proxies.value("srv_conn(s2)") == proxies.value("srv_conn(be/s2)") == 13
    assert proxies.value("srv_conn(s1)") == 0


def test_usable_servers(proxies: Proxies) -> None:
    first, second, backup = proxies.shared.servers
    assert proxies.value("nbsrv") == 2
    set_maint(first, proxies.ctx)
    assert proxies.value("nbsrv") == 1
    assert proxies.value("srv_is_up(s1)") is False
    set_drain(second, proxies.ctx)
    assert proxies.value("srv_is_up(s2)") is True
    # one backup server
    assert proxies.value("nbsrv") == 1
    set_maint(backup, proxies.ctx)
    assert proxies.value("nbsrv") == 0
    set_ready(first, proxies.ctx)
    assert proxies.value("nbsrv") == 1


def test_all_backup_servers_count_if_all_are_used() -> None:
    for options, usable in (([], 1), (["allbackups"], 2)):
        proxies = Proxies(options=options)
        shared, sides = make_backend([1, 1, 1], backups=[1, 2], options=options)
        set_maint(shared.servers[0], proxies.ctx)
        proxies.build.room.backends["be"] = sides[0]
        assert proxies.value("nbsrv") == usable


def test_weights(proxies: Proxies) -> None:
    set_weight(proxies.shared.servers[0], proxies.ctx, 5)
    values = {name: proxies.value(f"srv_{name}(s1)") for name in ("weight", "uweight", "iweight")}
    assert values == {"weight": 5, "uweight": 5, "iweight": 10}


def test_queues_are_shared_among_the_servers_that_work(proxies: Proxies) -> None:
    queue = BackendQueue(proxies.shared)
    proxies.shared.queue = queue
    first = proxies.shared.servers[0]
    first.limit = queue.add(first, 5)
    queue.waiting.length = 2
    first.limit.waiting.length = 1
    assert proxies.value("queue") == 3
    assert proxies.value("avg_queue") == 2
    assert proxies.value("srv_queue(s1)") == 1
    for server in proxies.shared.servers:
        set_maint(server, proxies.ctx)
    assert proxies.value("avg_queue") == 6


def test_free_places_without_limits(proxies: Proxies) -> None:
    names = ("be_conn_free", "connslots", "srv_conn_free(s1)")
    assert [proxies.value(name) for name in names] == [-1, -1, -1]


def test_rates_have_the_keys_of_the_statistics(proxies: Proxies) -> None:
    proxies.fronts[0].counters.cum_sess = 1
    proxies.fronts[1].counters.cum_sess = 2
    proxies.fronts[1].counters.cum_req = 4
    proxies.backends[0].counters.cum_sess = 1
    proxies.backends[1].servers[0].counters.cum_sess = 5
    names = ("fe_sess_rate(fe)", "fe_req_rate(fe)", "be_sess_rate", "srv_sess_rate(s1)")
    assert [proxies.value(name) for name in names] == [7, 7, 7, 7]
    assert proxies.rates == [
        ((2, "F", "cum_sess"), 3),
        ((2, "F", "cum_req"), 4),
        ((1, "B", "cum_sess"), 6),
        ((1, 1, "cum_sess"), 5),
    ]


def test_a_session_that_has_no_server_yet_counts_for_the_rate(proxies: Proxies) -> None:
    proxies.view.be = proxies.backends[0]
    assert proxies.value("be_sess_rate") == 7
    assert proxies.rates == [((1, "B", "cum_sess"), 1)]


def test_the_streams_own_proxies_and_server(proxies: Proxies) -> None:
    view = proxies.view
    names = ["fe_id", "fe_name", "fe_defbe", "fe_client_timeout", "be_id", "be_name"]
    names += ["srv_id", "srv_name", "be_server_timeout", "be_tunnel_timeout"]
    before = [proxies.value(name) for name in names]
    assert before == [2, b"fe", b"be", 1000, 2, b"fe", None, None, 2000, 3000]
    view.be, view.srv = proxies.backends[0], proxies.backends[0].servers[1]
    view.backend, view.server = "be", "s2"
    during = [proxies.value(name) for name in names]
    assert during == [2, b"fe", b"be", 1000, 1, b"be", 2, b"s2", 2000, 3000]
    # as for a log line: the stream has left them
    view.be = view.srv = None
    assert [proxies.value(name) for name in names] == during


def test_timeouts_in_force(proxies: Proxies) -> None:
    names = ("cur_server_timeout", "cur_tunnel_timeout")
    assert [proxies.value(name) for name in names] == [0, 0]
    # set before there is a backend
    proxies.view.txn.limits = {"tunnel": 4}
    assert [proxies.value(name) for name in names] == [0, 4]
    # in the backend
    proxies.view.be = proxies.backends[0]
    proxies.view.bconf = SimpleNamespace(server=2000, tunnel=6)
    proxies.ctx.room.confs = {"be": SimpleNamespace(server=2000, tunnel=3000)}
    assert [proxies.value(name) for name in names] == [0, 6]
    # connected
    proxies.view.t_c = 0
    assert [proxies.value(name) for name in names] == [2000, 6]
    proxies.view.bconf.server = 1 << 61
    assert [proxies.value(name) for name in names] == [0, 6]
    # left again
    proxies.view.be, proxies.view.backend = None, "be"
    proxies.view.txn.limits = None
    assert [proxies.value(name) for name in names] == [2000, 3000]


def test_what_has_to_exist_is_noted(proxies: Proxies) -> None:
    proxies.value("nbsrv")
    proxies.value("be_conn(be)")
    proxies.value("srv_conn(be/s1)")
    kinds = [(one.kind, one.name) for one in proxies.references]
    assert kinds == [("backend", ""), ("backend", "be"), ("server", "be/s1")]


@pytest.mark.parametrize("text", ["srv_conn", "srv_conn()", "nbsrv(a,b)", "fe_id(x)"])
def test_wrong_arguments(text: str, proxies: Proxies) -> None:
    with pytest.raises(ConfigError):
        proxies.value(text)

"""What rules do with stick tables: keys, tracking, fetches, converters, actions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.base.location import Location
from mtproxy.base.ruleset import Rule
from mtproxy.base.settings import GlobalSettings, ProxySettings, Settings
from mtproxy.config.keywords_rules import parse_rule
from mtproxy.proxy.sticktable import StickTable
from mtproxy.proxy.sticktable_layout import USES
from mtproxy.rules import points, registry
from mtproxy.rules.build import Build, RuleShared
from mtproxy.rules.expression import build_expression, parse_expression
from mtproxy.rules.points import Point
from mtproxy.rules.reader import RuleReader
from mtproxy.rules.sticktables import any_key, key_of
from mtproxy.rules.transaction import Transaction
from mtproxy.rules.types import Binary, Ip4, Ip6
from mtproxy.sync import stats
from mtproxy.testing.proxies import FakeContext
from mtproxy.testing.tables import make_table

STORE = "conn_cnt,conn_cur,sess_cnt,http_req_cnt,http_req_rate,http_err_cnt,http_fail_cnt,gpc0,gpt0"


class Bench:
    """Rules and expressions of one thread, on a connection from 192.0.2.1."""

    def __init__(self, *tables: StickTable, kind: str = "frontend") -> None:
        stats.configure(8)
        self.ctx = FakeContext()
        self.ctx.now = 100_000
        shared = RuleShared(Settings(GlobalSettings(), ()))
        shared.tables.update({table.name: table for table in tables})
        proxy = ProxySettings("own", 1, kind, mode="http")
        room = SimpleNamespace(count_listeners=False)
        self.build = Build(shared, proxy, self.ctx, room)
        self.references: list[Any] = []
        self.view: Any = SimpleNamespace(
            txn=Transaction(), tracking=None, client_ip="192.0.2.1", client_port=1, endpoints=None,
            may_change=False, status=-1, sess_vars=None, request=None, response=None,
        )  # fmt: skip

    def reader(self, text: str, point: Point) -> RuleReader:
        return RuleReader(
            tuple(text.split(" ")), Location("t", 1), point, proxy="own", references=self.references
        )

    def value(self, text: str, point: Point = points.HTTP_REQUEST) -> Any:
        reader = self.reader(text, point)
        expression = parse_expression(reader)
        reader.end()
        return build_expression(expression, self.build)(self.view)

    def rule(self, text: str, point: Point = points.HTTP_REQUEST) -> Rule:
        return parse_rule(self.reader(text, point), point.name)

    def act(self, text: str, point: Point = points.HTTP_REQUEST) -> Any:
        rule = self.rule(text, point)
        entry = registry.ACTIONS[rule.action]
        assert entry.build is not None
        return entry.build(rule.args, self.build)(self.view)

    def end(self) -> None:
        """The end of a transaction."""
        if self.view.tracking is not None:
            self.view.tracking.end_transaction(10, 20)


@pytest.fixture
def table() -> StickTable:
    return make_table(store=STORE, kind="ip", name="t", expire=10_000)


@pytest.fixture
def bench(table: StickTable) -> Bench:
    return Bench(table, make_table(store="http_req_cnt", kind="ip", name="own"))


def cells(table: StickTable, address: str = "192.0.2.1") -> dict[str, int]:
    entry = table.find(int.from_bytes(bytes(map(int, address.split(".")))))
    assert entry is not None
    return {name: entry.cells[cell] for name, cell in table.layout.cells.items()}


# --- keys


@pytest.mark.parametrize(
    ("kind", "length", "value", "key"),
    [
        ("integer", 32, -1, 0xFFFFFFFF),
        ("integer", 32, 1 << 32 | 5, 5),
        ("string", 3, b"abcd", b"abc"),
        ("string", 5, b"abcd", b"abcd"),
        ("binary", 6, b"abcd", b"abcd\0\0"),
        ("binary", 2, b"abcd", b"ab"),
        ("ip", 32, Ip4(7), 7),
    ],
)
def test_keys_are_cut_and_filled_as_haproxys(kind: str, length: int, value: Any, key: Any) -> None:
    assert key_of(make_table(kind=kind, length=length).settings)(value) == key


@pytest.mark.parametrize(
    ("kind", "value", "key"),
    [
        ("ip", b"1.2.3.4", 0x01020304),
        ("ip", b"x", None),
        ("ip", b"::ffff:1.2.3.4", None),
        ("ip", Ip6(0xFFFF << 32 | 5), 5),
        ("ipv6", Ip4(5), 0xFFFF << 32 | 5),
        ("ipv6", b"1.2.3.4", None),
        ("ipv6", b"::5", 5),
        ("integer", b"12x", 12),
        ("integer", True, 1),
        ("string", Ip4(5), b"0.0.0.5"),
        ("string", 7, b"7"),
        ("binary", Binary(b"a"), b"a" + b"\0" * 31),
    ],
)
def test_samples_of_any_type_become_keys(kind: str, value: Any, key: Any) -> None:
    assert any_key(make_table(kind=kind).settings)(value) == key


# --- tracking


def test_an_http_request_rule_tracks_one_transaction(bench: Bench, table: StickTable) -> None:
    for number in (1, 2, 3):
        bench.act("track-sc0 src table t")
        bench.act("track-sc0 str(9.9.9.9) table t")  # the first one counts
        assert bench.value("sc0_http_req_cnt") == bench.value("sc_conn_cnt(0)") == number
        assert bench.value("sc0_conn_cur") == bench.value("sc0_trackers") == 1
        assert bench.value("sc0_http_req_rate") == number
        bench.end()
        assert bench.value("sc0_tracked") is False
        assert bench.value("sc0_http_req_cnt") is None
    assert cells(table)["conn_cur"] == 0
    assert table.used == 1
    table._check()


@pytest.mark.parametrize("point", [points.TCP_CONNECTION, points.TCP_SESSION])
def test_rules_of_the_session_track_all_of_it(
    bench: Bench, table: StickTable, point: Point
) -> None:
    bench.act("track-sc1 src table t", point)
    tracking = bench.view.tracking
    tracking.count_session()
    for _ in range(3):
        tracking.count_request()
        bench.end()
    assert bench.value("sc1_http_req_cnt") == 3
    assert bench.value("sc1_conn_cnt") == bench.value("sc1_sess_cnt") == 1
    assert bench.value("sc1_conn_cur") == 1
    tracking.end_session()
    assert cells(table)["conn_cur"] == 0
    assert bench.value("sc1_tracked") is False
    table._check()


def test_what_the_transaction_tracks_hides_what_the_session_tracks(bench: Bench) -> None:
    bench.act("track-sc0 src table t", points.TCP_SESSION)
    bench.act("track-sc0 str(9.9.9.9) table t")
    tracking = bench.view.tracking
    tracking.count_error()
    assert bench.value("sc0_http_err_cnt") == 1
    assert bench.value("src_http_err_cnt(t)") == 0
    bench.end()
    assert bench.value("sc0_http_err_cnt") == 0
    tracking.end_session()


def test_content_rules_count_the_request_when_it_is_read(bench: Bench, table: StickTable) -> None:
    bench.act("track-sc0 src table t", points.TCP_CONTENT)
    assert cells(table)["http_req_cnt"] == 0
    bench.view.tracking.count_request()
    assert cells(table)["http_req_cnt"] == 1
    bench.end()


def test_a_backends_content_rules_count_it_there() -> None:
    table = make_table(store=STORE, kind="ip", name="t")
    bench = Bench(table, kind="backend")
    bench.act("track-sc0 src table t", points.TCP_CONTENT)
    bench.view.tracking.count_backend_request()
    assert cells(table)["http_req_cnt"] == 1
    bench.end()


@pytest.mark.parametrize(
    ("status", "error", "fail"),
    [(200, 0, 0), (404, 1, 0), (500, 0, 1), (501, 0, 0), (505, 0, 0), (503, 0, 1)],
)
def test_answers_of_servers_are_judged(
    bench: Bench, table: StickTable, status: int, error: int, fail: int
) -> None:
    bench.act("track-sc0 src table t")
    bench.view.tracking.count_status(status)
    bench.end()
    assert (cells(table)["http_err_cnt"], cells(table)["http_fail_cnt"]) == (error, fail)
    # what is tracked only when the answer is there counts it at once
    bench.view.status = status
    bench.act("track-sc0 src table t", points.HTTP_RESPONSE)
    bench.end()
    found = cells(table)
    assert (found["http_err_cnt"], found["http_fail_cnt"]) == (2 * error, 2 * fail)
    assert found["http_req_cnt"] == 2


def test_what_is_no_request_counts_for_the_session(bench: Bench, table: StickTable) -> None:
    bench.act("track-sc0 src table t", points.TCP_SESSION)
    bench.view.tracking.count_unparsed(error=True)
    bench.view.tracking.count_unparsed(error=False)
    assert cells(table)["http_req_cnt"] == 2
    assert cells(table)["http_err_cnt"] == 1
    bench.view.tracking.end_session()


def test_bytes_are_counted_at_the_end() -> None:
    table = make_table(store="bytes_in_cnt,bytes_out_cnt", kind="ip", name="t")
    bench = Bench(table)
    bench.act("track-sc0 src table t", points.TCP_SESSION)
    bench.act("track-sc1 str(9.9.9.9) table t")
    bench.view.tracking.end_transaction(3000, 5000)
    for address in ("192.0.2.1", "9.9.9.9"):
        assert cells(table, address) == {"bytes_in_cnt": 3000, "bytes_out_cnt": 5000}
    assert bench.value("sc0_kbytes_in") == 2
    assert bench.value("sc0_kbytes_out") == 4
    bench.view.tracking.end_session()


def test_a_key_that_is_not_there_tracks_nothing(bench: Bench, table: StickTable) -> None:
    bench.act("track-sc0 str(no-address) table t")
    assert bench.value("sc0_tracked") is False
    assert table.used == 0


def test_a_full_table_tracks_nothing() -> None:
    table = make_table(1, store=STORE, kind="ip", name="t", nopurge=True)
    bench = Bench(table)
    bench.act("track-sc0 src table t")
    bench.act("track-sc1 str(9.9.9.9) table t")
    assert bench.value("sc0_tracked") is True
    assert bench.value("sc1_tracked") is False
    assert bench.value("str(9.9.9.9),table_gpc0(t)") == 0
    bench.end()


# --- fetches and converters


def test_the_tracked_key_in_another_table(bench: Bench) -> None:
    bench.act("track-sc0 src table t")
    assert bench.value("sc0_http_req_cnt(own)") == 0, "own does not know the key"
    bench.act("track-sc1 src table own")
    assert bench.value("sc0_http_req_cnt(own)") == 1
    assert bench.value("sc1_get_gpc0") is None, "own does not store it"
    assert bench.value("sc0_gpc0_rate") is None
    assert bench.value("sc_conn_cnt(3)") is None
    bench.end()


def test_the_clients_address_in_a_table(bench: Bench, table: StickTable) -> None:
    assert bench.value("src_conn_cnt(t)") == 0
    assert table.used == 0, "reading makes no entry"
    assert [bench.value("src_inc_gpc0(t)") for _ in range(3)] == [1, 2, 3]
    assert bench.value("src_get_gpc0(t)") == 3
    assert bench.value("src_clr_gpc0(t)") == 3
    assert bench.value("src_get_gpc0(t)") == 0
    assert bench.value("src_updt_conn_cnt(t)") == 1
    assert bench.value("src_http_req_cnt") == 0, "of the proxy's own table"
    assert bench.value("src_get_gpc0") is not None
    entry = table.find(0xC0000201)
    assert entry is not None
    assert entry.cells[USES] == 0


def test_counters_of_what_is_tracked(bench: Bench) -> None:
    bench.act("track-sc0 src table t")
    assert [bench.value("sc0_inc_gpc0") for _ in range(2)] == [1, 2]
    bench.act("sc-inc-gpc0")
    bench.act("sc-inc-gpc0(0)")
    bench.act("sc-inc-gpc0(1)")
    assert bench.value("sc0_clr_gpc0") == 4
    bench.act("sc-set-gpt0(0) 7")
    assert bench.value("sc0_get_gpt0") == 7
    bench.act("sc-set-gpt0(0) int(41),add(1)")
    assert bench.value("sc0_get_gpt0") == 42
    assert bench.value("sc0_inc_gpc1") == 0, "not stored"
    bench.end()


def test_arrays() -> None:
    table = make_table(store="gpc,gpt,gpc_rate", kind="ip", name="t")
    bench = Bench(table)
    bench.act("track-sc0 src table t")
    bench.act("sc-inc-gpc(2,0)")
    bench.act("sc-add-gpc(2,0) 5")
    bench.act("sc-set-gpt(1,0) 9")
    assert bench.value("sc_get_gpc(2,0)") == bench.value("src_get_gpc(2,t)") == 6
    assert bench.value("sc_gpc_rate(2,0)") == bench.value("src,table_gpc_rate(2,t)") == 6
    assert bench.value("sc_get_gpt(1,0)") == bench.value("src,table_gpt(1,t)") == 9
    assert bench.value("sc_get_gpc(3,0)") is None
    assert bench.value("sc0_inc_gpc0") == 1
    assert bench.value("sc0_get_gpt0") == 0
    assert bench.value("src_inc_gpc(1,t)") == 1
    assert bench.value("sc_clr_gpc(2,0)") == 6
    assert bench.value("sc_inc_gpc(2,0)") == 1
    bench.end()


def test_converters(bench: Bench) -> None:
    bench.act("track-sc0 src table t")
    assert bench.value("src,in_table(t)") is True
    assert bench.value("str(1.1.1.1),in_table(t)") is False
    assert bench.value("str(nothing),in_table(t)") is None
    assert bench.value("src,table_http_req_cnt(t)") == 1
    assert bench.value("src,table_http_req_rate(t)") == 1
    assert bench.value("str(1.1.1.1),table_http_req_rate(t)") == 0
    assert bench.value("src,table_trackers(t)") == 2, "HAProxy counts the look-up"
    assert bench.value("str(1.1.1.1),table_trackers(t)") == 0
    assert bench.value("src,table_server_id(t)") is None, "not stored"
    bench.ctx.now += 400
    assert bench.value("src,table_expire(t)") == 9600
    assert bench.value("src,table_idle(t)") == 400
    assert bench.value("str(1.1.1.1),table_idle(t)") is None
    assert bench.value("str(1.1.1.1),table_idle(t,-5)") == -5
    assert bench.value("table_cnt(t)") == 1
    assert bench.value("table_avl(t)") == 99
    bench.end()


# --- reading


def test_tables_are_noted_for_the_check_of_names(bench: Bench) -> None:
    bench.rule("track-sc0 src table x")
    bench.rule("track-sc2 src")
    assert [(one.kind, one.name) for one in bench.references] == [("table", "x"), ("table", "")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("track-sc3 src", "unknown action 'track-sc3'"),
        ("track-sc0", "expects a sample fetch"),
        ("track-sc0 src table", "expects the name of a table"),
        ("sc-inc-gpc(1)", "expects sc-inc-gpc(<index>,<track id>)"),
        ("sc-inc-gpc(a,0)", "with numbers"),
        ("sc-inc-gpc0(3)", "The max allowed ID is 2"),
        ("sc-set-gpt0(0)", "expects a number or an expression"),
        ("sc-set-gpt(0) 1", "expects sc-set-gpt(<index>,<track id>)"),
        ("sc-inc-gpc", "expects an argument in parentheses"),
    ],
)
def test_faults(bench: Bench, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bench.rule(text)
    assert message in caught.value.message

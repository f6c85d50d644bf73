"""Rows of `show stat` against lines that HAProxy 2.6.12 printed for the same state."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest

from mtproxy.base.clock import monotonic_ms
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.states import FDRAIN, FMAINT, RUNNING, STOPPED, server_status
from mtproxy.stats import fields, proxies, render
from mtproxy.stats.proxies import Filter
from mtproxy.stats.runtime import Runtime
from mtproxy.sync import stats as lock_stats
from mtproxy.testing.runtime import make_runtime

#: HAProxy 2.6's header, byte for byte
HEADER = (
    "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,"
    "wredis,status,weight,act,bck,chkfail,chkdown,lastchg,downtime,qlimit,pid,iid,sid,throttle,"
    "lbtot,tracked,type,rate,rate_lim,rate_max,check_status,check_code,check_duration,hrsp_1xx,"
    "hrsp_2xx,hrsp_3xx,hrsp_4xx,hrsp_5xx,hrsp_other,hanafail,req_rate,req_rate_max,req_tot,"
    "cli_abrt,srv_abrt,comp_in,comp_out,comp_byp,comp_rsp,lastsess,last_chk,last_agt,qtime,ctime,"
    "rtime,ttime,agent_status,agent_code,agent_duration,check_desc,agent_desc,check_rise,"
    "check_fall,check_health,agent_rise,agent_fall,agent_health,addr,cookie,mode,algo,conn_rate,"
    "conn_rate_max,conn_tot,intercepted,dcon,dses,wrew,connect,reuse,cache_lookups,cache_hits,"
    "srv_icur,src_ilim,qtime_max,ctime_max,rtime_max,ttime_max,eint,idle_conn_cur,safe_conn_cur,"
    "used_conn_cur,need_conn_est,uweight,agg_server_status,agg_server_check_status,"
    "agg_check_status,-,ssl_sess,ssl_reused_sess,ssl_failed_handshake,h2_headers_rcvd,"
    "h2_data_rcvd,h2_settings_rcvd,h2_rst_stream_rcvd,h2_goaway_rcvd,"
    "h2_detected_conn_protocol_errors,h2_detected_strm_protocol_errors,h2_rst_stream_resp,"
    "h2_goaway_resp,h2_open_connections,h2_backend_open_streams,h2_total_connections,"
    "h2_backend_total_streams,h1_open_connections,h1_open_streams,h1_total_connections,"
    "h1_total_streams,h1_bytes_in,h1_bytes_out,h1_spliced_bytes_in,h1_spliced_bytes_out,"
)

ZEROS_24 = "0," * 24
ZEROS_3 = "0,0,0," + "," * 21
# captured lines; only names, numbers and limits of proxies are those of the example here
FRONTEND = (
    "web,FRONTEND,,,0,0,50,0,0,0,0,0,0,,,,,OPEN,,,,,,,,,1,2,0,,,,0,0,0,0,,,,0,0,0,0,0,0,,0,0,0,,,"
    "0,0,0,0,,,,,,,,,,,,,,,,,,,,,http,,0,0,0,0,0,0,0,,,0,0,,,,,,,0,,,,,,,,,-," + ZEROS_24
)
TCP_FRONTEND = (
    "raw,FRONTEND,,,0,0,1000,0,0,0,0,0,0,,,,,OPEN,,,,,,,,,1,4,0,,,,0,0,0,0,,,,,,,,,,,0,0,0,,,"
    "0,0,0,0,,,,,,,,,,,,,,,,,,,,,tcp,,0,0,0,,0,0,0,,,,,,,,,,,0,,,,,,,,,-," + ZEROS_24
).replace(",,,,,,,,,,,0,0,0,,,0,0,0,0,", ",,,,,,,,,,,0,0,0,,,0,0,0,0,")
SERVER_UP = (
    "app,s1,0,0,0,0,,0,0,0,,0,,0,0,0,0,UP,1,1,0,0,0,14,0,,1,3,1,,0,,2,0,,0,L4OK,,0,0,0,0,0,0,0,,,,"
    "0,0,0,,,,,-1,,,0,0,0,0,,,,Layer4 check passed,,2,2,3,,,,127.0.0.1:8001,,http,,,,,,,,0,0,0,,,"
    "0,,0,0,0,0,0,0,0,0,0,1,,,,-," + ZEROS_3
)
SERVER_DOWN = (
    "app,s1,0,0,0,0,,0,0,0,,0,,0,0,0,0,DOWN,1,1,0,1,1,14,14,,1,3,1,,0,,2,0,,0,L4CON,,0,0,0,0,0,0,0,"
    ",,,0,0,0,,,,,-1,Connection refused,,0,0,0,0,,,,Layer4 connection problem,,2,2,0,,,,"
    "127.0.0.1:8001,,http,,,,,,,,0,0,0,,,0,,0,0,0,0,0,0,0,0,0,1,,,,-," + ZEROS_3
)
SERVER_BACKUP = "app,s2,0,0,0,0,,0,0,0,,0,,0,0,0,0,UP,1,0,1,0,0,14,0,,1,3,2,,0,,2,0,,0,L4OK,"
SERVER_MAINT = (
    "app,s3,0,0,0,0,,0,0,0,,0,,0,0,0,0,MAINT,7,1,0,,,14,,,1,3,3,,0,,2,0,,0,,,,0,0,0,0,0,0,,,,0,0,0,"
    ",,,,-1,,,0,0,0,0,,,,,,,,,,,,127.0.0.1:8003,,http,,,,,,,,0,0,0,,,0,,0,0,0,0,0,0,0,0,0,7,,,,-,"
    + ZEROS_3
)
TCP_SERVER = (
    "raw,t1,0,0,0,0,,0,0,0,,0,,0,0,0,0,no check,1,1,0,,,14,,,1,4,1,,0,,2,0,,0,,,,,,,,,,,,,,0,0,"
    ",,,,-1,,,0,0,0,0,,,,,,,,,,,,127.0.0.1:8001,,tcp,,,,,,,,0,0,0,,,0,,0,0,0,0,0,0,0,0,0,1,,,,-,"
    + ZEROS_3
)
BACKEND = (
    "app,BACKEND,0,0,0,0,5,0,0,0,0,0,,0,0,0,0,UP,1,1,1,,0,14,0,,1,3,0,,0,,1,0,,0,,,,0,0,0,0,0,0,,,,"
    "0,0,0,0,0,0,0,-1,,,0,0,0,0,,,,,,,,,,,,,,http,roundrobin,,,,,,,0,0,0,0,0,,,0,0,0,0,0,,,,,1,0,0,"
    "0,-," + ZEROS_24
)
EMPTY_BACKEND = (
    "empty,BACKEND,0,0,0,0,1,0,0,0,0,0,,0,0,0,0,UP,0,0,0,,0,14,,,1,6,0,,0,,1,0,,0,,,,0,0,0,0,0,0,,,,"
    "0,0,0,0,0,0,0,-1,,,0,0,0,0,,,,,,,,,,,,,,http,leastconn,,,,,,,0,0,0,0,0,,,0,0,0,0,0,,,,,0,0,0,0,"
    "-," + ZEROS_24
)


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still: seconds are compared."""
    now = time.monotonic_ns()
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)


@pytest.fixture
def runtime() -> Runtime:
    """The example, 14 seconds after every server was found up."""
    lock_stats.configure(2)
    runtime = make_runtime()
    then = monotonic_ms() - 14_000
    for proxy in runtime.proxies:
        if proxy.shared is not None:
            proxy.shared.last_change = then
            for state in proxy.shared.servers:
                state.last_change = then
                if state.check.enabled:
                    state.check.health.passed()
                    state.check.status = CheckStatus.L4OK
                    state.check.duration = 0
    return runtime


def servers(runtime: Runtime):
    proxy = runtime.backend("app")
    assert proxy is not None
    assert proxy.shared is not None
    return proxy.shared.servers


def csv(runtime: Runtime, wanted: Filter | None = None) -> list[str]:
    return "".join(render.render_csv(proxies.rows(runtime, wanted))).splitlines()


def cells(runtime: Runtime, proxy: str, name: str) -> dict[str, str]:
    names = HEADER[2:].split(",")
    for line in csv(runtime)[1:]:
        values = line.split(",")
        if values[:2] == [proxy, name]:
            return dict(zip(names, values, strict=True))
    raise KeyError((proxy, name))


def test_header():
    assert fields.CSV_HEADER == HEADER


def test_names_are_unique():
    assert len({f.name for f in fields.FIELDS}) == len(fields.FIELDS) == 127


def test_every_row_of_the_example(runtime: Runtime):
    got = csv(runtime)
    assert [line.split(",")[:2] for line in got[1:]] == [
        ["web", "FRONTEND"],
        ["app", "s1"],
        ["app", "s2"],
        ["app", "s3"],
        ["app", "BACKEND"],
        ["raw", "FRONTEND"],
        ["raw", "t1"],
        ["raw", "BACKEND"],
        ["empty", "BACKEND"],
    ]
    assert {line.count(",") for line in got} == {HEADER.count(",")}


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, FRONTEND),
        (1, SERVER_UP),
        (3, SERVER_MAINT),
        (4, BACKEND),
        (6, TCP_SERVER),
        (8, EMPTY_BACKEND),
    ],
)
def test_line(runtime: Runtime, number: int, expected: str):
    assert csv(runtime)[1 + number] == expected


def test_tcp_frontend_has_no_http_columns(runtime: Runtime):
    line = csv(runtime)[6]
    assert line.startswith("raw,FRONTEND,,,0,0,1000,0,0,0,0,0,0,,,,,OPEN,,,,,,,,,1,4,0,,,,0,0,0,0,")
    empty = {"hrsp_2xx", "intercepted", "cache_hits", "cli_abrt", "connect"}
    row = cells(runtime, "raw", "FRONTEND")
    assert {name for name in empty if row[name]} == set()
    # HAProxy shows these in any mode
    assert (row["req_rate"], row["req_rate_max"], row["req_tot"]) == ("0",) * 3
    assert (row["comp_in"], row["conn_tot"], row["dcon"], row["wrew"], row["eint"]) == ("0",) * 5


def test_backup_server(runtime: Runtime):
    assert csv(runtime)[3].startswith(SERVER_BACKUP)


def test_server_that_is_down(runtime: Runtime):
    state = servers(runtime)[0]
    state.check.health.value = 0
    state.state = STOPPED
    state.check.status = CheckStatus.L4CON
    state.check.info = "Connection refused"
    state.failed_checks = state.down_transitions = 1
    assert csv(runtime)[2] == SERVER_DOWN


@pytest.mark.parametrize(
    ("value", "drain", "maint", "expected"),
    [
        (3, False, False, "UP"),
        (2, False, False, "UP 1/2"),
        (1, False, False, "DOWN 1/2"),
        (0, False, False, "DOWN"),
        (3, True, False, "DRAIN"),
        (2, True, False, "DRAIN 1/2"),
        (3, True, True, "MAINT"),
    ],
)
def test_status(runtime: Runtime, value: int, drain: bool, maint: bool, expected: str):
    state = servers(runtime)[0]
    state.check.health.value = value
    state.state = STOPPED if maint or not state.check.health.up else RUNNING
    state.admin = FDRAIN * drain | FMAINT * maint
    assert server_status(state) == expected


def test_downtime_adds_up(runtime: Runtime):
    state = servers(runtime)[0]
    state.down_ms = 6_000
    assert cells(runtime, "app", "s1")["downtime"] == "6"
    state.state = STOPPED
    assert cells(runtime, "app", "s1")["downtime"] == "20"


def test_counters_of_threads_are_added(runtime: Runtime):
    one, two = (f.counters for f in runtime.proxies[0].frontends)
    one.cum_sess, two.cum_sess = 3, 4
    one.conn_cur, two.conn_cur = 1, 2
    one.bytes_in = 10**12
    one.http_rsp[2], two.http_rsp[2], two.http_rsp[0] = 5, 6, 1
    row = cells(runtime, "web", "FRONTEND")
    assert (row["stot"], row["scur"], row["smax"], row["bin"]) == ("7", "3", "3", "1000000000000")
    assert (row["hrsp_2xx"], row["hrsp_other"]) == ("11", "1")


def test_smax_is_at_least_one_after_a_session(runtime: Runtime):
    """A burst between two looks must not leave "0 at most, 7 in all"."""
    runtime.proxies[0].frontends[0].counters.cum_sess = 7
    assert cells(runtime, "web", "FRONTEND")["smax"] == "1"
    assert cells(runtime, "app", "s1")["smax"] == "0"


def test_averages(runtime: Runtime):
    for side, times in zip(
        servers(runtime)[0].sides, ((2, 4, 10, 100), (4, 4, 20, 200)), strict=True
    ):
        for _ in range(10):
            side.counters.add_times(*times)
    row = cells(runtime, "app", "s1")
    averages = [row[name] for name in ("qtime", "ctime", "rtime", "ttime")]
    assert averages == ["3", "4", "15", "150"]
    highest = [row[name] for name in ("qtime_max", "ctime_max", "rtime_max", "ttime_max")]
    assert highest == ["4", "4", "20", "200"]


def test_last_session(runtime: Runtime):
    now = monotonic_ms()
    one, two = servers(runtime)[0].sides
    one.counters.last_tick, two.counters.last_tick = now - 100_000, now - 5000
    assert cells(runtime, "app", "s1")["lastsess"] in ("5", "6")


def test_sessions_and_idle_connections_of_a_server(runtime: Runtime):
    one, two = servers(runtime)[0].sides
    one.counters.conn_cur, two.counters.conn_cur = 2, 1
    idle = [SimpleNamespace(mark=SimpleNamespace(reused=times)) for times in (0, 3)]
    one.idle.extend(idle)  # type: ignore[arg-type]
    row = cells(runtime, "app", "s1")
    assert (row["scur"], row["used_conn_cur"], row["srv_icur"]) == ("3", "3", "2")
    assert (row["idle_conn_cur"], row["safe_conn_cur"]) == ("1", "1")


# --- filters


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Filter(types=1), ["web/FRONTEND", "raw/FRONTEND"]),
        (Filter(types=2), ["app/BACKEND", "raw/BACKEND", "empty/BACKEND"]),
        (Filter(types=4, server_id=1), ["app/s1", "raw/t1"]),
        (Filter(types=4), ["app/s1", "app/s2", "app/s3", "raw/t1"]),
        (Filter(types=6, server_id=2), ["app/s2"]),
        (
            Filter(types=7, server_id=0),
            ["web/FRONTEND", "app/BACKEND", "raw/FRONTEND", "raw/BACKEND", "empty/BACKEND"],
        ),
        (Filter(types=8), []),
    ],
)
def test_filter(runtime: Runtime, wanted: Filter, expected: list[str]):
    got = [f"{r.values['pxname']}/{r.values['svname']}" for r in proxies.rows(runtime, wanted)]
    assert got == expected


def test_filter_up_and_no_maint(runtime: Runtime):
    state = servers(runtime)[1]
    state.check.health.value = 0
    state.state = STOPPED
    app = runtime.proxy("app")

    def names(wanted: Filter) -> list[str]:
        return [f"{r.values['svname']}={r.values['status']}" for r in proxies.rows(runtime, wanted)]

    assert names(Filter(app, no_maint=True)) == ["s1=UP", "s2=DOWN", "BACKEND=UP (1/3)"]
    assert names(Filter(app, up=True)) == ["s1=UP", "BACKEND=UP (1/3)"]


def test_addresses_are_for_operators(runtime: Runtime):
    line = csv(runtime, Filter(types=4, legends=False))[1]
    assert "127.0.0.1" not in line


# --- forms


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, ""), (0, "0"), ("a", "a"), ('x"y,z', '"x""y,z"'), ("a b", "a b"), ("a\nb", '"a\nb"')],
)
def test_csv_quoting(value: str | int | None, expected: str):
    assert render.csv_cell(value) == expected


def test_typed(runtime: Runtime):
    runtime.proxies[0].frontends[0].counters.conn_cur = 7
    wanted = Filter(runtime.proxy("web"))
    lines = "".join(render.render_typed(proxies.rows(runtime, wanted))).splitlines()
    assert lines[0] == "F.2.0.0.pxname.1:KNS:str:web"
    assert "F.2.0.4.scur.1:MGP:u32:7" in lines
    assert "F.2.0.103.ssl_sess.1:MCP:u64:0" in lines
    assert lines[-1] == "F.2.0.126.h1_spliced_bytes_out.1:MCP:u64:0"


def test_typed_tags_of_backends_and_servers(runtime: Runtime):
    lines = "".join(render.render_typed(proxies.rows(runtime, Filter(runtime.proxy("app")))))
    assert "S.3.1.19.act.1:SGP:u32:1\n" in lines
    assert "B.3.0.19.act.1:MGP:u32:1\n" in lines
    assert "S.3.1.33.rate.1:MRP:u32:0\n" in lines
    assert "B.3.0.33.rate.1:MGP:u32:0\n" in lines
    assert "S.3.1.55.lastsess.1:MAP:s32:-1\n" in lines


def test_typed_with_descriptions(runtime: Runtime):
    lines = render.render_typed(proxies.rows(runtime, Filter(types=1)), describe=True)
    for line in "".join(lines).splitlines():
        assert line.endswith('"'), line


def test_json(runtime: Runtime):
    got = json.loads("".join(render.render_json(proxies.rows(runtime))))
    assert len(got) == 9
    assert got[0][0] == {
        "objType": "Frontend",
        "proxyId": 2,
        "id": 0,
        "field": {"pos": 0, "name": "pxname"},
        "processNum": 1,
        "tags": {"origin": "Key", "nature": "Name", "scope": "Service"},
        "value": {"type": "str", "value": "web"},
    }
    typed = "".join(render.render_typed(proxies.rows(runtime)))
    assert sum(len(row) for row in got) == len(typed.splitlines())


def test_json_without_rows():
    assert "".join(render.render_json([])) == "[]\n"

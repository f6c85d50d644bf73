"""`show info`: names, order and tags of HAProxy 2.6, values of the running process."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest

from mtproxy.stats import process
from mtproxy.stats.runtime import Runtime
from mtproxy.testing.runtime import example_settings, make_runtime

#: as HAProxy 2.6.12 printed them, without a description
NAMES = """
Name Version Release_date Nbthread Nbproc Process_num Pid Uptime Uptime_sec Memmax_MB PoolAlloc_MB
PoolUsed_MB PoolFailed Ulimit-n Maxsock Maxconn Hard_maxconn CurrConns CumConns CumReq MaxSslConns
CurrSslConns CumSslConns Maxpipes PipesUsed PipesFree ConnRate ConnRateLimit MaxConnRate SessRate
SessRateLimit MaxSessRate SslRate SslRateLimit MaxSslRate SslFrontendKeyRate SslFrontendMaxKeyRate
SslFrontendSessionReuse_pct SslBackendKeyRate SslBackendMaxKeyRate SslCacheLookups SslCacheMisses
CompressBpsIn CompressBpsOut CompressBpsRateLim Tasks Run_queue Idle_pct node Stopping Jobs
Unstoppable_Jobs Listeners ActivePeers ConnectedPeers DroppedLogs BusyPolling FailedResolutions
TotalBytesOut TotalSplicdedBytesOut BytesOutRate DebugCommandsIssued CumRecvLogs Build_info
Memmax_bytes PoolAlloc_bytes PoolUsed_bytes Start_time_sec Tainted
"""


@pytest.fixture
def runtime() -> Runtime:
    return make_runtime()


def values(runtime: Runtime, *, precise: bool = False) -> dict[str, object]:
    return {i.field.name: i.value for i in process.info(runtime, precise=precise)}


def test_names_in_haproxy_s_order(runtime: Runtime):
    lines = "".join(process.render_text(process.info(runtime))).splitlines()
    names = [line.split(": ", 1)[0].replace(" ", "_") for line in lines]
    assert names == NAMES.split()


def test_description_appears_when_it_is_set():
    settings = example_settings()
    global_ = dataclasses.replace(settings.global_, description='some "x" descr')
    runtime = make_runtime(dataclasses.replace(settings, global_=global_))
    text = "".join(process.render_text(process.info(runtime)))
    assert 'node: box\ndescription: some "x" descr\nStopping: 0\n' in text
    typed = "".join(process.render_typed(process.info(runtime)))
    assert '51.description.1:COS:str:some "x" descr\n' in typed


def test_values(runtime: Runtime):
    one, two = (f.counters for f in runtime.proxies[0].frontends)
    one.conn_cur, two.conn_cur = 3, 1
    one.cum_conn = one.cum_sess = 10
    two.cum_req = 25
    two.bytes_out = 1000
    runtime.listeners = 5
    runtime.cli_connections = 2
    runtime.thread_logs.append(SimpleNamespace(dropped=6, received=0))  # type: ignore[arg-type]
    runtime.pool.contexts[1].normal.append(None)  # type: ignore[arg-type]
    runtime.pool.leaving = True
    got = values(runtime)
    assert (got["CurrConns"], got["CumConns"], got["CumReq"]) == (4, 12, 27)
    assert (got["TotalBytesOut"], got["DroppedLogs"], got["Run_queue"]) == (1000, 6, 1)
    assert (got["Listeners"], got["Jobs"], got["Stopping"]) == (5, 9, 1)
    assert (got["Nbthread"], got["Maxconn"], got["Ulimit-n"]) == (2, 1000, 2040)
    assert (got["Name"], got["node"]) == ("HAProxy", "box")


def test_typed(runtime: Runtime):
    lines = "".join(process.render_typed(process.info(runtime))).splitlines()
    assert lines[0] == "0.Name.1:POS:str:HAProxy"
    assert lines[3] == "3.Nbthread.1:CGS:u32:2"
    assert "47.Tasks.1:MGP:u32:0" in lines
    assert "54.Unstoppable Jobs.1:MGP:u32:0" in lines
    assert lines[-1] == "71.Tainted.1:SGP:str:0"


def test_float(runtime: Runtime):
    typed = "".join(process.render_typed(process.info(runtime, precise=True)))
    assert "8.Uptime_sec.1:MDP:flt:" in typed
    assert isinstance(values(runtime)["Uptime_sec"], int)


def test_descriptions(runtime: Runtime):
    for line in process.render_text(process.info(runtime), describe=True):
        assert line.endswith('"\n')


def test_json(runtime: Runtime):
    got = json.loads("".join(process.render_json(process.info(runtime))))
    assert got[0] == {
        "field": {"pos": 0, "name": "Name"},
        "processNum": 1,
        "tags": {"origin": "Product", "nature": "Output", "scope": "Service"},
        "value": {"type": "str", "value": "HAProxy"},
    }
    assert len(got) == len(NAMES.split())


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0d 0h00m00s"), (13.9, "0d 0h00m13s"), (93_784, "1d 2h03m04s")],
)
def test_uptime(seconds: float, expected: str):
    assert process.uptime_text(seconds) == expected

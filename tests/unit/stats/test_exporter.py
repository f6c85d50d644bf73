"""The Prometheus exporter: scopes, HAProxy's names, a text that Prometheus' own parser reads."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mtproxy.stats import metrics
from mtproxy.stats.exporter import SCOPES, BadQuery, render, scopes_of
from mtproxy.stats.fields import CORE
from mtproxy.stats.process import INFO_FIELDS
from mtproxy.testing.runtime import make_runtime

ALL = frozenset(SCOPES)


@pytest.mark.parametrize(
    ("target", "scopes", "no_maint"),
    [
        (b"/metrics", ALL, False),
        (b"/metrics?", ALL, False),
        (b"/metrics?no-maint", ALL, True),
        (b"/metrics?other=1", ALL, False),
        (b"/metrics?scope=server", {"server"}, False),
        (b"/metrics?scope=server&scope=global&no-maint", {"server", "global"}, True),
        (b"/metrics?scope=", set(), False),
        (b"/metrics?scope=server&scope=", set(), False),
        (b"/metrics?scope=&scope=lock", {"lock"}, False),
        (b"/metrics?scope=*", ALL, False),
        (b"/metrics?sc%6fpe=front%65nd", {"frontend"}, False),
        (b"/metrics?scope=thread#scope=bad", {"thread"}, False),
    ],
)
def test_queries(target: bytes, scopes: set[str], no_maint: bool) -> None:
    assert scopes_of(target) == (scopes, no_maint)


@pytest.mark.parametrize("query", [b"scope", b"scope=all", b"scope=a=b", b"scope=server&scope=x"])
def test_bad_queries(query: bytes) -> None:
    with pytest.raises(BadQuery):
        scopes_of(b"/m?" + query)


def families(text: str) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_everything_is_told() -> None:
    runtime = make_runtime()
    found = families("".join(render(runtime)))
    samples = {sample.name for family in found.values() for sample in family.samples}
    # the parser gives every counter the ending that most of them have
    seen = samples | {name.removesuffix("_total") for name in samples}
    for metric in metrics.PROCESS:
        assert f"haproxy_process_{metric.name}" in seen
    kinds = {"F": "frontend", "B": "backend", "S": "server"}
    for metric in metrics.ROWS:
        for kind, name in kinds.items():
            # no check has ended yet
            if kind in metric.kinds and metric.field != "check_duration":
                assert f"haproxy_{name}_{metric.name}" in seen
    assert "haproxy_sticktable_used" in seen
    assert "mtproxy_thread_loops_total" in seen
    assert "mtproxy_lock_wait_seconds_total" in seen
    for family in found.values():
        assert family.documentation
        assert family.type in ("gauge", "counter")
    # no sample stands twice
    lines = [line for line in "".join(render(runtime)).splitlines() if line[0] != "#"]
    names = [line.rpartition(" ")[0] for line in lines]
    assert len(names) == len(set(names))


def test_states_of_servers() -> None:
    runtime = make_runtime()
    found = families("".join(render(runtime, frozenset({"server", "backend"}))))
    states = {
        (sample.labels["proxy"], sample.labels["server"]): sample.labels["state"]
        for sample in found["haproxy_server_status"].samples
        if sample.value == 1
    }
    assert states[("app", "s1")] == "UP"
    assert states[("app", "s3")] == "MAINT"
    assert states[("raw", "t1")] == "UP"
    counts = {
        sample.labels["state"]: sample.value
        for sample in found["haproxy_backend_agg_server_status"].samples
        if sample.labels["proxy"] == "app"
    }
    assert counts == {"DOWN": 0, "UP": 2, "MAINT": 1, "DRAIN": 0, "NOLB": 0}
    # only what is checked has a state of checks
    checked = {sample.labels["server"] for sample in found["haproxy_server_check_status"].samples}
    assert checked == {"s1", "s2"}
    # responses are counted where there is HTTP
    http = {sample.labels["proxy"] for sample in found["haproxy_server_http_responses"].samples}
    assert http == {"app"}


def test_servers_in_maintenance_may_be_left_out() -> None:
    text = "".join(render(make_runtime(), frozenset({"server"}), no_maint=True))
    assert 'server="s1"' in text
    assert 'server="s3"' not in text


def test_scopes_are_apart() -> None:
    runtime = make_runtime()
    prefixes = {
        "global": "haproxy_process_",
        "frontend": "haproxy_frontend_",
        "backend": "haproxy_backend_",
        "server": "haproxy_server_",
        "sticktable": "haproxy_sticktable_",
        "thread": "mtproxy_thread_",
        "lock": "mtproxy_lock_",
    }
    for scope, prefix in prefixes.items():
        lines = "".join(render(runtime, frozenset({scope}))).splitlines()
        assert lines
        for line in lines:
            assert line.startswith((prefix, f"# HELP {prefix}", f"# TYPE {prefix}"))
    assert "".join(render(runtime, frozenset())) == ""


def test_metrics_name_fields_that_exist() -> None:
    info = {field.name for field in INFO_FIELDS.values()}
    for metric in metrics.PROCESS:
        assert metric.field in info or "Zlib" in metric.field
    columns = {field.name for field in CORE} | {"hrsp"}
    for metric in metrics.ROWS:
        assert metric.field in columns

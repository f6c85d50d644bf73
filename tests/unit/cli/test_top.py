"""`mtproxy top` without a screen: figures, rates, tables."""

from __future__ import annotations

import io

import pytest

from mtproxy.cli.client import ClientError
from mtproxy.cli.top.figures import (
    Rates,
    Snapshot,
    parse_activity,
    parse_info,
    parse_stat,
    product_of,
)
from mtproxy.cli.top.main import top
from mtproxy.cli.top.tables import TABLES, arrange, clean, level_of, short, text_table
from mtproxy.stats.fields import CORE

HEADER = "# " + ",".join(field.name for field in CORE) + ",-,\n"


def stat(*rows: dict[str, str]) -> str:
    """The answer to `show stat` with these columns."""
    lines = (",".join(row.get(field.name, "") for field in CORE) + ",-,\n" for row in rows)
    return HEADER + "".join(lines)


def row(proxy: str, name: str, kind: str, **columns: str) -> dict[str, str]:
    return {"pxname": proxy, "svname": name, "type": kind, "mode": "http", **columns}


def snapshot(at: float, *rows: dict[str, str], activity: str = "") -> Snapshot:
    return Snapshot(at, {"Pid": "1"}, parse_stat(stat(*rows)), parse_activity(activity))


def test_info() -> None:
    found = parse_info("Name: mtproxy\nnode: a: b\nBuild info:\n\n")
    assert found == {"Name": "mtproxy", "node": "a: b", "Build info": ""}


def test_what_is_no_statistics() -> None:
    with pytest.raises(ClientError, match="no statistics"):
        parse_stat("Permission denied\n")


def test_activity_of_several_threads_and_of_one() -> None:
    text = "thread_id: 1 (1..2)\nloops: 21 [ 10 11 ]\ntasklets_per_loop: 0.33 [ 0.5 0.18 ]\nx: 4\n"
    assert parse_activity(text) == {
        "loops": (10.0, 11.0),
        "tasklets_per_loop": (0.5, 0.18),
        "x": (4.0,),
    }


def test_rates() -> None:
    before = snapshot(
        10.0,
        row("fe", "FRONTEND", "0", req_tot="100", bin="5", ereq="1"),
        row("be", "s1", "2", hrsp_2xx="7", hrsp_5xx="1"),
        activity="loops: 30 [ 10 20 ]\n",
    )
    now = snapshot(
        12.0,
        row("fe", "FRONTEND", "0", req_tot="140", bin="3", ereq="2"),
        row("be", "s1", "2", hrsp_2xx="9", hrsp_5xx="3"),
        row("be", "new", "2", hrsp_2xx="9"),
        activity="loops: 70 [ 30 40 ]\n",
    )
    rates = Rates(before, now)
    fe, s1 = ("fe", "FRONTEND/0"), ("be", "s1/2")
    assert rates.per_second(fe, "requests") == rates.all_requests() == 20.0
    assert rates.per_second(fe, "bin") == 0.0  # cleared meanwhile
    assert rates.per_second(fe, "errors") == 0.5
    assert rates.per_second(s1, "requests") == 2.0
    assert rates.per_second(s1, "hrsp_5xx") == 1.0
    assert rates.per_second(("be", "new/2"), "requests") == 0.0
    assert rates.thread("loops", 1) == 10.0
    assert rates.thread("loops", 2) is None
    assert Rates(None, now).per_second(fe, "requests") == 0.0


def test_requests_of_tcp_are_sessions() -> None:
    before = snapshot(1.0, row("fe", "FRONTEND", "0", stot="5") | {"mode": "tcp"})
    now = snapshot(2.0, row("fe", "FRONTEND", "0", stot="8") | {"mode": "tcp"})
    assert Rates(before, now).all_requests() == 3.0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (12.4, "12"), (999, "999"), (999.6, "1.0k"), (3400, "3.4k"), (56e6, "56M")]
    + [(1e18, "1000P")],
)
def test_short_figures(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("status", "level"),
    [("UP", "good"), ("UP 1/3", "warn"), ("DOWN", "bad"), ("DOWN 1/2", "bad"), ("MAINT", "warn")]
    + [("DRAIN (agent)", "warn"), ("no check", ""), ("OPEN", ""), ("STOP", "bad")],
)
def test_levels(status: str, level: str) -> None:
    assert level_of(status) == level


def test_nothing_of_the_proxy_commands_the_terminal() -> None:
    assert clean("a\x1b[2Jb\r\n") == "a?[2Jb??"


def test_servers_of_one_backend_in_order() -> None:
    servers = [row("be", name, "2", scur=sessions) for name, sessions in (("a", "1"), ("b", "30"))]
    rates = Rates(None, snapshot(1.0, *servers, row("other", "c", "2")))
    table = TABLES["servers"]
    column = [column.title for column in table.columns].index("sess")
    rows = arrange(table.rows(rates, "be"), column, True, False)
    assert [one.cells[1].text for one in rows] == ["b", "a"]
    assert [one.cells[1].text for one in arrange(rows, 1, False, False)] == ["a", "b"]
    assert [one.cells[1].text for one in arrange(rows, 1, False, True)] == ["b", "a"]
    assert len(table.rows(rates, "")) == 3
    lines = text_table(table, rows).splitlines()
    assert lines[0].split()[:3] == ["backend", "server", "status"]
    assert len(lines) == 3


def test_usable_servers_of_a_backend() -> None:
    rates = Rates(None, snapshot(1.0, row("be", "BACKEND", "1", act="3", bck="1", status="UP")))
    (only,) = TABLES["proxies"].rows(rates, "")
    assert only.cells[3].text == "3+1"
    assert only.level == "good"


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert top(["-S", "/nowhere/at.all", "--once"], io.StringIO()) == 1
    assert "is the proxy running?" in capsys.readouterr().err


@pytest.mark.parametrize("interval", ["0", "-1", "nan", "x", "1e9"])
def test_wrong_intervals(interval: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        top(["--interval", interval])
    assert stopped.value.code == 2
    assert "is not a time" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("build", "product"),
    [("mtproxy 1.2", "mtproxy 1.2"), ("2.6.12-1", "HAProxy 2.6.12"), ("", "HAProxy 2.6.12")],
)
def test_product(build: str, product: str) -> None:
    found = {"Name": "HAProxy", "Version": "2.6.12", "Build info": build}
    assert product_of(found) == product

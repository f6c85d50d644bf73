"""The statistics page and the exporter over real sockets, beside HAProxy and in a browser.

Tests that ask for `program` run against HAProxy too: what scripts rely on is the same.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

from mtproxy.testing.configs import HTTP, http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program, find_tool
from mtproxy.testing.waiting import PATIENCE
from mtproxy.testing.wire import Wire, connect

PAGE = """
    stats enable
    stats uri /stats
    stats refresh 7s
    stats admin if { path_beg /stats }
"""


def ask(wire: Wire, target: str, *lines: str, method: str = "GET", body: str = "") -> None:
    """Send one request."""
    head = [f"{method} {target} HTTP/1.1", "host: h", *lines]
    if method == "POST":
        head.append(f"content-length: {len(body)}")
    wire.send("\r\n".join([*head, "", body]).encode())


def get(program: Program, target: str, *lines: str, name: str = "fe") -> tuple[int, bytes, bytes]:
    """Status, raw head and body of an answer on a fresh connection."""
    with connect(program.address(name)) as wire:
        ask(wire, target, *lines, "connection: close")
        head = wire.read_head()
        rest = wire.read_chunks() if head.has_token("transfer-encoding", "chunked") else None
        body = b"".join(rest) if rest is not None else wire.read_to_end()
        return head.status, head.raw, body


def post(program: Program, form: str, target: str = "/stats", *lines: str) -> bytes | None:
    """Where a form leads to."""
    with connect(program.address("fe")) as wire:
        ask(wire, target, *lines, method="POST", body=form)
        head = wire.read_head()
        assert head.status == 303
        assert head.get("content-length") == b"0"
        return head.get("location")


def states(program: Program) -> dict[str, str]:
    text = get(program, "/stats;csv")[2].decode().removeprefix("# ")
    return {row["svname"]: row["status"] for row in csv.DictReader(io.StringIO(text))}


def test_answers_have_the_form_of_haproxys(proxy, origin: Origin, program: str) -> None:
    running = proxy(http(origin.port, fe=PAGE))
    running.wait_ready()
    for target, kind in (
        ("/stats", "text/html"),
        ("/stats;csv", "text/plain"),
        ("/stats;typed", "text/plain"),
        ("/stats;json", "application/json"),
        ("/stats;json-schema", "application/json"),
    ):
        status, head, body = get(running, target)
        assert status == 200
        assert b"cache-control: no-cache\r\n" in head
        assert b"content-type: " + kind.encode() in head
        assert b"refresh: 7\r\n" in head
        assert b"transfer-encoding: chunked\r\n" in head
        assert body
    assert b"refresh:" not in get(running, "/stats;norefresh")[1]
    assert get(running, "/stats;csv")[2].startswith(b"# pxname,svname,qcur,")
    assert json.loads(get(running, "/stats;json")[2])
    assert json.loads(get(running, "/stats;json-schema")[2])["definitions"]
    # other requests and methods go their way
    assert get(running, "/other")[0] == 404  # the origin's
    with connect(running.address("fe")) as wire:
        ask(wire, "/stats", method="HEAD")
        head = wire.read_head()
        assert head.status == 200
        assert head.get("content-length") is None
        # there is no body behind it
        ask(wire, "/stats;csv")
        assert wire.read_head().status == 200


def test_forms_change_servers_as_in_haproxy(proxy, origin: Origin, program: str) -> None:
    running = proxy(http(origin.port, fe=PAGE, server="check inter 100s"))
    running.wait_ready()
    assert states(running)["s1"].startswith("UP")
    for action, state in (
        ("maint", "MAINT"),
        ("ready", "UP"),
        ("drain", "DRAIN"),
        ("ready", "UP"),
        ("hdown", "DOWN"),
        ("hnolb", "NOLB"),
        ("hrunn", "UP"),
        ("disable", "MAINT"),
        ("enable", "UP"),
        ("stop", "DRAIN"),
        ("start", "UP"),
    ):
        assert post(running, f"s=s1&action={action}&b=be") == b"/stats;st=DONE", action
        assert states(running)["s1"].startswith(state), action
    assert post(running, "s=s1&s=nope&action=maint&b=be") == b"/stats;st=PART"
    assert post(running, "s=nope&action=maint&b=be") == b"/stats;st=ERRP"
    assert post(running, "s=s1&action=nope&b=be") == b"/stats;st=ERRP"
    assert post(running, "s=s1&action=ready&b=nope") == b"/stats;st=ERRP"
    assert post(running, "s=s1&action=ready") == b"/stats;st=NONE"
    assert post(running, "") == b"/stats;st=NONE"
    target = "/stats;up;norefresh?scope=be"
    where = post(running, "s=s1&action=ready&b=be", target)
    assert where == b"/stats;st=DONE;up;norefresh?scope=be"
    big = "s=s1&" + "x=y&" * 8000 + "action=maint&b=be"
    with connect(running.address("fe")) as wire:
        ask(wire, "/stats", method="POST", body=big)
        assert wire.read_head().get("location") == b"/stats;st=EXCD"
    assert states(running)["s1"].startswith("UP")


def test_sessions_are_ended_by_a_form(proxy, serve, program: str) -> None:
    asked = threading.Event()

    def never_answer(wire: Wire) -> None:
        wire.read_head()
        asked.set()
        wire.read_to_end()

    running = proxy(http(serve(never_answer).port, fe=PAGE))
    running.wait_ready()
    with connect(running.address("fe")) as wire:
        ask(wire, "/slow", "connection: close")
        assert asked.wait(PATIENCE)
        assert post(running, "s=s1&action=shutdown&b=be") == b"/stats;st=DONE"
        # an answer of the proxy's own, or none
        said = wire.read_to_end()
        assert not said or said.startswith(b"HTTP/1.1 50")


def test_the_page_is_read_only_without_admin(proxy, origin: Origin, program: str) -> None:
    running = proxy(http(origin.port, fe="stats uri /stats\nstats admin if FALSE"))
    running.wait_ready()
    assert post(running, "s=s1&action=maint&b=be") == b"/stats;st=DENY"
    assert states(running)["s1"] == "no check"
    assert b'name="action"' not in get(running, "/stats")[2]


def test_accounts(proxy, origin: Origin, program: str) -> None:
    config = http(
        origin.port,
        fe='stats auth ada:lovelace\nstats auth bob:secret\nstats realm "the \\"numbers\\""',
        be="stats uri /be\nstats http-request deny if { hdr(x-who) evil }\n"
        "stats http-request auth realm here unless { hdr(x-who) me }",
    )
    running = proxy(config)
    running.wait_ready()
    status, head, _ = get(running, "/haproxy?stats")
    assert status == 401
    assert b"www-authenticate: Basic realm=" in head
    assert b"numbers" in head
    # ada:lovelace, bob:wrong
    assert get(running, "/haproxy?stats;csv", "authorization: Basic YWRhOmxvdmVsYWNl")[0] == 200
    assert get(running, "/haproxy?stats;csv", "authorization: Basic Ym9iOndyb25n")[0] == 401
    assert get(running, "/be", "x-who: evil")[0] == 403
    status, head, _ = get(running, "/be")
    assert status == 401
    assert b'www-authenticate: Basic realm="here"' in head
    assert get(running, "/be", "x-who: me")[0] == 200


def test_the_log_names_the_page(proxy, origin: Origin, sink, program: str) -> None:
    config = http(
        origin.port,
        fe=f"{PAGE}\nhttp-request use-service prometheus-exporter"
        f" if {{ path /metrics }}\nlog 127.0.0.1:{sink.port} local0\noption httplog",
    )
    running = proxy(config)
    running.wait_ready()
    assert get(running, "/stats;csv")[0] == 200
    assert get(running, "/metrics")[0] == 200
    post(running, "s=s1&action=ready&b=be")
    sink.wait(r' fe/<STATS> 0/0/0/0/\d+ 200 \d+ - - LR-- .*"GET /stats;csv')
    sink.wait(r" fe/<PROMEX> 0/0/0/0/\d+ 200 \d+ - - LR-- ")
    sink.wait(r' fe/<STATS> \d+/0/0/0/\d+ 303 \d+ - - LR-- .*"POST /stats ')


METRICS = "http-request use-service prometheus-exporter if { path /metrics }"


def test_the_exporter_has_haproxys_names_in_haproxys_order(origin: Origin) -> None:
    """HAProxy's output is the list: names, help, types and labels, line for line."""
    config = f"""{HTTP}
frontend fe
    bind "fd@${{fe}}" name here
    option socket-stats
    {METRICS}
    default_backend be
listen tcp
    mode tcp
    stick-table type ip size 100
    server t1 127.0.0.1:{origin.port}
backend be
    server s1 127.0.0.1:{origin.port} check inter 100s
    server s2 127.0.0.1:{origin.port} disabled
"""
    texts = []
    for name in ("haproxy", "mtproxy"):
        with Program(name, config) as running:
            running.wait_ready()
            for query in ("", "?scope=server&no-maint", "?scope=frontend&scope=backend"):
                status, head, body = get(running, f"/metrics{query}")
                assert status == 200
                assert b"content-type: text/plain; version=0.0.4\r\n" in head
                lines = [
                    line if line.startswith("#") else line.rpartition(" ")[0]
                    for line in body.decode().splitlines()
                    if "mtproxy_" not in line
                ]
                texts.append([line for line in lines if "build_info{" not in line])
            assert get(running, "/metrics?scope=nothing")[0] == 400
    theirs, ours = texts[:3], texts[3:]
    assert theirs == ours


# --- in a browser


def browser() -> str | None:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = find_tool(name)
        if found:
            return found
    return os.environ.get("MTPROXY_CHROMIUM")


PROBE = """<script>
  const report = {problem: window.problem || "none"};
  const table = document.querySelector("#be table.proxy");
  const names = () => [...table.querySelectorAll("tbody.servers tr")]
    .map(row => row.querySelector("td.name").firstChild.textContent.trim());
  report.before = names();
  const button = [...table.querySelectorAll("th button")].find(b => b.textContent === "Wght");
  button.click(); report.down = names();
  button.click(); report.up = names();
  table.querySelector("input.all").click();
  report.marked = table.querySelectorAll("input[name=s]:checked").length;
  report.colours = {};
  for (const row of table.querySelectorAll("tbody.servers tr"))
    report.colours[row.className] = getComputedStyle(row.cells[1]).backgroundColor;
  report.charts = document.querySelectorAll("#threads svg").length;
  report.threads = document.querySelectorAll("#threads tr.thread").length;
  report.locks = document.querySelectorAll("#locks tr").length;
  report.wide = document.documentElement.scrollWidth <= innerWidth;
  report.shown = document.querySelector("#be h2 small").textContent;
  report.injected = window.injected || 0;
  document.body.dataset.report = JSON.stringify(report);
</script></body>"""


def dom(program: str, page: Path, width: int, folder: Path) -> dict[str, object]:
    done = subprocess.run(
        [
            program, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
            f"--user-data-dir={folder}", "--dump-dom", f"file://{page}",
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )  # fmt: skip
    found = re.search(r'data-report="([^"]*)"', done.stdout)
    assert found is not None, done.stdout[-2000:]
    report: dict[str, object] = json.loads(
        found[1].replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">")
    )
    return report


def test_the_page_in_a_browser(origin: Origin, tmp_path: Path) -> None:
    tool = browser()
    if tool is None:
        pytest.skip("no chromium here")
    servers = "\n".join(
        f"server s{number} 127.0.0.1:{origin.port} weight {(number * 37) % 100 + 1}"
        for number in range(12)
    )
    config = f"""{HTTP}
frontend fe
    bind "fd@${{fe}}"
    {PAGE.strip()}
    stats show-legends
    default_backend be
backend be
    description a <img src=x onerror=injected=1> text
    {servers}
    server off 127.0.0.1:{origin.port} disabled
"""
    page = tmp_path / "stats.html"
    with Program("mtproxy", config) as running:
        running.wait_ready()
        text = get(running, "/stats;norefresh")[2].decode()
    catch = "<head><script>onerror = e => window.problem = e</script>"
    page.write_text(text.replace("<head>", catch, 1).replace("</body>", PROBE))
    for width in (1500, 420):
        report = dom(tool, page, width, tmp_path / f"browser{width}")
        assert report["problem"] == "none"
        assert report["injected"] == 0
        assert report["wide"], "the page is wider than the window"
        weights = {f"s{n}": (n * 37) % 100 + 1 for n in range(12)} | {"off": 1}
        before = report["before"]
        assert isinstance(before, list)
        assert sorted(before) == sorted(weights)
        down, up = report["down"], report["up"]
        assert isinstance(down, list)
        assert isinstance(up, list)
        assert [weights[name] for name in down] == sorted(weights.values(), reverse=True)
        assert [weights[name] for name in up] == sorted(weights.values())
        assert report["marked"] == 13
        colours = report["colours"]
        assert isinstance(colours, dict)
        assert set(colours) == {"unchecked", "maint"}
        assert len(set(colours.values())) == 2
        assert report["threads"]
        assert report["locks"]
        assert "<img" in str(report["shown"])

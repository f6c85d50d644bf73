"""Runtime commands against a runtime without threads; texts as HAProxy 2.6.12's where users parse
them.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.addresses import Address, AddressKind, BindSettings
from mtproxy.base.clock import monotonic_ms
from mtproxy.base.server_settings import CheckSettings
from mtproxy.base.settings import GlobalSettings, ProxySettings, Settings
from mtproxy.cli.commands import COMMANDS
from mtproxy.cli.commands_process import socket_text
from mtproxy.cli.runtime import CliSession, Level
from mtproxy.cli.sessions import duration
from mtproxy.proxy.checkstatus import FAILED, PASSED, CheckStatus
from mtproxy.proxy.counters import FrontendCounters
from mtproxy.proxy.server import ServerState
from mtproxy.proxy.states import STOPPED, STOPPING
from mtproxy.stats.runtime import ListenerRuntime
from mtproxy.sync import stats as lock_stats
from mtproxy.testing.proxies import server_settings
from mtproxy.testing.runtime import make_runtime

SET_SERVER = (
    "usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | agent-send | "
    "check-addr | check-port | fqdn | health | ssl | state | weight"
)


class Cli:
    """Runs commands in one session."""

    def __init__(self, level: Level = Level.ADMIN, settings: Settings | None = None) -> None:
        lock_stats.configure(2)
        self.runtime: Any = make_runtime(settings)
        self.session = CliSession(self.runtime, self.runtime.pool.contexts[0], COMMANDS, level)

    def __call__(self, command: str) -> str:
        """The answer without the empty line at its end."""
        pieces = []
        for piece in self.session.answer(command):
            if isinstance(piece, str):
                pieces.append(piece)
            else:
                piece.begin(lambda: None)  # what it waits for is done at once
        answer = "".join(pieces)
        assert "Internal error:" not in answer, answer
        assert answer.endswith("\n")
        return answer[:-1]

    def server(self, name: str) -> ServerState:
        proxy = self.runtime.backend("app")
        return next(s for s in proxy.shared.servers if s.name == name)


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still: seconds are compared."""
    now = time.monotonic_ns()
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)


@pytest.fixture
def cli() -> Cli:
    return Cli()


def test_every_command_has_help_that_fits():
    for command in COMMANDS.commands:
        assert command.help
        assert command.usage.startswith(command.words[0])
        assert len(command.line()) < 110


# --- session


def test_levels_can_only_be_lowered(cli: Cli):
    assert cli("show cli level") == "admin\n"
    assert cli("operator") == ""
    assert cli("show cli level") == "operator\n"
    assert cli("disable server app/s1") == "Permission denied\n"
    assert cli("user") == ""
    assert cli("operator") == "Permission denied\n"
    assert cli("show cli level") == "user\n"


def test_set_timeout(cli: Cli):
    assert cli("set timeout cli 30") == ""
    assert cli.session.timeout_ms == 30_000
    assert cli("set timeout cli 2m") == ""
    assert cli.session.timeout_ms == 120_000
    assert cli("set timeout") == "'set timeout' only supports 'cli'.\n"
    assert cli("set timeout cli") == "Expects an integer value.\n"
    assert cli("set timeout cli 5x") == "Invalid timeout value.\n"
    assert cli("set timeout cli 0") == "Invalid timeout value.\n"
    assert cli.session.timeout_ms == 120_000


@pytest.mark.parametrize(
    ("words", "interactive", "shown"),
    [("", True, True), ("p", True, True), ("i", True, False), ("n", False, False)],
)
def test_prompt(cli: Cli, words: str, interactive: bool, shown: bool):
    got = "".join(map(str, cli.session.answer(f"prompt {words}")))
    assert (cli.session.interactive, cli.session.prompt) == (interactive, shown)
    assert got == ("\n> " if shown else "\n")


def test_a_prompt_with_the_time(cli: Cli):
    pieces = "".join(map(str, cli.session.answer("prompt p timed")))
    assert re.fullmatch(r"\n\[0:00:\d\d:\d\d\]> ", pieces)
    assert "".join(map(str, cli.session.answer("prompt timed"))) == "\n> "
    assert "it stays open" in "".join(map(str, cli.session.answer("prompt help")))


def test_severity(cli: Cli):
    assert cli("set severity-output string") == ""
    assert cli("get weight x") == "[err]: Require 'backend/server'.\n"
    assert cli("set severity-output loud") == (
        "[err]: one of 'none', 'number', 'string' is a required argument\n"
    )


# --- stats


def test_show_stat(cli: Cli):
    lines = cli("show stat").splitlines()
    assert lines[0].startswith("# pxname,svname,")
    assert len(lines) == 10


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("show stat -1 -1 -1", 9),
        ("show stat app 4 -1", 3),
        ("show stat app 4 1", 1),
        ("show stat 3 4 1", 1),
        ("show stat -1 1 0", 2),
        ("show stat domain proxy", 9),
        ("show stat no-maint app 4 -1", 2),
        # words that are no filter say nothing, as in HAProxy
        ("show stat app", 9),
        ("show stat app 4 1 more", 1),
        ("show stat app x 1", 0),
        ("show stat 99 7 -1", 0),
    ],
)
def test_show_stat_filters(cli: Cli, command: str, count: int):
    assert len(cli(command).splitlines()) == 1 + count


def test_show_stat_errors(cli: Cli):
    assert cli("show stat nope -1 -1") == "No such proxy.\n"
    assert "Invalid statistics domain." in cli("show stat domain")
    assert "Invalid statistics domain." in cli("show stat domain dns")


def test_show_stat_forms(cli: Cli):
    assert cli("show stat typed").startswith("F.2.0.0.pxname.1:KNS:str:web\n")
    assert "B.3.0.75.mode.1:CGS:str:http\n" in cli("show stat typed app 2 -1")
    assert cli("show stat typed desc app 4 1").splitlines()[0].endswith('"')
    assert len(json.loads(cli("show stat json"))) == 9


def test_addresses_are_hidden_from_users():
    assert "127.0.0.1:8001" in Cli(Level.OPERATOR)("show stat app 4 1")
    assert "127.0.0.1:8001" not in Cli(Level.USER)("show stat app 4 1")


def test_show_info(cli: Cli):
    assert cli("show info").startswith("Name: HAProxy\nVersion: ")
    assert cli("show info typed").startswith("0.Name.1:POS:str:HAProxy\n")
    assert json.loads(cli("show info json"))[0]["value"]["value"] == "HAProxy"
    assert cli("show info desc").splitlines()[0].startswith('Name: HAProxy:"')
    assert cli("show info foo json").startswith('[{"field"')


def test_clear_counters(cli: Cli):
    counters = cli.runtime.proxies[0].frontends[1].counters
    counters.cum_req, counters.conn_max = 8, 9
    assert "req_tot.1:MCP:u64:8\n" in cli("show stat typed")
    assert cli("clear counters") == ""
    assert counters.conn_max == 0
    assert "req_tot.1:MCP:u64:8\n" in cli("show stat typed")
    assert cli("clear counters all") == ""
    assert "req_tot.1:MCP:u64:8\n" not in cli("show stat typed")
    assert counters.cum_req == 8
    assert cli("clear counters now") == "Expected: clear counters [all]\n"


def test_clear_counters_all_is_for_administrators():
    cli = Cli(Level.OPERATOR)
    assert cli("clear counters") == ""
    assert cli("clear counters all") == "Permission denied\n"


# --- process


def test_show_version(cli: Cli):
    assert cli("show version") == f"{cli.runtime.version}\n"
    assert cli("show version and more words") == f"{cli.runtime.version}\n"


def test_show_env(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MTPROXY_TEST", "a=b")
    assert "MTPROXY_TEST=a=b\n" in cli("show env")
    assert cli("show env MTPROXY_TEST") == "MTPROXY_TEST=a=b\n"
    assert cli("show env MTPROXY_NOPE") == "Variable not found\n"
    assert cli("show env a=b") == "Variable not found\n"


def test_show_errors(cli: Cli):
    expected = r"Total events captured on \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d\.\d{3}\] : 0\n"
    assert re.fullmatch(expected, cli("show errors"))


def test_show_startup_logs(cli: Cli):
    assert cli("show startup-logs") == ""
    cli.runtime.startup_logs += ["one", "two\n"]
    assert cli("show startup-logs") == "one\ntwo\n"


def test_show_cli_sockets(cli: Cli):
    assert cli("show cli sockets") == "# socket lvl processes\nunix@/run/x.sock admin all\n"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (Address(AddressKind.IPV4, "127.0.0.1", 9999), "ipv4@127.0.0.1:9999"),
        (Address(AddressKind.IPV6, "::1", 9999), "ipv6@[::1]:9999"),
        (Address(AddressKind.ABNS, "x"), "abns@x"),
        (Address(AddressKind.FD, fd=5), "fd@5"),
    ],
)
def test_addresses_of_sockets(address: Address, expected: str):
    assert socket_text(BindSettings(address)) == expected


# --- threads


def test_show_threads(cli: Cli):
    ctx = cli.runtime.pool.contexts[1]
    ctx.running = SimpleNamespace(name="web/http", calls=7)
    ctx.normal.extend([None, None])
    text = cli("show threads")
    assert text.startswith("* Thread 1 : ")
    assert re.search(r"\n  Thread 2 : .* rq=2 \(urgent=0 normal=2 bulk=0\)", text)
    assert re.search(r"curr_task=0x[0-9a-f]+ \(web/http\) calls=7\n", text)


def test_show_activity(cli: Cli):
    one, two = cli.runtime.pool.contexts
    one.activity.loops, two.activity.loops = 5, 6
    text = cli("show activity")
    assert text.startswith("thread_id: 1 (1..2)\ndate_now: ")
    assert "\nloops: 11 [ 5 6 ]\n" in text
    one.activity.ctxsw, two.activity.ctxsw = 15, 9
    one.loop_ns, two.loop_ns = 2_000, 9_000
    two.cpu_ns = 12_345_678
    lines = cli("show activity").splitlines()
    for line in (
        "tasklets_per_loop: 2.18 [ 3.0 1.5 ]",
        "avg_loop_us: 5 [ 2 9 ]",
        "cpu_ms: 12 [ 0 12 ]",
    ):
        assert line in lines
    assert "tasklets_per_loop: 1.5" in cli("show activity 2").splitlines()
    assert "\nloops: 6\n" in cli("show activity 2")
    assert "\nloops: 11\n" in cli("show activity 0")
    assert cli("show activity -1").count("[") == text.count("[")
    for bad in ("3", "x", "²"):
        assert cli(f"show activity {bad}") == "Expected: show activity [-1|0|1..2]\n"


def test_show_activity_in_haproxys_order(cli: Cli):
    names = [line.split(":")[0] for line in cli("show activity").splitlines()]
    assert names[:6] == ["thread_id", "date_now", "ctxsw", "tasksw", "empty_rq", "long_rq"]
    assert len(set(names)) == len(names)


def test_show_fd(cli: Cli):
    assert cli("show fd") == ""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        tasklet = SimpleNamespace(name="tcp", calls=3)
        owner = SimpleNamespace(ready=select.EPOLLIN, tasklet=tasklet, sock=ours)
        for ctx in cli.runtime.pool.contexts:
            ctx.fdtab[7] = owner
        cli.runtime.pool.contexts[1].fdtab[900] = owner
        lines = cli("show fd").splitlines()
        assert len(lines) == 2
        assert re.match(r"      7 : ready=Rwdhe tmask=0x3 owner=0x\w+\(simplenamespace\)", lines[0])
        assert "tmask=0x2" in lines[1]
        assert lines[1].endswith("task=tcp calls=3")
        assert cli("show fd 900") == lines[1] + "\n"
    assert cli("show fd 8") == ""
    assert cli("show fd x") == "Expected: show fd [<number>]\n"


def test_show_sess(cli: Cli):
    (line,) = cli("show sess").splitlines()
    assert " fe=GLOBAL " in line  # the one that asks
    assert cli("show sess 0x1") == "Session not found.\n"
    assert cli("show sess older 1h") == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (59, "59s"), (60, "1m"), (61, "1m1s"), (3600, "1h"), (3605, "1h5s"),
        (3725, "1h2m"), (86400 + 7200 + 61, "1d2h"), (86400 * 3 + 60, "3d1m"), (-1, "?"),
    ],
)  # fmt: skip
def test_durations(seconds: int, text: str):
    assert duration(seconds) == text


# --- servers


def test_show_backend(cli: Cli):
    assert cli("show backend") == "# name\napp\nraw\nempty\n"


def test_show_servers_state(cli: Cli):
    for name in ("s1", "s2"):
        state = cli.server(name)
        state.last_change = monotonic_ms() - 14_000
        state.check.health.passed()
        state.check.status = CheckStatus.L4OK
        state.check.result = PASSED
    cli.server("s3").last_change = monotonic_ms() - 14_000
    lines = cli("show servers state app").splitlines()
    assert lines[0] == "1"
    assert lines[1].startswith("# be_id be_name srv_id srv_name srv_addr srv_op_state ")
    assert lines[1].split()[1:][-1] == "srv_agent_port"
    assert lines[2:] == [
        "3 app 1 s1 127.0.0.1 2 0 1 1 14 6 3 3 6 0 0 0 - 8001 - 0 0 - - 0",
        "3 app 2 s2 127.0.0.1 2 0 1 1 14 6 3 3 6 0 0 0 - 8002 - 0 0 - - 0",
        "3 app 3 s3 127.0.0.1 0 5 7 7 14 1 0 0 8 0 0 0 - 8003 - 0 0 - - 0",
    ]
    assert len(lines[1].split()) - 1 == len(lines[2].split())
    assert " raw 1 t1 127.0.0.1 2 0 1 1 0 1 0 2 0 0 0 0 - 8001 " in cli("show servers state")
    assert cli("show servers state nope") == "Can't find backend.\n"


def test_show_servers_state_of_a_failing_server(cli: Cli):
    state = cli.server("s1")
    state.check.health.value = 0
    state.state = STOPPED
    state.check.status = CheckStatus.L4CON
    state.check.result = FAILED
    assert "3 app 1 s1 127.0.0.1 0 0 1 1 0 8 2 0 6 0 0 0 - 8001" in cli("show servers state app")
    cli("set server app/s1 state maint")
    assert "3 app 1 s1 127.0.0.1 0 1 1 1 0 8 2 0 14 0 0 0 - 8001" in cli("show servers state app")
    cli("set server app/s2 state drain")
    assert "3 app 2 s2 127.0.0.1 2 8 1 1 0 " in cli("show servers state app")


def test_show_servers_state_in_and_after_maintenance(cli: Cli):
    """The numbers of HAProxy 2.6.12 for the same changes."""
    line = " 0 0 0 - 8003 - 0 0 - - 0"
    assert f"3 app 3 s3 127.0.0.1 0 5 7 7 0 1 0 0 8{line}" in cli("show servers state app")
    cli("enable server app/s3")
    assert f"3 app 3 s3 127.0.0.1 2 4 7 7 0 1 0 0 8{line}" in cli("show servers state app")
    cli("disable server app/s3")
    assert f"3 app 3 s3 127.0.0.1 0 5 7 7 0 1 0 0 8{line}" in cli("show servers state app")
    # not checked, and not disabled by the configuration
    assert " raw 1 t1 127.0.0.1 2 0 1 1 0 1 0 2 0 " in cli("show servers state raw")
    cli("disable server raw/t1")
    assert " raw 1 t1 127.0.0.1 0 1 1 1 0 1 0 0 0 " in cli("show servers state raw")
    # checked: before the first result, and put into maintenance then
    assert "3 app 1 s1 127.0.0.1 2 0 1 1 0 1 0 2 6 " in cli("show servers state app")
    cli("disable server app/s1")
    assert "3 app 1 s1 127.0.0.1 0 1 1 1 0 1 0 0 14 " in cli("show servers state app")


def state_of(**fields: Any) -> str:
    """The line of one server in `show servers state`."""
    servers = (server_settings(1, **fields),)
    settings = Settings(GlobalSettings(), (ProxySettings("be", 4, "backend", servers=servers),))
    cli = Cli(settings=settings)
    return cli("show servers state").splitlines()[2]


def test_show_servers_state_of_other_servers():
    assert state_of(rise=5) == "4 be 1 s1 127.0.0.1 2 0 1 1 0 1 0 5 0 0 0 0 - 80 - 0 0 - - 0"
    assert state_of(forced_id=True, hostname="x.example").endswith(" 0 1 x.example 80 - 0 0 - - 0")
    offset = Address(AddressKind.IPV4, "127.0.0.1", 0, port_offset=-100)
    check = CheckSettings(port=99, address=Address(AddressKind.IPV4, "127.0.0.7"))
    assert state_of(check=check).endswith(" 0 0 0 - 80 - 0 99 127.0.0.7 127.0.0.7 99")
    assert state_of(unresolved=True, hostname="gone.example") == (
        "4 be 1 s1 - 0 32 1 1 0 1 0 0 0 0 0 0 gone.example 80 - 0 0 - - 0"
    )
    both = state_of(unresolved=True, disabled=True)
    assert both.startswith("4 be 1 s1 - 0 37 1 1 0 1 0 0 8 ")
    assert replace_address(offset).endswith(" 0 0 0 - 4294967196 - 0 0 - - 0")


def replace_address(address: Address) -> str:
    settings = replace(server_settings(1), address=address)
    proxy = ProxySettings("be", 4, "backend", servers=(settings,))
    return Cli(settings=Settings(GlobalSettings(), (proxy,)))("show servers state").splitlines()[2]


def test_a_server_without_an_address_is_in_maintenance_for_it():
    servers = (server_settings(1, unresolved=True),)
    proxy = ProxySettings("be", 4, "backend", servers=servers)
    cli = Cli(settings=Settings(GlobalSettings(), (proxy,)))
    assert "be,s1," in cli("show stat")
    assert ",MAINT (resolution)," in cli("show stat")
    cli("enable server be/s1")
    assert ",MAINT (resolution)," in cli("show stat")
    assert cli("show servers state").splitlines()[2].startswith("4 be 1 s1 - 0 32 1 1 ")


def test_listeners_in_show_stat():
    binds = (
        BindSettings(Address(AddressKind.IPV4, "127.0.0.1", 80), id=1, name="web"),
        BindSettings(Address(AddressKind.UNIX, "/run/x"), id=5, maxconn=2),
    )
    proxy = ProxySettings("fe", 4, "frontend", mode="http", binds=binds)
    cli = Cli(settings=Settings(GlobalSettings(), (proxy,)))
    (front,) = cli.runtime.proxies
    for bind in binds:
        front.listeners.append(ListenerRuntime(bind, [FrontendCounters(), FrontendCounters()]))
    for counters in front.listeners[1].counters:
        counters.conn_cur = 1
        counters.cum_conn = 3
        counters.bytes_in = 10
    rows = [line.split(",") for line in cli("show stat fe 8 -1").splitlines()[1:]]
    assert [row[1] for row in rows] == ["web", "sock-5"]
    second = dict(zip(cli("show stat").splitlines()[0][2:].split(","), rows[1], strict=True))
    assert (second["scur"], second["slim"], second["stot"], second["bin"]) == ("2", "2", "6", "20")
    assert (second["status"], second["sid"], second["type"], second["addr"]) == (
        "FULL",
        "5",
        "3",
        "unix",
    )
    assert [line.split(",")[1] for line in cli("show stat fe 8 5").splitlines()[1:]] == ["sock-5"]
    assert cli("show stat fe -1 5").count("\n") == 2
    cli("clear counters all")
    assert cli("show stat fe 8 5").splitlines()[1].startswith("fe,sock-5,,,2,2,2,0,0,0,0,0,0,")


def test_show_servers_conn(cli: Cli):
    idle = [SimpleNamespace(mark=SimpleNamespace(reused=times)) for times in (0, 3, 1)]
    cli.server("s1").sides[1].idle.extend(idle)  # type: ignore[arg-type]
    lines = cli("show servers conn app").splitlines()
    assert lines[0].endswith("idle_lim idle_cur idle_per_thr[2]")
    assert lines[1] == "app/s1 3/1 127.0.0.1 8001 - 5000 0 0 0 1 2 -1 3 0 3"
    assert len(lines) == 4


def test_maintenance(cli: Cli):
    assert cli("disable server app/s1") == ""
    assert cli.server("s1").maint
    assert cli("enable server app/s1") == ""
    assert not cli.server("s1").maint
    assert any("app/s1" in text for _, text in cli.runtime.notified)


def test_enable_server_ends_a_drain(cli: Cli):
    cli("set server app/s1 state drain")
    assert cli("enable server app/s1") == ""
    assert not cli.server("s1").drain


@pytest.mark.parametrize(
    ("given", "weight"),
    [("10", 10), ("0", 0), ("256", 256), ("300%", 3), ("50%", 0), ("99999%", 256)],
)
def test_weights(cli: Cli, given: str, weight: int):
    assert cli(f"set server app/s1 weight {given}") == ""
    assert cli("get weight app/s1") == f"{weight} (initial 1)\n"
    assert cli("set weight app/s1 1") == ""
    assert cli("get weight app/s1") == "1 (initial 1)\n"


def test_health(cli: Cli):
    assert cli("set server app/s1 health down") == ""
    state = cli.server("s1")
    assert not state.check.health.up
    assert cli("set server app/s1 health up") == ""
    assert state.check.health.up
    assert cli("set server app/s1 health stopping") == ""
    assert (state.state, state.check.health.up) == (STOPPING, True)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("disable server", "Require 'backend/server'."),
        ("disable server app", "Require 'backend/server'."),
        ("disable server /s1", "Require 'backend/server'."),
        ("disable server app/", "Require 'backend/server'."),
        ("disable server nope/s1", "No such backend."),
        ("disable server web/s1", "No such backend."),
        ("enable server app/nope", "No such server."),
        ("get weight app/nope", "No such server."),
        (
            "set server app/s1",
            SET_SERVER,
        ),
        (
            "set server app/s1 foo",
            SET_SERVER,
        ),
        (
            "set server app/s1 state",
            "'set server <srv> state' expects 'ready', 'drain' and 'maint'.",
        ),
        ("set server app/s1 fqdn", "set server <b>/<s> fqdn requires a FQDN."),
        (
            "set server app/s1 fqdn foo.example",
            "set server <b>/<s> fqdn failed because no resolution is configured.",
        ),
        (
            "set server app/s1 health x",
            "'set server <srv> health' expects 'up', 'stopping', or 'down'.",
        ),
        ("set server app/s1 weight", "Require <weight> or <weight%>."),
        ("set weight app/s1", "Require <weight> or <weight%>."),
        ("set weight app/s1 257", "Absolute weight can only be between 0 and 256 inclusive."),
        ("set weight app/s1 -5", "Absolute weight can only be between 0 and 256 inclusive."),
        ("set weight app/s1 -5%", "Relative weight must be positive."),
        (
            "set weight app/s1 10x",
            "Trailing garbage in weight string",
        ),
        ("set weight app/s1 ²", "Empty weight string empty or preceded by garbage"),
    ],
)
def test_server_errors(cli: Cli, command: str, answer: str):
    assert cli(command) == answer + "\n"


@pytest.mark.parametrize(
    "command",
    [
        "disable server app/s1",
        "enable server app/s1",
        "set server app/s1 weight 1",
        "disable health app/s1",
        "enable agent app/s1",
        "set weight app/s1 1",
    ],
)
def test_changes_are_for_administrators(command: str):
    assert Cli(Level.OPERATOR)(command) == "Permission denied\n"


@pytest.mark.parametrize(
    "command", ["show fd", "show sess", "show errors", "show env", "clear counters"]
)
def test_operators_only(command: str):
    assert Cli(Level.USER)(command) == "Permission denied\n"
    assert Cli(Level.OPERATOR)(command) != "Permission denied\n"


def test_servers_by_number(cli: Cli):
    assert cli("get weight app/#3") == "7 (initial 7)\n"
    assert cli("get weight 3/s3") == "7 (initial 7)\n"


def test_environment_is_the_process_s_own(cli: Cli):
    assert cli("show env").count("\n") >= len(os.environ)

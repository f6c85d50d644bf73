"""show, set and clear table: lines, filters and messages are HAProxy's."""

from __future__ import annotations

import re

import pytest

from mtproxy.cli.commands import COMMANDS
from mtproxy.cli.runtime import CliSession, Level, Pause
from mtproxy.proxy.sticktable import StickTable
from mtproxy.sync import stats
from mtproxy.testing.runtime import make_runtime
from mtproxy.testing.tables import make_table

#: what HAProxy says
SHOW_USAGE = (
    'Optional argument only supports "data.<store_data_type>" <operator> <value> and key <key>'
)
CLEAR_USAGE = (
    'Required arguments: <table> "data.<store_data_type>" <operator> <value> or <table> key <key>'
)
OPERATORS = 'Filter entry #1: Require and operator among "eq", "ne", "le", "ge", "lt", "gt"'
NO_VALUE = "Filter entry #2: Require a valid integer value to compare against"
EXTRA = "Detected extra data in filter, 16th word of input, after '0'"
NO_FILTER = 'content-based lookup is only supported with the "show" and "clear" actions'


class Cli:
    def __init__(self, *tables: StickTable) -> None:
        stats.configure(8)
        self.runtime = make_runtime()
        self.runtime.tables = {table.name: table for table in tables}
        self.session = CliSession(
            self.runtime, self.runtime.pool.contexts[0], COMMANDS, Level.ADMIN
        )

    def __call__(self, command: str) -> str:
        answer = ""
        for piece in self.session.answer(command):
            if isinstance(piece, Pause):
                called: list[int] = []
                piece.begin(lambda called=called: called.append(1))  # type: ignore[misc]
                assert called
            else:
                answer += piece
        assert "Internal error:" not in answer, answer
        assert answer.endswith("\n")
        return re.sub(r"0x[0-9a-f]+:", "0x:", answer[:-1])


@pytest.fixture
def table() -> StickTable:
    return make_table(
        store="conn_cnt,server_id,bytes_in_cnt,http_req_rate,server_key,gpc,gpc_rate",
        kind="ip", expire=60_000, name="f",
    )  # fmt: skip


@pytest.fixture
def cli(table: StickTable) -> Cli:
    return Cli(table, make_table(kind="integer", name="i"), make_table(kind="string", name="s"))


def test_all_tables_the_last_one_first(cli: Cli) -> None:
    assert cli("show table") == (
        "# table: s, type: string, size:100, used:0\n"
        "# table: i, type: integer, size:100, used:0\n"
        "# table: f, type: ip, size:100, used:0\n"
    )


def test_entries_with_everything_that_is_stored(cli: Cli) -> None:
    assert cli("set table f key 10.0.0.2") == ""
    assert (
        cli(
            "set table f key 1.2.3.4 data.conn_cnt 5 data.server_id -3 data.http_req_rate 100"
            " data.bytes_in_cnt 99999999999 data.gpc 7 data.server_key 3"
        )
        == ""
    )
    zeros = (
        "use=0 exp=60000 server_id=0 conn_cnt=0 http_req_rate(1000)=0 bytes_in_cnt=0"
        " server_key=- gpc0=0 gpc1=0 gpc2=0 gpc0_rate(1000)=0 gpc1_rate(1000)=0 gpc2_rate(1000)=0"
    )
    line = (
        "0x: key=1.2.3.4 use=0 exp=60000 server_id=-3 conn_cnt=5 http_req_rate(1000)=100"
        " bytes_in_cnt=99999999999 server_key=- gpc0=7 gpc1=0 gpc2=0 gpc0_rate(1000)=0"
        " gpc1_rate(1000)=0 gpc2_rate(1000)=0\n"
    )
    head = "# table: f, type: ip, size:100, used:2\n"
    assert cli("show table f") == f"{head}{line}0x: key=10.0.0.2 {zeros}\n"
    assert cli("show table f key 1.2.3.4") == head + line
    assert cli("show table f key 9.9.9.9") == ""
    assert cli("show table f data.conn_cnt gt 4 data.gpc eq 7") == head + line
    assert cli("show table f data.conn_cnt gt 4 data.gpc ne 7") == head
    assert cli("show table f data.http_req_rate ge 100") == head + line
    assert cli("show table f data.server_key eq 0").count("key=1.2.3.4") == 1


def test_keys_of_all_types_in_order() -> None:
    cli = Cli(
        make_table(kind="integer", name="i"),
        make_table(kind="string", length=5, name="s"),
        make_table(kind="ipv6", name="v6"),
        make_table(kind="binary", length=3, name="b"),
    )
    for key in ("300", "5", "12x", "+7"):
        assert cli(f"set table i key {key}") == ""
    # the order of their bytes in memory
    assert re.findall("key=(.*?) ", cli("show table i")) == ["5", "7", "12", "300"]
    for key in ("b", r"a\ b=cd", "aa"):
        assert cli(f"set table s key {key}") == ""
    assert re.findall(r"key=(.*?) use", cli("show table s")) == [r"a\ b\=c", "aa", "b"]
    cli("set table v6 key 2001:db8::1")
    cli("set table v6 key ::ffff:1.2.3.4")
    assert re.findall("key=(.*?) ", cli("show table v6")) == ["::ffff:1.2.3.4", "2001:db8::1"]
    cli.runtime.tables["b"].side(cli.session.ctx).stick(b"\xab\0\1", 1, "s")
    assert re.findall("key=(.*?) ", cli("show table b")) == ["AB0001"]


def test_clearing(cli: Cli, table: StickTable) -> None:
    for number in range(1, 6):
        cli(f"set table f key 1.1.1.{number} data.conn_cnt {number}")
    side = table.side(cli.session.ctx)
    used = side.track(0x01010105, side.start)
    assert cli("clear table f key 1.1.1.5") == "Entry currently in use, cannot remove\n"
    assert cli("clear table f key 9.9.9.9") == ""
    assert cli("clear table f key 1.1.1.1") == ""
    assert cli("clear table f data.conn_cnt lt 4") == ""
    assert re.findall("key=(.*?) use=(.)", cli("show table f")) == [
        ("1.1.1.4", "0"),
        ("1.1.1.5", "1"),
    ]
    assert cli("clear table f") == ""
    assert table.used == 1
    assert used is not None
    side.end(used, 0, 0)  # type: ignore[arg-type]
    table._check()


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("show table x", "No such table"),
        ("show table f key", "Key value expected"),
        ("show table f key x", "Invalid key"),
        ("show table f key ::1", "Invalid key"),
        ("show table f x", SHOW_USAGE),
        ("show table f data.x gt 0", "Filter entry #1: Unknown data type"),
        ("show table f data.conn_cur gt 0", "Filter entry #1: Data type not stored in this table"),
        ("show table f data.gpc0 gt 0", "Filter entry #1: Data type not stored in this table"),
        ("show table f data.conn_cnt is 0", OPERATORS),
        ("show table f data.conn_cnt gt 0 data.conn_cnt gt x", NO_VALUE),
        ("show table f" + " data.conn_cnt gt 0" * 5, EXTRA),
        ("clear table", CLEAR_USAGE),
        ("clear table f x", CLEAR_USAGE),
        ("set table", "Required arguments: <table> key <key> [data.<store_data_type> <value>]*"),
        ("set table f data.conn_cnt 1", NO_FILTER),
        ("set table f key 1.1.1.1 x", '"data.<type>" followed by a value expected'),
        ("set table f key 1.1.1.1 data.x 1", "Unknown data type"),
        ("set table f key 1.1.1.1 data.conn_cur 1", "Data type not stored in this table"),
        ("set table f key 1.1.1.1 data.conn_cnt", "Require a valid integer value to store"),
        ("set table f key 1.1.1.1 data.conn_cnt 1x", "Require a valid integer value to store"),
        ("set table i key -1", "Invalid key"),
        ("set table i key 4294967296", "Invalid key"),
    ],
)  # fmt: skip
def test_refusals(cli: Cli, command: str, answer: str) -> None:
    assert cli(command) == answer + "\n"


def test_binary_keys_cannot_be_written() -> None:
    cli = Cli(make_table(kind="binary", name="b"))
    end = "tables of type other than ip, ipv6, string and integer is not supported\n"
    assert cli("show table b key 41") == f"Showing keys from {end}"
    assert cli("set table b key 41") == f"Inserting keys into {end}"
    assert cli("clear table b key 41") == f"Removing keys from {end}"


def test_a_full_table_takes_no_entry() -> None:
    table = make_table(1, kind="integer", nopurge=True)
    cli = Cli(table)
    assert cli("set table t key 1") == ""
    assert cli("set table t key 2") == "Unable to allocate a new entry\n"


def test_users_see_no_entries(cli: Cli) -> None:
    cli("set table f key 1.1.1.1")
    cli.session.level = Level.USER
    assert cli("show table f") == (
        "# table: f, type: ip, size:100, used:1\n"
        "# contents not dumped due to insufficient privileges\n"
    )
    for command in ("show table f key 1.1.1.1", "set table f key 1.1.1.1", "clear table f"):
        assert cli(command) == "Permission denied\n"


def test_a_large_table_gives_way_to_others() -> None:
    table = make_table(30_000, kind="integer")
    cli = Cli(table)
    side = table.side(cli.session.ctx)
    for key in range(25_000):
        side.stick(key, 0, "")
    pieces = list(cli.session.answer("show table t data.x eq 0"))
    assert pieces[0] == "Filter entry #1: Unknown data type\n"
    pauses = 0
    keys = []
    for piece in cli.session.answer("show table t"):
        if isinstance(piece, Pause):
            pauses += 1
        else:
            keys += [int(key) for key in re.findall(r"key=(\d+)", piece)]
    assert pauses == 64
    assert sorted(keys) == list(range(25_000))
    assert keys == sorted(keys, key=lambda key: key.to_bytes(4, "little"))
    cli("clear table t")
    assert table.used == 0
    table._check()

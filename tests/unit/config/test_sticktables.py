"""stick-table and stick: what is read, what is refused, and with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtproxy.base.settings import Settings
from mtproxy.base.sticktable import StickTableSettings, Stored
from mtproxy.config.keywords_sticktable import words_of
from mtproxy.config.load import load
from mtproxy.proxy.sticktable import make_tables

_TIMEOUTS = "\n".join(f" timeout {name} 5s" for name in ("client", "server", "connect"))
_DEFAULTS = f"defaults\n mode http\n{_TIMEOUTS}\n"


@pytest.fixture
def read(tmp_path: Path):  # type: ignore[no-untyped-def]
    def read_text(text: str) -> tuple[Settings | None, str]:
        path = tmp_path / "t.cfg"
        path.write_text(_DEFAULTS + text)
        settings, diagnostics = load([str(path)])
        return settings, "\n".join(item.message for item in diagnostics)

    return read_text


def table_of(read, line: str) -> StickTableSettings:  # type: ignore[no-untyped-def]
    settings, said = read(f"backend b\n {line}\n")
    assert settings is not None, said
    assert not said
    table = settings.proxies[0].stick_table
    assert table is not None
    return table  # type: ignore[no-any-return]


def test_everything_a_table_can_have(read) -> None:  # type: ignore[no-untyped-def]
    table = table_of(
        read,
        "stick-table type string len 20 size 1m expire 30s nopurge srvkey addr"
        " store gpc(3),gpc_rate(3,10s),conn_rate(1m) store server_name,http_req_cnt",
    )
    assert (table.name, table.type, table.len, table.size) == ("b", "string", 20, 1 << 20)
    assert (table.expire, table.nopurge, table.srvkey) == (30_000, True, "addr")
    assert table.store == (
        Stored("gpc", 0, 3),
        Stored("gpc_rate", 10_000, 3),
        Stored("conn_rate", 60_000),
        Stored("server_key"),
        Stored("http_req_cnt"),
    )


def test_the_words_that_it_is_written_in_mean_the_same(read) -> None:  # type: ignore[no-untyped-def]
    table = table_of(
        read, "stick-table type binary size 5k expire 3h store gpt(2),bytes_in_rate(1s),gpc0"
    )
    again = table_of(read, " ".join(words_of(table)))
    assert again == table


@pytest.mark.parametrize(
    ("kind", "length"), [("string", 31), ("string len 32", 32), ("binary", 32), ("binary len 4", 4)]
)
def test_bytes_of_a_key(read, kind: str, length: int) -> None:  # type: ignore[no-untyped-def]
    assert table_of(read, f"stick-table type {kind} size 1k").len == length


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("stick-table", "missing size"),
        ("stick-table size 1k", "missing type"),
        ("stick-table type ip", "missing size"),
        ("stick-table type ip size 0", "missing size"),
        ("stick-table type ipx size 1k", "unknown type 'ipx'"),
        ("stick-table type ip size x", "unexpected character 'x'"),
        ("stick-table type ip size", "missing argument after 'size'"),
        ("stick-table type string len 0 size 1k", "'len' : must be between 1 and"),
        ("stick-table type ip size 1k expire 1y", "unexpected character 'y'"),
        ("stick-table type ip size 1k store gpc", "missing argument to store option 'gpc'"),
        ("stick-table type ip size 1k store gpc(0)", "must be between 1 and 100"),
        ("stick-table type ip size 1k store gpc(101)", "must be between 1 and 100"),
        ("stick-table type ip size 1k store gpc_rate(2)", "missing argument to store option"),
        ("stick-table type ip size 1k store conn_rate", "missing argument to store option"),
        ("stick-table type ip size 1k store conn_rate(0)", "must be above 0"),
        ("stick-table type ip size 1k store conn_cnt(1)", "unexpected argument to store option"),
        ("stick-table type ip size 1k store conn_cmt", "unknown store option 'conn_cmt'"),
        ("stick-table type ip size 1k store conn_rate(1s", "cannot understand store option"),
        ("stick-table type ip size 1k store gpc(1),gpc0", "'gpc' overrides 'gpc0'"),
        ("stick-table type ip size 1k store gpt(1),gpt0", "'gpt' overrides 'gpt0'"),
        ("stick-table type ip size 1k peers p", "not supported by mtproxy yet"),
        ("stick-table type ip size 1k write-to t", "not supported by mtproxy yet"),
        ("stick-table type ip size 1k srvkey id", "unknown server key type 'id'"),
        ("stick-table type ip size 1k nopruge", "unknown argument 'nopruge'"),
        ("stick foo src", "expects 'on', 'match', 'store-request' or 'store-response'"),
        ("stick on", "expects a sample fetch"),
        ("stick on src table", "expects the name of a table"),
        ("stick on src table x", "unable to find the table 'x'"),
        ("stick on src", "'stick on' : missing table name (backend 'b' has none itself)"),
        ("stick on src table t foo", "not 'foo'"),
        ("stick on res.hdr(a) table t", "not available here"),
        ("stick on bool(1) table t", "cannot be a key of stick-table 't' of type ip"),
        ("http-request track-sc0 src table x", "unable to find the table 'x'"),
        ("http-request track-sc0 bool(1) table t", "cannot be a key of stick-table 't'"),
        ("http-request deny if { src_conn_cnt(x) gt 1 }", "unable to find the table 'x'"),
        ("http-request deny if { src,in_table(x) }", "unable to find the table 'x'"),
        ("http-request deny if { src_conn_cnt gt 1 }", "missing table name in 'src_conn_cnt'"),
    ],
)
def test_faults(read, line: str, message: str) -> None:  # type: ignore[no-untyped-def]
    settings, said = read(f"backend b\n {line}\nbackend t\n stick-table type ip size 1k\n")
    assert settings is None
    assert message in said


def test_stored_twice_is_a_warning(read) -> None:  # type: ignore[no-untyped-def]
    settings, said = read("backend b\n stick-table type ip size 1k store gpc0,gpc0\n")
    assert settings is not None
    assert "'gpc0' already enabled, ignored" in said


def test_names_are_unique(read) -> None:  # type: ignore[no-untyped-def]
    line = "stick-table type ip size 1k"
    _, said = read(f"frontend b\n bind :1\n {line}\nbackend b\n {line}\n")
    assert "stick-table name 'b' conflicts with table declared in frontend 'b'" in said


def test_not_in_defaults(read) -> None:  # type: ignore[no-untyped-def]
    for line in ("stick-table type ip size 1k", "stick on src"):
        _, said = read(f"defaults\n {line}\n")
        assert "not allowed in 'defaults' section" in said


def test_a_frontend_cannot_stick(read) -> None:  # type: ignore[no-untyped-def]
    settings, said = read("frontend f\n bind :1\n stick on src\n")
    assert settings is not None
    assert "'stick' ignored because frontend 'f' has no backend capability" in said


def test_tables_of_stick_rules_remember_the_server(read) -> None:  # type: ignore[no-untyped-def]
    settings, _ = read(
        "backend a\n stick-table type ip size 1k store gpc0\n stick on src\n"
        "backend b\n stick match src table c\n"
        "backend c\n stick-table type ip size 1k\n"
        "backend d\n stick-table type ip size 1k\n"
    )
    tables = make_tables(settings)
    assert list(tables) == ["a", "c", "d"]
    stored = {name: [one.name for one in table.layout.stored] for name, table in tables.items()}
    assert stored == {
        "a": ["server_id", "gpc0", "server_key"],
        "c": ["server_id", "server_key"],
        "d": [],
    }

"""Runtime commands about ACLs and maps: answers as HAProxy 2.6 gives them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mtproxy.base.settings import Settings
from mtproxy.cli.commands import COMMANDS
from mtproxy.cli.runtime import CliSession, Level
from mtproxy.config.load import load
from mtproxy.rules.patterns.store import PatternStore
from mtproxy.testing.runtime import make_runtime

type Cli = Callable[[str], str]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "list").write_text("#c\n  foo bar  \n\nbaz\r\n # x\n")
    (tmp_path / "m.map").write_text("#c\n k1   v1 v2  \nk2\n\nk1 dup\nk3\tv3\n")
    (tmp_path / "i.map").write_text("a 1\nab -2\nabc +3\n")
    (tmp_path / "t.cfg").write_text(
        f"""
defaults
  mode http
  timeout client 5s
frontend f
  bind 127.0.0.1:18931
  acl a path_beg /a /ab /abc
  acl n req.hdr_cnt(x) gt 5
  acl l hdr(x) -f {tmp_path}/list -i -f {tmp_path}/list bar
  acl u hdr(x) -u 1 -m found
  http-request set-header y %[hdr(x),map({tmp_path}/m.map,dflt)] if a
  http-request set-header y %[hdr(x),map_beg_int({tmp_path}/i.map)] if METH_GET {{ path -i /q }}
"""
    )
    settings, diagnostics = load([str(tmp_path / "t.cfg")])
    assert settings is not None, list(diagnostics)
    return settings


@pytest.fixture
def cli(settings: Settings, tmp_path: Path) -> Cli:
    runtime = make_runtime(settings)
    session = CliSession(runtime, runtime.pool.contexts[0], COMMANDS, Level.USER)

    def run(text: str) -> str:
        session.feed(text.replace("DIR", str(tmp_path)).encode() + b"\n")
        out = ""
        while (command := session.next_command()) is not None:
            out += "".join(str(piece) for piece in session.answer(command))
        out = re.sub(r"\b0x[0-9a-f]{8,}", "0xID", out.replace(str(tmp_path), "DIR"))
        return out.removesuffix("\n")

    return run


def test_lists_are_numbered_in_the_order_of_the_file(cli: Cli) -> None:
    assert cli("show acl") == (
        "# id (file) description\n"
        "0 () acl 'path_beg' file 'DIR/t.cfg' line 7. curr_ver=0 next_ver=0 entry_cnt=3\n"
        "1 () acl 'hdr' file 'DIR/t.cfg' line 10. curr_ver=0 next_ver=0 entry_cnt=0\n"
        "2 () acl 'req.hdr_cnt' file 'DIR/t.cfg' line 8. curr_ver=0 next_ver=0 entry_cnt=1\n"
        "3 (DIR/list) pattern loaded from file 'DIR/list' used by acl at file 'DIR/t.cfg' line 9,"
        " by acl at file 'DIR/t.cfg' line 9. curr_ver=0 next_ver=0 entry_cnt=6\n"
        "4 () acl 'hdr' file 'DIR/t.cfg' line 9. curr_ver=0 next_ver=0 entry_cnt=1\n"
        "7 () acl 'method' file 'DIR/t.cfg' line 12. curr_ver=0 next_ver=0 entry_cnt=2\n"
        "8 () acl 'path' file 'DIR/t.cfg' line 12. curr_ver=0 next_ver=0 entry_cnt=1\n"
    )
    assert cli("show map") == (
        "# id (file) description\n"
        "5 (DIR/m.map) pattern loaded from file 'DIR/m.map' used by map at file 'DIR/t.cfg'"
        " line 11. curr_ver=0 next_ver=0 entry_cnt=4\n"
        "6 (DIR/i.map) pattern loaded from file 'DIR/i.map' used by map at file 'DIR/t.cfg'"
        " line 12. curr_ver=0 next_ver=0 entry_cnt=3\n"
    )


UNKNOWN_MAP = "Unknown map identifier. Please use #<id> or <file>.\n"
UNKNOWN_ACL = "Unknown ACL identifier. Please use #<id> or <file>.\n"
ADD_MAP = (
    "'add map' expects three parameters (map identifier, key and value) or one parameter"
    " (map identifier) and a payload\n"
)
MISSING_KEY = "Missing {} identifier and/or key.\n"
TWO = "This command expects two parameters: {} identifier and key.\n"
MALFORMED = "Malformed identifier. Please use #<id> or <file>.\n"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("show map /nope", UNKNOWN_MAP),
        ("show acl DIR/m.map", UNKNOWN_ACL),
        ("show map @x", UNKNOWN_MAP),
        ("show map #999", UNKNOWN_MAP),
        ("show map #abc", UNKNOWN_MAP),
        ("show map @1 #5", ""),
        ("show acl #2", "0xID 6:\n"),
        ("show acl DIR/list", "0xID foo bar  \n0xID baz\n0xID # x\n"),
        ("show map @0 #5", "0xID k1 v1 v2\n0xID k2 \n0xID k1 dup\n0xID k3 v3\n"),
        ("add map", ADD_MAP),
        ("add map #5 k", ADD_MAP),
        ("add map /nope k v", UNKNOWN_MAP),
        ("add acl #0", "'add acl' expects two parameters: ACL identifier and pattern.\n"),
        (
            "add acl #5 k",
            "This ACL is shared with a map containing samples. "
            "You must use the command 'add map' to add values.\n",
        ),
        (
            "add acl @1 #0 /n",
            "Version number in the future, please use 'prepare acl' before.\n",
        ),
        ("add map #6 k x5", "unable to parse 'x5'.\n"),
        ("add acl #2 5:3", "'5:3' is not a valid number range.\n"),
        ("add map #5 <<\nn3\n", "Missing value for key 'n3'.\n"),
        ("set map #6 zz", "'set map' expects three parameters: map identifier, key and value.\n"),
        ("set map #6 zz 5", "entry not found.\n"),
        ("set map #6 a x", ""),
        ("set map #6 #0x5 77", "key or pattern not found.\n"),
        ("set map #6 #0xzz 77", MALFORMED),
        ("set map /nope a 77", UNKNOWN_MAP),
        ("del map", TWO.format("map")),
        ("del acl #0", TWO.format("ACL")),
        ("del acl /nope x", UNKNOWN_MAP),
        ("del map DIR/list x", UNKNOWN_MAP),
        ("del map #6 #0x99", "Key not found.\n"),
        ("del map #6 #0xzz", MALFORMED),
        ("del map #6 nokey", "Key not found.\n"),
        ("get map #5", MISSING_KEY.format("map")),
        ("get acl", MISSING_KEY.format("ACL")),
        ("get acl /nope k", UNKNOWN_ACL),
        (
            "get map #5 k1",
            'type=str, case=sensitive, found=yes, idx=tree, key="k1", value="v1 v2", type="str"\n',
        ),
        ("get map #5 nokey", "type=str, case=sensitive, found=no\n"),
        (
            "get map #6 abcd",
            'type=beg, case=sensitive, found=yes, idx=tree, key="abc", value="+3", type="sint"\n',
        ),
        (
            "get acl DIR/list BAZ",
            "type=str, case=sensitive, match=no\n"
            'type=str, case=insensitive, match=yes, idx=list, pattern="baz"\n',
        ),
        ("get acl #2 6", 'type=int, case=sensitive, match=yes, idx=list, pattern="6:"\n'),
        ("get acl #1 x", "type=found, case=sensitive, match=no\n"),
        ("prepare map", UNKNOWN_MAP),
        ("clear map", "Missing map identifier.\n"),
        ("clear acl /nope", UNKNOWN_ACL),
        ("commit map @1", "Missing map identifier.\n"),
        ("commit map #5", "Missing version number.\n"),
        ("commit map @5 #5", "Version number out of range.\n"),
    ],
)
def test_answers(cli: Cli, command: str, answer: str) -> None:
    assert cli(command) == answer


def test_changes(cli: Cli, settings: Settings) -> None:
    assert cli("add map #6 k\\ 5 8") == ""
    assert cli("get map #6 k\\ 5") == (
        'type=beg, case=sensitive, found=yes, idx=tree, key="k 5", value="8", type="sint"\n'
    )
    assert cli("set map #6 a 77") == ""
    assert cli("del map #6 ab") == ""
    assert cli("show map #6") == "0xID a 77\n0xID abc +3\n0xID k 5 8\n"
    assert cli("add map #5 <<\nn1 v1 w\nn2\t  v2  \n") == ""
    assert cli("del map #5 k1") == ""
    assert cli("show map #5") == "0xID k2 \n0xID k3 v3\n0xID n1 v1 w\n0xID n2 v2  \n"
    store = settings.patterns
    assert isinstance(store, PatternStore)
    second = list(store.refs[5].entries())[1].number
    assert cli(f"del map #5 #{second:#x}") == ""
    assert cli("show map #5") == "0xID k2 \n0xID n1 v1 w\n0xID n2 v2  \n"
    assert cli("clear map #5") == ""
    assert cli("show map #5") == ""
    for ref in store.refs:
        ref._check()


def test_versions(cli: Cli) -> None:
    assert cli("prepare acl #0") == "New version created: 1\n"
    assert cli("prepare acl #0") == "New version created: 2\n"
    assert cli("add acl @2 #0 /new") == ""
    assert cli("show acl @2 #0") == "0xID /new\n"
    assert cli("get acl #0 /new") == "type=beg, case=sensitive, match=no\n"
    assert cli("commit acl @2 #0") == ""
    assert cli("commit acl @2 #0") == "Version number out of range.\n"
    assert cli("show acl #0") == "0xID /new\n"
    assert cli("get acl #0 /abc") == "type=beg, case=sensitive, match=no\n"
    assert "curr_ver=2 next_ver=2 entry_cnt=1\n" in cli("show acl")
    assert cli("clear acl @9 #0") == ""
    assert cli("clear acl @2 #0") == ""
    assert cli("show acl #0") == ""

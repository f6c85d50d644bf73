"""Pattern files, and how lists are named and shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtproxy.base.location import Location
from mtproxy.rules.patterns.methods import PatternError
from mtproxy.rules.patterns.store import PatternStore
from mtproxy.rules.types import Ip4

HERE = Location("t.cfg", 7)


def _keys(store: PatternStore, name: Path, *, two_columns: bool = False) -> list[object]:
    ref = store.file(str(name), HERE, for_map=two_columns, two_columns=two_columns)
    return [(e.key, e.value) if two_columns else e.key for e in ref.entries()]


def test_one_column(tmp_path: Path) -> None:
    file = tmp_path / "list"
    file.write_bytes(b"# c\n\n  a b \t\nc\r\nd\rx\n\t\n #e\n\xff\nnul\0rest")
    assert _keys(PatternStore(), file) == [b"a b \t", b"c", b"d", b"#e", b"\xff", b"nul"]


def test_two_columns(tmp_path: Path) -> None:
    file = tmp_path / "map"
    file.write_bytes(b"#c\n a  b c \t\n\nk\nl\t\tm\r\na d\n")
    assert _keys(PatternStore(), file, two_columns=True) == [
        (b"a", b"b c"), (b"k", b""), (b"l", b"m"), (b"a", b"d"),
    ]  # fmt: skip


def test_one_list_per_file(tmp_path: Path) -> None:
    file = tmp_path / "map"
    file.write_text("1.2.3.4 5\n")
    store = PatternStore()
    one = store.file(str(file), HERE, for_map=True, two_columns=True)
    two = store.file(str(file), Location("t.cfg", 8), for_acl=True, two_columns=True)
    assert one is two
    assert one.for_map
    assert one.for_acl
    assert one.display == (
        f"pattern loaded from file '{file}' used by map at file 't.cfg' line 7,"
        " by acl at file 't.cfg' line 8"
    )
    first = one.expr("ip", kind="int")
    assert one.expr("ip", kind="int") is first
    entry = first.finder()(Ip4(0x01020304))
    assert entry is not None
    assert entry.as_int == 5
    with pytest.raises(PatternError, match="already used as two column file"):
        store.file(str(file), HERE, for_acl=True)


def test_a_value_of_the_wrong_kind(tmp_path: Path) -> None:
    file = tmp_path / "map"
    file.write_text("a 1\nb x\n")
    ref = PatternStore().file(str(file), HERE, for_map=True, two_columns=True)
    with pytest.raises(PatternError, match=f"unable to parse 'x' at line 2 of file '{file}'"):
        ref.expr("str", kind="int")


def test_numbers() -> None:
    warnings: list[str] = []
    store = PatternStore()
    refs = [store.inline("path", HERE), store.inline("path", HERE, 1), store.inline("src", HERE)]
    with pytest.raises(PatternError, match="already used"):
        store.inline("path", HERE, 1)
    store.want("/none", "http-request set-map", HERE)
    store.finish(lambda _place, text: warnings.append(text))
    assert [ref.number for ref in refs] == [0, 1, 2]
    assert store.find("#2") is refs[2]
    assert store.find("#9") is None
    assert store.find("#x") is None
    assert store.find("/none") is None
    assert "nothing loads the file '/none'" in warnings[0]

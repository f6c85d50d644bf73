"""rules.variables: what is written in a scope is read from it, and from no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.rules.transaction import Transaction
from mtproxy.rules.types import Binary
from mtproxy.rules.variables import reader, writer


@pytest.fixture
def build() -> Any:
    return SimpleNamespace(shared=SimpleNamespace(proc_vars={}))


@pytest.fixture
def view() -> Any:
    return SimpleNamespace(txn=Transaction(), sess_vars=None)


@pytest.mark.parametrize("scope", ["proc", "sess", "txn", "req", "res"])
def test_a_value_is_read_where_it_was_written_and_keeps_its_type(
    scope: str, build: Any, view: Any
) -> None:
    read = {one: reader(f"{one}.a.b", build) for one in ("proc", "sess", "txn", "req", "res")}
    write = writer(f"{scope}.a.b", build)
    assert read[scope](view) is None
    write(view, None)
    assert read[scope](view) is None
    write(view, Binary(b"\1"))
    assert type(read[scope](view)) is Binary
    write(view, 7)
    assert {one: function(view) for one, function in read.items()} == {
        one: 7 if one == scope else None for one in read
    }
    write(view, None)
    assert read[scope](view) is None


def test_variables_of_checks_are_never_set_elsewhere(build: Any, view: Any) -> None:
    writer("check.a", build)(view, 1)
    assert reader("check.a", build)(view) is None

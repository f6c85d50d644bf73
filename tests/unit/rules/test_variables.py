"""rules.variables: what is written in a scope is read from it, and from no other."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.base.location import Location
from mtproxy.base.settings import GlobalSettings, ProxySettings, Settings
from mtproxy.rules import points, registry
from mtproxy.rules.build import Build, RuleShared
from mtproxy.rules.reader import RuleReader
from mtproxy.rules.transaction import Transaction
from mtproxy.rules.types import Binary
from mtproxy.rules.variables import OVERHEAD, reader, writer

SCOPES = ("proc", "sess", "txn", "req", "res")


def make_build(**tune: int) -> Any:
    names = {f"tune.vars.{name}-max-size": value for name, value in tune.items()}
    settings = Settings(GlobalSettings(tune=names), ())
    return Build(RuleShared(settings), ProxySettings("f", 1, "frontend", "http"), None, None)


@pytest.fixture
def build() -> Any:
    return make_build()


@pytest.fixture
def view() -> Any:
    return SimpleNamespace(txn=Transaction(), sess_vars=None)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_value_is_read_where_it_was_written_and_keeps_its_type(
    scope: str, build: Any, view: Any
) -> None:
    read = {one: reader(f"{one}.a.b", build) for one in SCOPES}
    write = writer(f"{scope}.a.b", build)
    view.txn.responding = scope == "res"
    assert read[scope](view) is None
    write(view, None)
    assert read[scope](view) is None
    assert write(view, Binary(b"\1"))
    assert type(read[scope](view)) is Binary
    write(view, 7)
    assert {one: function(view) for one, function in read.items()} == {
        one: 7 if one == scope else None for one in read
    }
    write(view, None)
    assert read[scope](view) is None


def test_variables_of_checks_are_never_set_elsewhere(build: Any, view: Any) -> None:
    assert not writer("check.a", build)(view, 1)
    assert reader("check.a", build)(view) is None


def test_variables_of_the_request_end_where_those_of_the_response_begin(
    build: Any, view: Any
) -> None:
    req, res = reader("req.a", build, b"d"), reader("res.a", build, b"d")
    assert not writer("res.a", build)(view, 1)
    assert writer("req.a", build)(view, 2)
    # without its scope there is no default either
    assert (req(view), res(view)) == (2, None)
    view.txn.begin_response()
    assert (req(view), res(view)) == (None, b"d")
    assert not writer("req.a", build)(view, 1)
    assert writer("res.a", build)(view, 3)
    assert (req(view), res(view)) == (None, 3)


@pytest.mark.parametrize(
    ("old", "value", "conditions", "expected"),
    [
        (None, 1, ("ifexists",), None),
        (5, 1, ("ifexists",), 1),
        (None, 1, ("ifnotexists",), 1),
        (5, 1, ("ifnotexists",), 5),
        (5, 1, ("ifempty",), 5),
        (5, b"", ("ifempty",), b""),
        (5, b"x", ("ifempty",), 5),
        (5, b"", ("ifnotempty",), 5),
        (5, 1, ("ifnotempty",), 1),
        (None, 1, ("ifset",), None),
        (5, 1, ("ifset",), 1),
        (5, 1, ("ifnotset",), 5),
        (5, 1, ("ifgt",), 1),
        (5, 9, ("ifgt",), 5),
        (5, 5, ("ifgt",), 5),
        (5, 9, ("iflt",), 9),
        (5, 1, ("iflt",), 5),
        (b"a", 1, ("iflt",), 1),
        (True, 9, ("ifgt",), 9),
        (5, b"x", ("ifexists", "ifnotempty"), b"x"),
        (None, b"x", ("ifexists", "ifnotempty"), None),
    ],
)
def test_conditions(build: Any, view: Any, old: Any, value: Any, conditions: Any, expected: Any):
    if old is not None:
        writer("txn.a", build)(view, old)
    done = writer("txn.a", build, conditions)(view, value)
    assert reader("txn.a", build)(view) == expected
    assert done == (expected is not None and expected == value and old != value)


def test_a_variable_of_the_process_exists_as_soon_as_it_is_named(build: Any, view: Any) -> None:
    assert not writer("proc.a", build, ("ifnotexists",))(view, 1)
    assert writer("proc.a", build, ("ifexists",))(view, 1)


# --- limits, as HAProxy 2.6.12 was seen to count: 80 bytes and the data


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (b"x" * 20, b"y" * 20, b"y" * 20),
        (b"x" * 21, b"y" * 20, False),
        (b"x" * 40, b"", b""),
        (b"x" * 40, 5, 5),
        (b"x" * 41, b"", None),
        (1, b"y" * 40, b"y" * 40),
        (1, b"y" * 41, False),
    ],
)
def test_what_does_not_fit(view: Any, first: Any, second: Any, expected: Any) -> None:
    build = make_build(txn=2 * OVERHEAD + 40)
    writer("txn.a", build)(view, first)
    writer("txn.b", build)(view, second)
    assert reader("txn.a", build)(view) == first
    assert reader("txn.b", build)(view) == expected


def test_a_new_value_takes_the_place_of_the_old_one(view: Any) -> None:
    build = make_build(txn=OVERHEAD + 10)
    write = writer("txn.a", build)
    assert write(view, b"x" * 10)
    assert write(view, b"y" * 10)
    assert not write(view, b"z" * 11)
    assert reader("txn.a", build)(view) is False


@pytest.mark.parametrize("limited", ["reqres", "txn", "sess", "proc", "global"])
def test_inner_scopes_count_for_outer_ones(view: Any, limited: str) -> None:
    build = make_build(**{limited: 2 * OVERHEAD})
    assert writer("req.a", build)(view, 1)
    assert writer("req.b", build)(view, 1)
    assert not writer("req.c", build)(view, 1)
    # a scope outside of the limited one is free
    assert writer("txn.a", build)(view, 1) == (limited == "reqres")
    assert writer("sess.a", build)(view, 1) == (limited in ("reqres", "txn"))
    assert writer("proc.a", build)(view, 1) == (limited in ("reqres", "txn", "sess"))


# --- actions, fetch and converters


def act(build: Any, word: str, *words: str) -> Any:
    name, _, argument = word.partition("(")
    entry = registry.ACTIONS[name + "("]
    one = RuleReader(
        words,
        Location("t.cfg", 1),
        points.HTTP_REQUEST,
        title=name,
        argument=argument.removesuffix(")"),
    )
    assert entry.parse is not None and entry.build is not None
    args = entry.parse(one)
    one.end()
    return entry.build(args, build)


def value(build: Any, view: Any, text: str) -> Any:
    one = RuleReader((text,), Location("t.cfg", 1), points.HTTP_REQUEST, title="t")
    return build.expression(one.expression())(view)


def test_actions(build: Any, view: Any) -> None:
    act(build, "set-var(txn.a)", "str(x)")(view)
    act(build, "set-var-fmt(txn.b)", "%{+Q}[var(txn.a)]-%[var(txn.none)]")(view)
    assert value(build, view, "var(txn.a)") == b"x"
    assert value(build, view, "var(txn.b)") == b'"x"-'
    # an expression without a sample changes nothing
    act(build, "set-var(txn.a)", "var(txn.none)")(view)
    assert value(build, view, "var(txn.a)") == b"x"
    act(build, "set-var(txn.a,ifnotexists)", "str(y)")(view)
    assert value(build, view, "var(txn.a)") == b"x"
    act(build, "unset-var(txn.a)")(view)
    assert value(build, view, "var(txn.a)") is None
    assert value(build, view, "var(txn.a,other)") == b"other"


def test_converters(build: Any, view: Any) -> None:
    assert value(build, view, "str(x),set-var(txn.a),length") == 1
    assert value(build, view, "var(txn.a)") == b"x"
    # a condition that does not hold ends the expression
    assert value(build, view, "str(y),set-var(txn.a,ifnotexists)") is None
    assert value(build, view, "str(y),unset-var(txn.a),length") == 1
    assert value(build, view, "var(txn.a)") is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("set-var(foo.a)", "int(1)"), "invalid variable name 'foo.a'"),
        (("set-var(txm.a)", "int(1)"), "set-var' : invalid variable name 'txm.a'"),
        (("set-var(txn.a-b)", "int(1)"), "'-' is not permitted"),
        (("set-var(txn.a,ifexist)", "int(1)"), 'unknown condition "ifexist"'),
        (("unset-var(txn.a,ifexists)",), "unset-var does not expect parameters"),
        (("set-var(txn.a)",), "expects a sample fetch"),
    ],
)
def test_errors(build: Any, words: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        act(build, *words)
    assert message in str(caught.value.message)


def test_all_spellings_of_a_name_are_one_object(build: Any, view: Any) -> None:
    """`get` of a shared dictionary is slow where the key is another object of another thread."""
    name = str(b"count", "ascii")
    writer("proc." + name, build)(view, 1)
    (key,) = build.shared.proc_vars
    assert key is sys.intern(str(b"count", "ascii"))

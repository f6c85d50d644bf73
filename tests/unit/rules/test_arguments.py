"""rules.arguments, rules.expression: what is wrong in an expression, and where."""

from __future__ import annotations

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.base.ruleset import NOWHERE
from mtproxy.rules import points
from mtproxy.rules.expression import parse_expression
from mtproxy.rules.reader import RuleReader
from mtproxy.testing.expressions import Evaluator


def _parse(*words: str) -> RuleReader:
    reader = RuleReader(words, NOWHERE, points.HTTP_REQUEST, title="t")
    parse_expression(reader)
    return reader


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("str(a),loewr", "unknown converter 'loewr'", 7),
        ("str(a),lower(1)", "'lower' takes no argument", 13),
        ("str(a),add(1x)", "invalid argument 1 of 'add' : expects an integer or a variable", 11),
        ("str(a),bytes(1,2,3)", "too many arguments for 'bytes': '3'", 17),
        ("str(a),field(1)", "missing arguments .got 1/2., type 'string' expected", 14),
        ("str(a),field(0,.)", "invalid args in converter 'field' : unexpected value 0", 7),
        ("str(a),concat(a,tnx.b)", "invalid argument 2 of 'concat' : invalid variable name", 16),
        ("str(a),concat(a,txn.b-c)", "character '-' is not permitted", 16),
        ("str(a),ipmask(33)", "invalid argument 1 of 'ipmask' : '33' is no mask", 14),
        ("str(a),word(2,.)x", "unexpected character 'x'", 16),
        ("str(a),lower(", "missing closing '\\)' after 'lower\\('", 12),
        ('str("a),lower', "missing closing quote after 'str\\('", 3),
        ("bin(61),lower,add(1),hex(2)", "'hex' takes no argument", 25),
        ("bin(61),add(1)", "converter 'add' cannot be applied to a sample of type bin", 8),
        ("str(a),regsub((,b)", "error in regex '\\(' at character 1", 7),
        ("str(a),be2dec(.,,1)", "'integer' is expected|expects an integer", 16),
        ("str(a),be2hex(.,,1)", "'integer' expected, but got nothing", 16),
        ("str(a),da-csv-conv(x)", "known but not supported by mtproxy yet .device detection.", 7),
    ],
)
def test_errors_say_where(text: str, message: str, offset: int) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        _parse(text)
    assert caught.value.word == text
    assert caught.value.offset == offset
    assert caught.value.message.startswith("'t' : ")
    assert caught.value.message.endswith(f" (at character {offset + 1} of '{text}')")


def test_errors_in_a_later_word_name_that_word() -> None:
    with pytest.raises(ConfigError, match="at character 7 of 'lower,loewr'") as caught:
        _parse("str(a)", "lower,loewr")
    assert caught.value.suggestion == "lower"


def test_converters_may_be_words_of_their_own() -> None:
    reader = _parse("str(a)", "lower,upper", "hex", "if", "x")
    assert reader.peek() == "if"
    reader = _parse("str(a),", "lower")
    assert not reader.more()


def test_a_variable_of_another_name_is_suggested_nothing() -> None:
    with pytest.raises(ConfigError) as caught:
        _parse("int(1),add(foo.x)")
    assert caught.value.suggestion is None


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("str(abcdef),bytes(txn.int)", "str ''"),
        ("str(abcdefghij),bytes(txn.int)", "str 'hij'"),
        ("str(abcdefghij),bytes(1,txn.int)", "str 'bcdefgh'"),
        ("str(abcdefghij),bytes(txn.neg)", "none"),
        ("str(abcdefghij),bytes(1,txn.neg)", "none"),
        ("str(abcdefghij),bytes(txn.nosuch)", "none"),
        ("str(abcdefghij),bytes(txn.num)", "str ''"),
        ("bin(00010203),bytes(txn.bool,2)", "bin 0102"),
        ("bin(01020304050607),le2dec(:,2)", "str '513:1027:1541:7'"),
        ("bin(01020304050607),le2dec(-,2,1)", "str '513-1027-1541'"),
        ("bin(7f000001),le2dec(.,9)", "error"),
    ],
)
def test_what_later_versions_know(text: str, outcome: str) -> None:
    assert Evaluator().outcome(text) == outcome

"""Conditional blocks and messages."""

from __future__ import annotations

import pytest

from mtproxy.base.commandline import CommandLine
from mtproxy.base.errors import Diagnostics
from mtproxy.config.context import Context
from mtproxy.config.preprocessor import MAX_NESTING
from mtproxy.config.sections import Reader


def read(text: str, environ: dict[str, str] | None = None) -> Diagnostics:
    """Messages of a file; statements that are read say so by being unknown."""
    ctx = Context(CommandLine(), environ or {})
    Reader(ctx).feed("f", text.encode())
    return ctx.diagnostics


def taken(text: str, environ: dict[str, str] | None = None) -> list[str]:
    """The first words of the statements that are read."""
    return [item.word or item.message for item in read(text, environ)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".if 1\na\n.endif\nb\n", ["a", "b"]),
        (".if 0\na\n.endif\nb\n", ["b"]),
        (".if 1\na\n.else\nb\n.endif\n", ["a"]),
        (".if 0\na\n.else\nb\n.endif\n", ["b"]),
        (".if 0\na\n.elif 1\nb\n.elif 1\nc\n.else\nd\n.endif\n", ["b"]),
        (".if 0\na\n.elif 0\nb\n.else\nc\n.endif\n", ["c"]),
        (".if 1\n.if 0\na\n.else\nb\n.endif\nc\n.endif\n", ["b", "c"]),
        (".if 0\n.if 1\na\n.else\nb\n.endif\nc\n.else\nd\n.endif\n", ["d"]),
        (".if\na\n.endif\n", []),
        ('.if "${NONE}"\na\n.endif\n', []),
        ('.if streq("$A",x) && defined(A)\na\n.endif\n', ["a"]),
        # what is skipped is cut into words, and nothing more
        (".if 0\n.foo\n.if nonsense(\n.endif\n.alert x\n.endif\n", []),
        # a condition is evaluated only where its branch may be taken
        (".if 1\n.elif nonsense\n.endif\n", []),
    ],
)
def test_branches(text: str, expected: list[str]) -> None:
    assert taken(text, {"A": "x"}) == expected


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (".if 1\n", 1, "'.if' without '.endif'"),
        (".endif\n", 1, "'.endif' without a matching '.if'"),
        (".else\n", 1, "'.else' without a matching '.if'"),
        (".elif 1\n", 1, "'.elif' without a matching '.if'"),
        (".if 1\n.else\n.else\n.endif\n", 3, "'.else' after '.else'"),
        (".if 1\n.else\n.elif 1\n.endif\n", 3, "'.elif' after '.else'"),
        (".if 1\n.else x\n.endif\n", 2, "unexpected argument 'x' for '.else'"),
        (".if nonsense\n.endif\n", 1, "unknown predicate 'nonsense'"),
        (".iff 1\n", 1, "unknown directive '.iff'"),
        (".notice a b\n", 1, "unexpected argument 'b' for '.notice'"),
        (".if 0\n'\n.endif\n", 2, "unmatched quote"),
    ],
)
def test_faults_name_their_line(text: str, line: int, message: str) -> None:
    found = list(read(text))
    assert len(found) == 1
    assert message in found[0].message
    assert found[0].location is not None
    assert found[0].location.line == line


def test_blocks_do_not_reach_over_the_end_of_a_file() -> None:
    ctx = Context(CommandLine(), {})
    reader = Reader(ctx)
    reader.feed("a", b".if 0\n")
    reader.feed("b", b"x\n")
    assert [item.location.file for item in ctx.diagnostics if item.location] == ["a", "b"]


def test_messages_have_their_level() -> None:
    found = read('.diag a\n.notice "b c"\n.warning d\n.alert e\n')
    assert [(str(item.severity), item.message) for item in found] == [
        ("diag", "'a'"),
        ("notice", "'b c'"),
        ("warning", "'d'"),
        ("alert", "'e'"),
    ]


def test_nesting_is_limited_as_in_haproxy() -> None:
    deepest = ".if 1\n" * MAX_NESTING + ".endif\n" * MAX_NESTING
    assert not read(deepest).errors
    found = list(read(".if 1\n" + deepest + ".endif\n"))
    assert [item.message for item in found] == ["too many nested '.if' (at most 99)"]

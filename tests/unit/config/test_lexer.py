"""Quotes, escapes, comments and variables of a line (manual 2.2 and 2.3)."""

from __future__ import annotations

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.config.lexer import MAX_WORDS, from_text, to_text, tokenize

VARIABLES = {"V": "a b  c", "EMPTY": "", "ONE": "x", ".LINE": "7", ".FILE": "f", ".SECTION": "s"}


def words(line: str) -> list[str]:
    return [word.text for word in tokenize(line, VARIABLES.get)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", []),
        ("   \t ", []),
        ("# bind :80", []),
        ("bind :80", ["bind", ":80"]),
        ("\tbind\t :80 \t", ["bind", ":80"]),
        ("bind :80 # comment", ["bind", ":80"]),
        ("bind :80#comment", ["bind", ":80"]),
        ("bind :80\r\n", ["bind", ":80"]),
        ("bind\r :80", ["bind"]),
        ("a\vb\fc", ["a", "b", "c"]),
        # strong quotes: nothing is special
        ("'a b'", ["a b"]),
        (r"'a\x41\"$V#'", [r"a\x41\"$V#"]),
        ("a'b c'd", ["ab cd"]),
        ("''", [""]),
        # weak quotes
        ('"a b"', ["a b"]),
        ('"a\'#b"', ["a'#b"]),
        ('""', [""]),
        ('""x', ["x"]),
        ('a"b c"d', ["ab cd"]),
        # escapes
        (r"a\ b", ["a b"]),
        (r"a\#b", ["a#b"]),
        (r"a\\b", [r"a\b"]),
        (r"\"\'", ["\"'"]),
        (r"a\nb\rc\td", ["a\nb\rc\td"]),
        (r"\x41\x7a", ["Az"]),
        (r'"\x41\ \#\n"', ["A #\n"]),
        (r"a\qb", [r"a\qb"]),
        (r'"a\qb"', [r"a\qb"]),
        ("a\\", ["a\\"]),
        (r"\$V", [r"\$V"]),
        (r'"\$V"', ["$V"]),
        (r"a\x00b c", ["a", "c"]),
        # variables: inside weak quotes only
        ("$V ${V}", ["$V", "${V}"]),
        ('"$V"', ["a b  c"]),
        ('"${V}x"', ["a b  cx"]),
        ('"$ONE$ONE"', ["xx"]),
        ('"$ONE-y"', ["x-y"]),
        ('"$NONE"', [""]),
        ('a"$NONE"b', ["ab"]),
        ('"${NONE-127.0.0.1}:514"', ["127.0.0.1:514"]),
        ('"${NONE-}"', [""]),
        ('"${NONE-a b \'#"}"', ["a b '#\""]),
        ('"${ONE-other}"', ["x"]),
        ('"${EMPTY-other}"', [""]),
        ('"$V[*]"', ["a b  c[*]"]),
        ('"${.LINE} $.FILE ${.SECTION}"', ["7 f s"]),
        # [*]: one word per value
        ('"${V[*]}"', ["a", "b", "c"]),
        ('x"${V[*]}"y', ["xa", "b", "cy"]),
        ('"1 ${V[*]} 2"', ["1 a", "b", "c 2"]),
        ('"${NONE[*]}"', [""]),
        ('"${NONE[*]-p q}"', ["p", "q"]),
    ],
)
def test_words_of_a_line(line: str, expected: list[str]) -> None:
    assert words(line) == expected


@pytest.mark.parametrize(
    ("line", "message", "column"),
    [
        ("a 'b", "unmatched quote", 3),
        ('a "b', "unmatched quote", 3),
        ('a "b\\', "unmatched quote", 3),
        (r'a "b\"', "unmatched quote", 3),
        (r"ab\x4", "hexadecimal", 3),
        (r"ab\xzz", "hexadecimal", 3),
        ('"$"', "forbidden first char", 3),
        ('"${}"', "forbidden first char", 4),
        ('"${1}"', "forbidden first char", 4),
        ('"$\xe9"', "forbidden first char", 3),
        ('"${.NOPE}"', "forbidden first char", 4),
        ('"${V"', "unmatched brace", 3),
        ('"${V x}"', "unmatched brace", 3),
        ('"${V-"', "unmatched brace", 3),
        ('"${V[*"', "unmatched brace", 3),
    ],
)
def test_faults_have_a_column(line: str, message: str, column: int) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        words(line)
    assert caught.value.column == column


def test_a_line_has_at_most_64_words() -> None:
    assert len(words("a " * MAX_WORDS)) == MAX_WORDS
    with pytest.raises(ConfigError, match="too many words") as caught:
        words("a " * (MAX_WORDS + 1))
    assert caught.value.column == 2 * MAX_WORDS + 1


def test_columns_count_from_one_where_a_word_starts() -> None:
    found = tokenize(" bind  \"x y\" 'z'", VARIABLES.get)
    assert [(word.text, word.column) for word in found] == [("bind", 2), ("x y", 8), ("z", 14)]


def test_whole_takes_blanks_and_hashes_as_they_are() -> None:
    (word,) = tokenize('1 #x "$ONE"', VARIABLES.get, whole=True)
    assert word.text == "1 #x x"


def test_bytes_that_are_not_utf8_survive() -> None:
    data = b"caf\xc3\xa9 \xff"
    first, second = tokenize(data.decode("latin-1"), VARIABLES.get)
    assert to_text(first.text) == "café"
    assert to_text(second.text) == "\udcff"
    assert from_text(to_text(second.text)) == "\xff"

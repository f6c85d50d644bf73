"""Regular expressions: PCRE2's answers, bounded time, replacements."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtproxy.rules import regex
from mtproxy.rules.regex_linear import is_linear

#: pattern, whether it goes to `re`
LINEAR = [
    (rb"^/api/(.*)$", True),
    (rb"^/api/(.*)", True),
    (rb"^/([^/]*)/(.*)$", True),
    (rb"^([a-z]+)\.example\.com$", True),
    (rb"foo.*", True),
    (rb"foo.*$", False),
    (rb"foo|bar", True),
    (rb"^foo|bar", False),
    (rb"^(foo|bar)/?$", True),
    (rb"(a+)+$", False),
    (rb"^(.*)x(.*)y", False),
    (rb"[^/:]*://", False),
    (rb"^[^/:]*://", True),
    (rb"a{3}", False),
    (rb"\bfoo", False),
    (rb"[[:alpha:]]", False),
    (rb"(?i)foo", False),
    (rb"a?a?a?a?a?a?a?a?aaaaaaaa", False),
    (rb"^(a*)?b", False),
    (rb"^a*a", False),
    (rb"^a*a?b", False),
    (rb"\.(jpg|png|gif)$", True),
    (rb"a*?", False),
    (rb"a++", False),
    (rb"[a&&b]", False),
    (rb"[]a]", False),
    (rb"\1", False),
    (rb"^a*(b|a)", False),
    (rb"^([0-9]+)-([0-9]+)$", True),
    (rb"(?:a|b)c", True),
]


@pytest.mark.parametrize(("pattern", "expected"), LINEAR)
def test_which_patterns_are_proven(pattern: bytes, expected: bool) -> None:
    assert is_linear(pattern, False) is expected


def test_case_counts_in_the_proof() -> None:
    assert is_linear(rb"^[a-z]*A", False)
    assert not is_linear(rb"^[a-z]*A", True)


_PIECES = st.sampled_from(
    [
        b"a", b"b", b"A", b"/", b".", b"[ab]", b"[^a]", b"[a-c]", b"\\.", b"\\d", b"\\w", b"\\S",
        b"(", b")", b"(?:", b"|", b"?", b"*", b"+", b"^", b"$", b"-", b"[^/]", b".*", b"(.*)", b"1",
    ]
)  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(
    st.lists(_PIECES, max_size=8).map(b"".join),
    st.lists(st.sampled_from([b"a", b"b", b"A", b"/", b"1", b"\n", b".", b"c"]), max_size=8),
    st.booleans(),
)
def test_both_engines_agree(pattern: bytes, subject: list[bytes], ignore_case: bool) -> None:
    """What `re` runs gives the same groups as PCRE2."""
    if not is_linear(pattern, ignore_case):
        return
    data = b"".join(subject)
    program = regex._Program(pattern, ignore_case)
    plain = regex.Regex(pattern, program)
    program = regex._Program(pattern, ignore_case)
    program.plain = None
    pcre2 = regex.Regex(pattern, program)
    assert plain.groups(data) == pcre2.groups(data)
    assert plain.search(data) == pcre2.search(data) == (plain.groups(data) is not None)
    assert plain.substitute(data, rb"<\1>", True) == pcre2.substitute(data, rb"<\1>", True)


HOSTILE = [
    rb"(a+)+$",
    rb"(a|aa)+$",
    rb"(a|a?)+$",
    rb"^(([a-z])+.)+[A-Z]([a-z])+$",
    rb"(x+x+)+y",
    rb"(.*)*b$",
    rb"(?:a?){50}a{50}[^a]",
    rb"a*a*a*a*a*[^a!]",
]


@pytest.mark.parametrize("pattern", HOSTILE)
@pytest.mark.parametrize("length", [30, 250, 2000, 30_000])
def test_hostile_input_is_bounded(pattern: bytes, length: int) -> None:
    one = regex.compile(pattern)
    start = time.thread_time()
    one.search(b"a" * length + b"!")
    one.groups(b"x" * length + b"!")
    assert time.thread_time() - start < 2


def test_pcre2_syntax() -> None:
    assert regex.compile(r"^(?<n>\w+)\s(?=b)").groups(b"ab b") == [(0, 3), (0, 2)] + [(-1, -1)] * 8
    assert regex.compile(r"(a)|(b)").groups(b"b") == [(0, 1), (-1, -1), (0, 1)] + [(-1, -1)] * 7
    assert regex.compile(r"(?:(x)|b\b)").groups(b"b") == [(0, 1)] + [(-1, -1)] * 9
    assert regex.compile("a++b").search(b"aaab")
    assert regex.compile("HOST[[:digit:]]{2}", True).search(b"my-host42")
    assert not regex.compile("HOST[[:digit:]]{2}").search(b"my-host42")
    assert regex.compile("a\\x00b").search(b"xa\0b")
    groups = regex.compile("(.)" * 12).groups(b"abcdefghijkl")
    assert groups is not None
    assert len(groups) == 10
    assert groups[9] == (8, 9)


def test_errors_have_a_place() -> None:
    with pytest.raises(regex.RegexError) as raised:
        regex.compile("ab(c")
    assert raised.value.offset == 4
    assert "parenthes" in str(raised.value)


@pytest.mark.parametrize(
    ("pattern", "data", "template", "everywhere", "expected"),
    [
        ("b+", b"abbbc", b"<\\0>", False, b"a<bbb>c"),
        ("b", b"abbbc", b"x", True, b"axxxc"),
        ("b", b"abbbc", b"x", False, b"axbbc"),
        ("^a", b"aaa", b"x", True, b"xaa"),
        ("x*", b"ab", b"-", True, b"-a-b-"),
        ("(a)(z)?", b"a", b"[\\1\\2]", False, b"[a]"),
        ("a", b"a", b"\\x41\\\\", False, b"A\\"),
        ("z", b"abc", b"x", True, b"abc"),
        ("(?<=a)b", b"ab", b"x", True, b"ax"),
    ],
)
def test_substitute(
    pattern: str, data: bytes, template: bytes, everywhere: bool, expected: bytes
) -> None:
    assert regex.compile(pattern).substitute(data, template, everywhere) == expected


def test_templates() -> None:
    assert regex.template_error(rb"\1\x4a\\") is None
    assert regex.template_error(b"a\\") is not None
    assert regex.template_error(b"\\xg1") is not None


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "_pcre2", None)
    program = regex._Program(rb"(b|a+)c", False)
    one = regex.Regex(rb"(b|a+)c", program)
    assert one.search(b"xxaac")
    assert one.groups(b"xbc") == [(1, 3), (1, 2)] + [(-1, -1)] * 8
    assert not one.search(b"x" * regex.RE_MAX + b"bc")
    with pytest.raises(regex.RegexError):
        regex._Program(b"(", False)


def test_threads_share_programs() -> None:
    wrong: list[bytes] = []

    def work(number: int) -> None:
        mine = regex.compile(r"(\d+)(?!x)-")
        for turn in range(2000):
            text = b"%d-%d" % (number, turn)
            groups = mine.groups(text)
            if groups is None or text[slice(*groups[1])] != b"%d" % number:
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_function_outlives_its_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Match data is freed with the last function that uses it, and only then."""
    freed: list[int] = []
    pcre2 = regex._pcre2
    assert pcre2 is not None
    free = pcre2.free_match_data
    monkeypatch.setattr(pcre2, "free_match_data", lambda data: (freed.append(data), free(data)))
    search = regex.compile(r"(a|b)++c").search
    assert not freed
    assert search(b"xabc")
    del search
    assert len(freed) == 1

"""Lists of patterns against a model that keeps one list and tries one pattern after the other."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtproxy.rules.patterns.methods import DELIMITERS, PatternError, parse
from mtproxy.rules.patterns.reference import PatternRef
from mtproxy.rules.types import Ip4, Ip6

_TEXT = st.text("aAb./?:", max_size=6).map(str.encode)
_SMALL = st.integers(-3, 8)
_IP4 = st.integers(0, 255).map(lambda n: Ip4(0x0A000000 | (n & 0xF0) << 12 | n & 0x0F))
_IP6 = st.sampled_from(
    [Ip6(1), Ip6(0xFFFF0A000001), Ip6(0x0A000001), Ip6(0x20020A000001 << 80), Ip6(0x2001 << 112)]
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": _SMALL,
    "ip": st.one_of(_IP4, _IP6),
    "meth": st.sampled_from([b"GET", b"get", b"Foo", b"foo", b"FOO"]),
}
PATTERNS: dict[str, st.SearchStrategy[bytes]] = {
    "int": st.one_of(
        st.integers(0, 8).map(lambda n: b"%d" % n),
        st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda p: b"%d:%d" % p),
        st.sampled_from([b":3", b"4:", b"-2"]),
    ),
    "len": st.sampled_from([b"0", b"1", b"2:3", b"5:", b":1", b"3"]),
    "ip": st.sampled_from(
        [
            b"10.0.0.0/8", b"10.0.0.1", b"10.16.0.0/12", b"0.0.0.0/0", b"10.0.0.5/255.0.0.255",
            b"::/0", b"::ffff:0:0/96", b"2002::/16", b"2001::/16", b"10.0.0.0/30", b"::1",
        ]
    ),
    "meth": st.sampled_from([b"GET", b"get", b"Foo", b"FOO", b"PUT"]),
    "bin": st.binary(max_size=2).map(lambda data: data.hex().encode()),
    "reg": st.sampled_from([b"a", b"^a", b"b$", b"a.b", b"^$", b"(A|b)+"]),
}  # fmt: skip
METHODS = ("str", "beg", "end", "sub", "dir", "dom", "reg", "int", "len", "ip", "meth", "bin")


def _four(value: int) -> int | None:
    if value >> 32 in (0, 0xFFFF):
        return value & 0xFFFFFFFF
    return value >> 80 & 0xFFFFFFFF if value >> 112 == 0x2002 else None


def _matches(method: str, icase: bool, text: bytes, value: Any) -> bool:
    """One pattern, by the manual's words."""
    if method in ("int", "len"):
        low, high = parse(method, text)[:2]
        number = len(value) if method == "len" else value
        return (low is None or low <= number) and (high is None or number <= high)  # type: ignore[operator]
    if method == "bin":
        return bool(bytes.fromhex(text.decode()) == value)
    if method == "reg":
        return re.search(text, value, re.IGNORECASE if icase else 0) is not None
    if method == "meth":
        known = {b"GET", b"PUT"} & {text, value}
        return bool(text == value or (icase and not known and text.lower() == value.lower()))
    if icase:
        text, value = text.lower(), value.lower()
    match method:
        case "str":
            return bool(text == value)
        case "beg":
            return bool(value.startswith(text))
        case "end":
            return bool(value.endswith(text))
        case "sub":
            return text in value and text != b""
    delimiters = DELIMITERS[method]
    word = text.strip(delimiters)
    edge = b"[" + re.escape(delimiters) + b"]"
    pattern = b"(?:(?<=" + edge + b")|^)" + re.escape(word) + b"(?:(?=" + edge + rb")|\Z)"
    return word != b"" and re.search(pattern, value) is not None


def _found(method: str, icase: bool, texts: list[bytes], value: Any) -> bytes | None:
    """The pattern that is found, as the text of the first such one."""
    if method == "ip":
        return _found_ip(texts, value)
    hits = [text for text in texts if _matches(method, icase, text, value)]
    if method == "beg" and not icase and hits:
        return max(hits, key=len)
    return hits[0] if hits else None


def _found_ip(texts: list[bytes], value: Ip4 | Ip6) -> bytes | None:
    keys = [(text, parse("ip", text)) for text in texts]
    six = int(value) if type(value) is Ip6 else 0xFFFF << 32 | int(value)
    four = int(value) if type(value) is Ip4 else _four(int(value))

    def longest(family: int, bits: int, address: int | None) -> bytes | None:
        best: tuple[int, bytes] | None = None
        for text, key in keys:
            of, number, length = key
            if of != family or address is None:
                continue
            assert isinstance(number, int)
            assert isinstance(length, int)
            shift = bits - length
            if address >> shift == number >> shift and (best is None or length > best[0]):
                best = (length, text)
        return best and best[1]

    ways = [(4, 32, four), (6, 128, six)]
    for way in ways if type(value) is Ip4 else ways[::-1]:
        found = longest(*way)
        if found is not None:
            return found
    for text, (of, number, mask) in keys:
        if of == 0 and four is not None and four & mask == number:  # type: ignore[operator]
            return text
    return None


@st.composite
def _story(draw: st.DrawFn) -> tuple[str, bool, list[tuple[str, bytes]], list[Any]]:
    method = draw(st.sampled_from(METHODS))
    icase = draw(st.booleans()) and method not in ("bin", "int", "ip", "len")
    texts = PATTERNS.get(method, _TEXT.filter(len))
    step = st.tuples(st.sampled_from(["add", "add", "add", "del", "clear", "swap"]), texts)
    steps = draw(st.lists(step, max_size=40))
    values = draw(st.lists(VALUES.get(method, _TEXT), min_size=1, max_size=8))
    if method == "bin":
        values = draw(st.lists(st.binary(max_size=2), min_size=1, max_size=8))
    return method, icase, steps, values


@settings(max_examples=400, deadline=None)
@given(_story())
def test_any_history_finds_what_the_model_finds(
    story: tuple[str, bool, list[tuple[str, bytes]], list[Any]],
) -> None:
    method, icase, steps, values = story
    ref = PatternRef("file", "")
    expr = ref.expr(method, ignore_case=icase)
    find, test = expr.finder(), expr.tester()
    model: list[bytes] = []
    for what, text in steps:
        if what == "add":
            try:
                ref.add(text, None, 0)
            except PatternError:
                with pytest.raises(PatternError):
                    parse(method, text, ignore_case=icase)
            else:
                model.append(text)
        elif what == "del":
            assert ref.delete(text, 0) == (text in model)
            model = [one for one in model if one != text]
        elif what == "clear":
            ref.clear(ref.current, 0)
            model = []
        else:
            number = ref.prepare(0)
            try:
                ref.add(text, None, 0, number)
            except PatternError:
                continue
            assert [e.key for e in ref.entries()] == model
            assert ref.commit(number, 0)
            model = [text]
        ref._check()
        assert [e.key for e in ref.entries()] == model
        assert ref.entry_count() == sum(len(g.entries) for g in ref.generations.values())
    for value in values:
        entry = find(value)
        expected = _found(method, icase, model, value)
        assert (entry and entry.key) == expected, (model, value)
        assert test(value) == (expected is not None)

"""Converters on random input: what one encodes the other decodes, and nothing ever fails."""

from __future__ import annotations

import base64
import json
import time
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote_from_bytes

from hypothesis import given
from hypothesis import strategies as st

from mtproxy.base.settings import GlobalSettings
from mtproxy.rules import registry
from mtproxy.rules.casts import dynamic, str_to_int
from mtproxy.rules.converters.json import find_value, parse_path
from mtproxy.rules.tables import ArgKind
from mtproxy.rules.types import INT_MAX, INT_MIN, Binary, Ip4, Ip6, Type
from mtproxy.testing.expressions import Evaluator

_EVALUATOR = Evaluator()
_VIEW = _EVALUATOR.view


def _converter(name: str, *args: Any) -> Any:
    entry = registry.CONVERTERS[name]
    full = (*args, *([None] * (len(entry.args) - len(args))))
    assert entry.make is not None
    convert = entry.make(full, _EVALUATOR.build)
    return lambda value: convert(value, _VIEW)


@given(st.binary(max_size=60))
def test_encodings_there_and_back(data: bytes) -> None:
    encoded = _converter("base64")(data)
    assert encoded == base64.b64encode(data)
    assert _converter("b64dec")(encoded) == data
    encoded = _converter("ub64enc")(data)
    assert encoded == base64.urlsafe_b64encode(data).rstrip(b"=")
    assert _converter("ub64dec")(encoded) == data
    assert _converter("hex")(data) == data.hex().upper().encode()
    encoded = _converter("url_enc")(data)
    assert encoded == quote_from_bytes(data, "").encode()
    assert _converter("url_dec")(encoded) == data
    assert _converter("be2hex", b"", 0, 0)(data) == data.hex().upper().encode()


@given(st.text(st.characters(max_codepoint=0xD7FF)))
def test_escaped_text_is_json(text: str) -> None:
    escaped = _converter("json", b"utf8")(text.encode())
    assert json.loads(b'"' + escaped + b'"') == text


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text('ab\\"é[]{},:', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner),
    max_leaves=15,
)


@given(_values, st.lists(st.sampled_from(["a", "b", "ab", "", 0, 1, 2]), max_size=4))
def test_a_query_finds_what_stands_there(document: Any, path: list[str | int]) -> None:
    text = "$" + "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path)
    steps = parse_path(text.encode())
    assert steps is not None
    found = find_value(json.dumps(document, ensure_ascii=False).encode(), steps)
    expected: Any = document
    for step in path:
        kind = list if isinstance(step, int) else dict
        missing = not isinstance(expected, kind) or (
            step >= len(expected) if isinstance(step, int) else step not in expected
        )
        if missing:
            assert found is None
            return
        expected = expected[step]
    if isinstance(expected, list | dict):
        assert found is None
    else:
        assert found is not None
        assert json.loads(found[0]) == expected


@given(st.integers(INT_MIN, INT_MAX), st.integers(INT_MIN, INT_MAX))
def test_arithmetic_stays_within_64_bits(left: int, right: int) -> None:
    for name in ("add", "sub", "mul", "div", "mod", "and", "or", "xor"):
        result = _converter(name, right)(left)
        assert INT_MIN <= result <= INT_MAX
    quotient, remainder = _converter("div", right)(left), _converter("mod", right)(left)
    if right and (left, right) != (INT_MIN, -1):
        assert quotient * right + remainder == left
        assert abs(remainder) < abs(right)


@given(st.text("a_.", max_size=12), st.integers(-5, 5).filter(bool), st.integers(0, 4))
def test_fields_and_words_are_parts_of_the_text(text: str, index: int, count: int) -> None:
    data = text.encode()
    field = _converter("field", index, b"_.", count)(data)
    single = _converter("field", index, b"_", 1)(data)
    parts = data.split(b"_")
    place = index - 1 if index > 0 else index
    there: bool = -len(parts) <= place < len(parts)
    assert single == (parts[place] if there else None)
    assert field is None or field in data
    word = _converter("word", index, b"_.", 1)(data)
    words = data.replace(b".", b"_").replace(b"_", b" ").split()
    there = -len(words) <= place < len(words)
    assert word == (words[place] if there else b"")


@given(st.binary(max_size=30))
def test_numbers_at_the_beginning_of_texts(data: bytes) -> None:
    number = str_to_int(data)
    assert number is None if not data else number is not None
    if number is not None:
        assert INT_MIN <= number <= INT_MAX


def _arguments(name: str) -> list[tuple[Any, ...]]:
    some: dict[ArgKind, Any] = {
        ArgKind.SINT: 1,
        ArgKind.STR: b"1",
        ArgKind.OPERAND: 3,
        ArgKind.VARIABLE: "txn.str",
        ArgKind.MASK4: 0xFFFFFF00,
        ArgKind.MASK6: 1 << 127,
        ArgKind.REGEX: "a+",
    }
    special = {
        "sha2": (256,),
        "digest": (b"sha256",),
        "hmac": (b"sha256", b"c2VjcmV0"),
        "json": (b"utf8s",),
        "json_query": (b"$.a", None),
        "jwt_header_query": (b"$.a", None),
        "jwt_payload_query": (b"$.a", None),
        "jwt_verify": (b"HS256", b"key"),
        "http_date": (0, b"ms"),
        "be2dec": (b".", 2, None),
        "le2dec": (b".", 2, None),
        "bytes": ("txn.int", 2),
        "mqtt_field_value": (b"connect", b"username"),
        "rfc7239_field": (b"for",),
        "protobuf": (b"1.2", b"float"),
        "ungrpc": (b"1.2", b"double"),
        "regsub": ("a*b", b"\\0x", b"g"),
        "aes_gcm_dec": (128, b"txn.nonce", b"txn.aeskey", b"txn.key", None),
        "aes_gcm_enc": (128, b"txn.nonce", b"txn.aeskey", "txn.tag", None),
        "aes_cbc_dec": (128, b"txn.aeskey", b"txn.aeskey"),
        "aes_cbc_enc": (128, b"txn.aeskey", b"txn.aeskey"),
    }
    entry = registry.CONVERTERS[name]
    if name in special:
        return [special[name]]
    return [
        tuple(some.get(one.kind) for one in entry.args),
        tuple(None if one.optional else some.get(one.kind) for one in entry.args),
    ]


#: those of other families, and those that need a proxy around them
_ELSEWHERE = ("map", "table_", "in_table", "set-var", "unset-var", "debug", "nbsrv", "srv_queue")
_NAMES = sorted(
    name
    for name, entry in registry.CONVERTERS.items()
    if entry.make is not None and entry.load is None and not name.startswith(_ELSEWHERE)
    and not name.startswith("capture")
)  # fmt: skip
_samples = (
    st.binary(max_size=40)
    | st.text("ab1._-=&;,:[]{}\"\\'%+ \0\1é$", max_size=40).map(str.encode)
    | st.binary(max_size=40).map(Binary)
    | st.booleans()
    | st.integers(INT_MIN, INT_MAX)
    | st.integers(0, 0xFFFFFFFF).map(Ip4)
    | st.integers(0, (1 << 128) - 1).map(Ip6)
)


_ALL = [
    (name, registry.CONVERTERS[name], [_converter(name, *args) for args in _arguments(name)])
    for name in _NAMES
]


@given(_samples)
def test_no_value_makes_a_converter_fail(sample: Any) -> None:
    for name, entry, converters in _ALL:
        value = dynamic(sample, entry.takes)
        if value is None:
            continue
        for convert in converters:
            result = convert(value)
            assert result is None or isinstance(result, bool | int | bytes), name
            if entry.gives is Type.SINT and isinstance(result, int):
                assert INT_MIN <= result <= INT_MAX, name


def test_results_are_cut_to_the_size_of_a_buffer() -> None:
    evaluator = Evaluator()
    evaluator.build.shared.settings = SimpleNamespace(  # type: ignore[assignment]
        global_=GlobalSettings(tune={"tune.bufsize": 1024})
    )
    long, half = "x" * 2000, "y" * 800
    assert evaluator.value(f"str({long}),concat(a)") == b"x" * 1023
    assert evaluator.value(f"str({long}),add_item(a,txn.str)") == b"x" * 1023
    assert evaluator.value(f"str({half}),hex") == b"79" * 512
    assert evaluator.value(f"str({half}),be2hex(:,1)") == b":".join([b"79"] * 341)
    assert evaluator.value(f"str({half}),be2dec(:,1)") == b":".join([b"121"] * 256)
    assert evaluator.value(f"str({half}),regsub(y,zz,g)") == b"z" * 1024
    for encoding in ("base64", "ub64enc", "url_enc", "json"):
        assert evaluator.value(f"str({'/' * 1000}),{encoding}") is None, encoding


def test_hostile_input_costs_little_time() -> None:
    data = b"_" * 16000
    begun = time.monotonic()
    for name in ("field", "word"):
        for index in (-3, 3, 9000):
            for count in (0, 1, 5000):
                _converter(name, index, b"_.", count)(data + b"a")
                _converter(name, index, b"_.", count)(b"a_" * 8000)
    _converter("json_query", b"$.a", None)(b"[" * 16000)
    _converter("json_query", b"$.a", None)(b'{"' + b"\\" * 16000)
    _converter("json_query", b"$.a", None)(b'{"b":' + b"1" * 16000)
    _converter("rfc7239_is_valid")(b"for=" + b"1." * 8000)
    _converter("rfc7239_is_valid")(b'for="_' + b"a" * 16000)
    _converter("language", b"en;fr")(b"a;q=" * 4000)
    _converter("language", b"en;fr")(b" " * 16000 + b"a")
    _converter("fix_is_valid")(b"8=" * 8000)
    _converter("b64dec")(b"=" * 16000)
    assert time.monotonic() - begun < 2

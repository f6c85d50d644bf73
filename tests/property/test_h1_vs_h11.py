"""Our HTTP/1 codec against h11: nothing is taken that h11 refuses, but for listed exceptions."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtproxy.http import chunked, framing, headers
from mtproxy.http.cache import HeadCache
from mtproxy.http.chunked import ChunkedReader, encode_chunk, encode_last
from mtproxy.http.errors import BadMessage
from mtproxy.http.headers import make_header
from mtproxy.testing import h1compare
from mtproxy.testing.h1compare import compare_request, compare_response
from mtproxy.testing.h1fuzz import main, run_case
from mtproxy.testing.h1generator import Generator
from mtproxy.testing.h1messages import read_request

METHODS = [b"GET", b"GET", b"HEAD", b"POST", b"CONNECT"]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    cuts = sorted(place % (len(data) + 1) for place in places)
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


CUTS = st.lists(st.integers(0, 5000), max_size=12)


@given(st.randoms(use_true_random=False), CUTS)
@settings(max_examples=400, deadline=None)
def test_requests(rng: Random, places: list[int]) -> None:
    data = Generator(rng).request()
    assert compare_request(data, cut(data, places), HeadCache()) is None


@given(st.randoms(use_true_random=False), CUTS, st.sampled_from(METHODS), st.booleans())
@settings(max_examples=400, deadline=None)
def test_responses(rng: Random, places: list[int], method: bytes, upgrade: bool) -> None:
    data = Generator(rng).response()
    assert compare_response(data, cut(data, places), method, HeadCache(), upgrade) is None


@given(st.binary(max_size=60), CUTS)
@settings(max_examples=300, deadline=None)
def test_any_bytes_behind_a_good_beginning(tail: bytes, places: list[int]) -> None:
    host = b"GET / HTTP/1.1\r\nHost: a\r\n"
    for start in (b"", host, host + b"Transfer-Encoding: chunked\r\n\r\n"):
        data = start + tail
        assert compare_request(data, cut(data, places), HeadCache()) is None
        data = data.replace(b"GET / HTTP/1.1", b"HTTP/1.1 200 OK")
        assert compare_response(data, cut(data, places), b"GET", HeadCache()) is None


def test_many_seeded_cases_with_one_cache() -> None:
    cache = HeadCache(entries_max=64)
    for case in range(4000):
        found = run_case(20260, case, cache)
        assert found is None, f"case {case}: {found}"
    cache._check()


PAYLOADS = st.lists(st.binary(min_size=1, max_size=40), max_size=6)


@given(PAYLOADS, st.booleans(), st.binary(max_size=10), CUTS, st.booleans())
@settings(max_examples=300, deadline=None)
def test_chunks_in_any_split(
    payloads: list[bytes], trailer: bool, rest: bytes, places: list[int], relay: bool
) -> None:
    trailers = [make_header(b"x", b"y")] if trailer else []
    body = b"".join(encode_chunk(payload) for payload in payloads) + encode_last(trailers)
    reader = ChunkedReader()
    out: list[bytes] = []
    for piece in cut(body + rest, places):
        out += reader.relay(piece) if relay else reader.feed(piece)
    assert reader.done
    assert all(out)
    assert b"".join(out) == (body if relay else b"".join(payloads))
    assert (reader.rest, reader.trailers) == (rest, trailers)
    assert reader.payload == sum(map(len, payloads))


def test_generated_messages_reach_both_verdicts_and_every_exception() -> None:
    """The generator is worth its name: it is not all refused, and each exception is exercised."""
    taken = refused = 0
    cache = HeadCache()
    used: set[str] = set()
    for case in range(3000):
        data = Generator(Random(f"{case}")).request()
        try:
            message = read_request([data], cache)
        except BadMessage:
            refused += 1
            continue
        if message is None:
            continue
        taken += 1
        head = data[: message.body_at]
        used.update(name for name, mend in h1compare._MENDERS.items() if mend(head) != head)
        if b" ;" in data[message.body_at :]:
            used.add("chunks")
    assert taken > 500
    assert refused > 500
    assert used == set(h1compare.EXCEPTIONS)


# How the codec could be too liberal, each of which the judge must notice.
FAULTS = {
    "space before the colon": (
        headers,
        "_match_field",
        rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) *:([\t\x20-\x7e\x80-\xff]*)",
        "fullmatch",
    ),
    "NUL in a value": (
        headers,
        "_match_field",
        rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([\x00\t\x20-\x7e\x80-\xff]*)",
        "fullmatch",
    ),
    "sign in a length": (framing, "_match_length", rb"\+?[0-9]{1,19}", "fullmatch"),
    "sign in a chunk size": (
        chunked,
        "_match_plain_size",
        rb"([+]?[0-9A-Fa-f]{1,15})\r\n",
        "match",
    ),
    "bare LF after a chunk size": (
        chunked,
        "_match_plain_size",
        rb"([0-9A-Fa-f]{1,15})\r?\n",
        "match",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_judge_notices_a_liberal_codec(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import re

    module, name, pattern, method = FAULTS[fault]
    monkeypatch.setattr(module, name, getattr(re.compile(pattern), method))
    for case in range(20000):
        # a new cache each time: what one case teaches must not hide the next
        if run_case(1, case, HeadCache()) is not None:
            return
    pytest.fail(f"not noticed: {fault}")


def test_the_fuzz_loop(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.2", "--seed", "7"]) == 0
    assert "nothing found in" in capsys.readouterr().out
    assert main(["--seed", "7", "--case", "3"]) == 0
    assert capsys.readouterr().out == "nothing found\n"


def test_the_fuzz_loop_tells_how_to_repeat_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    monkeypatch.setattr(framing, "_match_length", re.compile(rb"\+?[0-9]{1,19}").fullmatch)
    assert main(["--seconds", "60", "--seed", "1", "--requests"]) == 1
    out = capsys.readouterr().out
    match = re.search(r"h1fuzz --seed 1 --case (\d+) --requests$", out, re.MULTILINE)
    assert match is not None
    assert main(["--seed", "1", "--case", match[1], "--requests"]) == 1
    assert "we take what h11 refuses" in capsys.readouterr().out

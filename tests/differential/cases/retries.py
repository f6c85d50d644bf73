"""Connections that fail, requests that are sent again, and to whom.

A refused address is port 1 of this machine, where nothing listens. No
case waits longer than the second between two attempts, and most not at all.
"""

from __future__ import annotations

from tests.differential.case import OK, Case, answer, request

_REFUSED = "127.0.0.1:1"
_DEAD = f"server s1 {_REFUSED}"
_TO_TWO = f"balance first\n{_DEAD}\nserver s2 @ORIGIN@"
_POST = request("/", method="POST", body="abc")


def _answers(name: str, words: str, *answers: bytes, **more: object) -> Case:
    """A backend with `retry-on words` whose origin says `answers` in turn; b"": it closes."""
    back = f"retry-on {words}" if words else ""
    return Case(name, back=back, answers=answers, fresh=True, **more)  # type: ignore[arg-type]


CASES = [
    # -- connections
    Case("refused, no retries", back=f"retries 0\n{_DEAD}"),
    Case("refused, a retry", back=f"retries 1\ntimeout connect 50ms\n{_DEAD}"),
    Case("refused, retry-on none", back=f"retry-on none\nretries 3\n{_DEAD}"),
    Case("refused, redispatched", back=f"option redispatch\n{_TO_TWO}\ntimeout connect 500ms"),
    Case(
        "refused, redispatched on each retry",
        back=f"option redispatch 1\nretries 3\ntimeout connect 500ms\n{_TO_TWO}",
    ),
    Case(
        "refused, a body is redispatched",
        back=f"option redispatch\ntimeout connect 500ms\n{_TO_TWO}",
        requests=(_POST,),
    ),
    Case("refused, no redispatch", back=f"timeout connect 50ms\nno option redispatch\n{_TO_TWO}"),
    Case(
        "refused, a cookie holds",
        back=f"no option redispatch\ntimeout connect 50ms\ncookie S insert\n"
        f"server s1 {_REFUSED} cookie a\nserver s2 @ORIGIN@ cookie b",
        requests=(request("/", "cookie: S=a"),),
    ),
    Case(
        "refused, a cookie gives way",
        back=f"option redispatch\ntimeout connect 50ms\ncookie S insert\n"
        f"server s1 {_REFUSED} cookie a\nserver s2 @ORIGIN@ cookie b",
        requests=(request("/", "cookie: S=a"),),
    ),
    # -- answers
    _answers("closed, nothing said", "", b""),
    _answers("closed, conn-failure", "conn-failure", b"", OK),
    _answers("empty-response", "empty-response", b"", OK),
    _answers("empty-response twice", "empty-response", b"", b"", OK),
    _answers("empty-response, a body", "empty-response", b"", OK, requests=(_POST,)),
    _answers("junk-response", "junk-response", b"SSH-2.0-x\r\n\r\n", OK),
    _answers("junk, empty-response", "empty-response", b"SSH-2.0-x\r\n\r\n", OK),
    *(
        _answers(f"{status}, {words}", words, answer(status=f"{status} X"), OK)
        for status, words in (
            (503, "503"),
            (500, "500 502"),
            (404, "404"),
            (503, "500"),
            (503, "all-retryable-errors"),
            (404, "all-retryable-errors"),
        )
    ),
    Case(
        "a rule forbids it",
        front="http-request disable-l7-retry",
        back="retry-on 503",
        answers=(answer(status="503 X"), OK),
    ),
    Case(
        "a rule forbids it for a path",
        front="http-request disable-l7-retry if { path /no }",
        back="retry-on 503",
        requests=(request("/no"), request("/yes")),
        answers=(answer(status="503 X"), answer(status="503 X"), OK),
    ),
]

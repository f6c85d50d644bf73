"""Actions that rewrite heads: what goes out, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mtproxy.rules.verdict import Answer

GET = b"GET /a HTTP/1.1\nhost: x\nx-t: 1, 2 ,3\nx-u: v"


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("set-header X-N v", b"\nx-t: 1, 2 ,3\nx-u: v\nx-n: v"),
        ("set-header X-T v", b"\nx-u: v\nx-t: v"),
        ("add-header X-T v", b"\nx-t: 1, 2 ,3\nx-u: v\nx-t: v"),
        ("del-header x-T", b"\nx-u: v"),
        ("del-header X- -m beg", b""),
        ("del-header -u -m end", b"\nx-t: 1, 2 ,3"),
        ("del-header -t -m sub", b"\nx-u: v"),
        ("del-header ^x-[u] -m reg", b"\nx-t: 1, 2 ,3"),
        ("replace-header X-T 2 <\\\\0>", b"\nx-t: <2>\nx-u: v"),
        ("replace-header X-T nothing v", b"\nx-t: 1, 2 ,3\nx-u: v"),
        ("replace-value X-T ^2$ z", b"\nx-t: 1,z,3\nx-u: v"),
        ("replace-value X-T [13] z\\\\0", b"\nx-t: z1, 2 ,z3\nx-u: v"),
    ],
)
def test_headers_of_a_request(rules: Any, action: str, expected: bytes) -> None:
    view, verdict = rules(f"http-request {action}").request(GET)
    assert verdict is None
    assert view.sent() == b"GET /a HTTP/1.1\nhost: x" + expected


def test_a_head_that_no_rule_changes_is_shared(rules: Any) -> None:
    built = rules("http-request del-header X-None\nhttp-request replace-header X-None a b")
    view, _ = built.request(GET)
    assert not view.txn.own_req


@pytest.mark.parametrize(
    "lines",
    [
        "http-request set-header Content-Length 99",
        "http-request add-header Content-Length 99",
        "http-request del-header Content-Length",
        "http-request del-header . -m reg",
        "http-request replace-header Content-Length .* 99",
        "http-request set-header Transfer-Encoding chunked",
        "http-request del-header Content-Length\nhttp-request set-header Content-Length 1",
        "http-request del-header Content-Length\nhttp-request del-header Content-Length",
    ],
)
def test_the_length_on_the_wire_stays_true(rules: Any, lines: str) -> None:
    view, verdict = rules(lines).request(b"POST / HTTP/1.1\ncontent-length: 3")
    assert verdict is None
    fields = [line for line in view.sent().split(b"\n")[1:] if line]
    assert fields == [b"content-length: 3"]


def test_later_rules_see_the_length_that_a_rule_has_set(rules: Any) -> None:
    built = rules(
        "http-request set-header Content-Length 99\n"
        "http-request set-header X-L %[req.hdr(content-length)]"
    )
    view, _ = built.request(b"POST / HTTP/1.1\ncontent-length: 3")
    assert view.sent().endswith(b"content-length: 3\nx-l: 99")


@pytest.mark.parametrize(
    "action",
    [
        'set-header X "a\\r\\nb"',
        "set-header X:Y v",
        "set-header X\\ Y v",
        "del-header",
        "del-header [ -m reg",
        "del-header a -m int",
        "replace-header X ( v",
        "replace-header X a v\\\\",
        "strict-mode maybe",
        "set-status 200",
    ],
)
def test_nonsense_is_refused_at_load(loaded: Any, action: str) -> None:
    found, said = loaded(f"http-request {action}")
    assert found is None
    assert "http-request" in said


def test_a_value_that_splits_its_line_is_a_failed_rewrite(rules: Any) -> None:
    action = "http-request replace-header X-U (.*) \\\\1\\\\x0d\\\\x0aevil:\\\\x201"
    view, verdict = rules(action).request(GET)
    assert isinstance(verdict, Answer)
    assert verdict.error
    assert view.fe.counters.failed_rewrites == 1
    message = verdict.reply.message(view)
    assert message is not None
    assert message.status == 500

    view, verdict = rules("http-request strict-mode off\n" + action).request(GET)
    assert verdict is None
    assert view.fe.counters.failed_rewrites == 1
    assert b"evil" not in view.sent()


TUNE = " tune.bufsize 2048\n tune.maxrewrite 128"
LONG = "x" * 60


def test_what_does_not_fit_the_buffer_is_a_failed_rewrite(rules: Any) -> None:
    """A body of 2000 bytes leaves no more than tune.maxrewrite; without one there is more room."""
    one = f"http-request set-header x-hdr1 {LONG}"
    two = f"{one}\nhttp-request set-header x-hdr2 {LONG}"
    with_body = b"GET / HTTP/1.1\nhost: x\ncontent-length: 2000"
    assert rules(one, tune=TUNE).request(with_body)[1] is None
    _, verdict = rules(two, tune=TUNE).request(with_body)
    assert isinstance(verdict, Answer)
    assert verdict.error
    assert rules(two, tune=TUNE).request(b"GET / HTTP/1.1\nhost: x")[1] is None
    again = f"{one}\nhttp-request del-header x-hdr1\nhttp-request set-header x-hdr2 {LONG}"
    assert rules(again, tune=TUNE).request(with_body)[1] is None


def test_strict_mode_is_of_one_rule_set(rules: Any) -> None:
    built = rules(
        f"http-request strict-mode off\nhttp-response set-header x-hdr1 {'y' * 2000}",
        tune=TUNE,
    )
    view, _ = built.request(b"GET / HTTP/1.1\nhost: x")
    from tests.unit.rules.actions.conftest import response_head

    view.response = response_head(b"HTTP/1.1 200 OK\ncontent-length: 0")
    verdict = view.run(built.set("http-response"))
    assert isinstance(verdict, Answer)
    assert verdict.error


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("set-status 404", b"HTTP/1.1 404 Not Found\ncontent-length: 2"),
        ('set-status 404 reason "not here"', b"HTTP/1.1 404 not here\ncontent-length: 2"),
        ("set-status 204", b"HTTP/1.1 204 No Content"),
        ("set-status 304", b"HTTP/1.1 304 Not Modified\ncontent-length: 2"),
        ("set-status 101", b"HTTP/1.1 101 Switching Protocols"),
        ("set-status 799", b"HTTP/1.1 799 Other\ncontent-length: 2"),
    ],
)
def test_status(rules: Any, action: str, expected: bytes) -> None:
    view, verdict = rules(f"http-response {action}").response(b"HTTP/1.1 200 OK\ncontent-length: 2")
    assert verdict is None
    assert view.sent() == expected
    assert view.status == view.response.status
    # a body that the new status does not have must not be taken for the next response
    assert view.response.keep_alive is (view.status not in (101, 204, 304))
    # after an interim status the client would take the next response for that of this request
    assert view.txn.close is (view.status < 200)


def test_connection_close_in_a_response_closes_the_client_too(rules: Any) -> None:
    view, _ = rules("http-response set-header Connection close").response(b"HTTP/1.1 200 OK")
    assert view.txn.close
    assert b"connection" not in view.sent()


def test_host_goes_with_an_absolute_target(rules: Any) -> None:
    view, _ = rules("http-request set-header Host new:81").request(
        b"GET http://user@old/a?b HTTP/1.1\nhost: old"
    )
    assert view.sent() == b"GET http://user@new:81/a?b HTTP/1.1\nhost: new:81"


def test_deleting_upgrade_withdraws_the_offer(rules: Any) -> None:
    request = b"GET / HTTP/1.1\nconnection: upgrade\nupgrade: foo"
    view, _ = rules("http-request del-header Upgrade").request(request)
    assert view.request.upgrade is None


def hints(view: Any, built: Any) -> list[bytes]:
    """The interim responses of a rule set, run to its end."""
    sent: list[bytes] = []

    async def send_interim(message: bytes) -> None:
        sent.append(message)

    view.send_interim = send_interim
    for rule in built.set("http-request"):
        verdict: Any = rule.act(view)
        if verdict is not None:
            run: Callable[[Any], Any] = verdict.run
            with pytest.raises(StopIteration):
                run(view).send(None)
    return sent


def test_early_hints_in_a_row_are_one_response(rules: Any) -> None:
    built = rules(
        "http-request early-hint Link a\nhttp-request early-hint Link b\n"
        "http-request early-hint Link c if TRUE"
    )
    view, _ = rules("http-request set-header A b").request(GET)
    assert hints(view, built) == [
        b"HTTP/1.1 103 Early Hints\r\nlink: a\r\nlink: b\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: c\r\n\r\n",
    ]


def test_an_old_client_gets_no_hints(rules: Any) -> None:
    built = rules("http-request early-hint Link a")
    view, _ = rules("http-request set-header A b").request(b"GET / HTTP/1.0\nhost: x")
    assert hints(view, built) == []

"""return, deny, tarpit, auth, redirects, and what stands in the place of built-in replies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mtproxy.http import replies
from mtproxy.rules.reply import Message
from mtproxy.rules.verdict import Answer
from tests.unit.rules.actions.conftest import FakeView, request_head

GET = b"GET /a/b?c=d HTTP/1.1\nhost: x"


def answer(rules: Any, head: bytes = GET) -> tuple[Answer, Message]:
    """What the rules for a request come to."""
    view, verdict = rules.request(head)
    assert isinstance(verdict, Answer)
    message = verdict.reply.message(view)
    assert message is not None
    return verdict, message


def fields(message: Message) -> list[tuple[bytes, bytes]]:
    return [(one[0], one[1]) for one in message.headers]


def test_a_bare_return_is_an_empty_200(rules: Any) -> None:
    verdict, message = answer(rules("http-request return"))
    assert (message.status, message.reason, message.body) == (200, b"OK", b"")
    assert fields(message) == [(b"content-length", b"0")]
    assert not (verdict.denied or verdict.delayed or verdict.error)


def test_return_with_everything(rules: Any) -> None:
    built = rules(
        "http-request return status 299 hdr X-A %[path] hdr X-B %[str()]"
        " content-type text/plain lf-string <%[query]>"
    )
    _, message = answer(built)
    assert (message.status, message.reason, message.body) == (299, b"Success", b"<c=d>")
    assert fields(message) == [
        (b"x-a", b"/a/b"),
        (b"content-length", b"5"),
        (b"content-type", b"text/plain"),
    ]


def test_204_does_not_speak_of_a_body(rules: Any) -> None:
    assert fields(answer(rules("http-request return status 204"))[1]) == []


@pytest.mark.parametrize(
    ("action", "status", "built_in"),
    [
        ("deny", 403, True),
        ("deny deny_status 404", 404, True),
        ("deny status 404", 404, False),
        ("deny deny_status 499 hdr a b", 499, False),
        ("tarpit", 500, True),
        ("tarpit deny_status 429", 429, True),
    ],
)
def test_denials(rules: Any, action: str, status: int, built_in: bool) -> None:
    verdict, message = answer(rules(f"http-request {action}"))
    assert verdict.denied
    assert verdict.delayed is action.startswith("tarpit")
    assert message.status == message.logged == status
    assert message.body == (replies.BODIES[status] if built_in else b"")


@pytest.mark.parametrize(
    ("action", "part"),
    [
        ("return status 199", "199"),
        ("return string x", "content type"),
        ("return content-type a/b lf-string", "lf-string"),
        ("return status 204 content-type a/b string x", "No body expected for 204"),
        ("return status 304 content-type a/b lf-string x", "No body expected for 304"),
        ("return status 402 default-errorfiles", "402"),
        ("return errorfile /nowhere", "/nowhere"),
        ("return file /nowhere content-type a/b", "/nowhere"),
        ("return errorfiles nowhere", "nowhere"),
        ("return content-type a/b string a string b", "already defined"),
        ("return contnet-type a/b", "content-type"),
        ("deny deny_status 402", "402"),
        ("return hdr a", "log-format string"),
        ("redirect", "redirection type expected"),
        ("redirect location /a code 304", "304"),
        ("redirect location", "location"),
        ("redirect locaton /a", "location"),
    ],
)
def test_nonsense_is_refused_at_load(loaded: Any, action: str, part: str) -> None:
    found, said = loaded(f"http-request {action}")
    assert found is None
    assert part in said


@pytest.mark.parametrize(
    ("action", "part"),
    [
        ("return content-type a/b", "content-type 'a/b' ignored"),
        ("return hdr Content-Length 3", "always ignored"),
        ("return default-errorfiles hdr a b", "hdr parameters ignored"),
    ],
)
def test_what_has_no_effect_is_warned_about(loaded: Any, action: str, part: str) -> None:
    found, said = loaded(f"http-request {action}")
    assert found is not None
    assert part in said


def test_a_reply_that_does_not_fit_cannot_be_made(rules: Any) -> None:
    built = rules("http-request return hdr A %[path]", tune=" tune.bufsize 2048")
    view, verdict = built.request(b"GET /" + b"a" * 1990 + b" HTTP/1.1")
    assert isinstance(verdict, Answer)
    assert verdict.reply.message(view) is None  # type: ignore[arg-type]


def test_auth(rules: Any) -> None:
    _, message = answer(rules("http-request auth realm here"))
    assert message.status == 401
    assert fields(message)[-1] == (b"www-authenticate", b'Basic realm="here"')
    assert answer(rules("http-request auth"))[1].headers[-1][1] == b'Basic realm="f"'


# --- error files


def test_later_lines_win_and_sections_are_looked_up_at_the_end(rules: Any, tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_bytes(b"HTTP/1.0 418 Tea\nX-A: b\nContent-Length: 2\nConnection: close\n\nhi")
    built = rules(
        "errorloc303 403 /sorry\nerrorfiles errs 403\nhttp-error status 404 content-type a/b"
        " lf-string %[path]\nhttp-error status 500 default-errorfiles\nhttp-request deny",
        before=f"http-errors errs\n errorfile 403 {page}\ndefaults\n errorloc 500 /x",
    )
    _, message = answer(built)
    assert (message.status, message.logged, message.version) == (418, 403, 10)
    assert message.body == b"hi"
    assert message.close
    assert (b"x-a", b"b") in fields(message)
    assert sorted(built.errors) == [403, 404]


def test_unknown_sections_and_statuses(loaded: Any, tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_bytes(b"")
    before = f"http-errors errs\n errorfile 403 {page}"
    found, said = loaded("errorfiles ers", before)
    assert found is None
    assert "unknown http-errors section 'ers'" in said
    found, said = loaded("errorfiles errs 404", before)
    assert found is not None
    assert "'404' not declared in http-errors section 'errs'" in said
    found, said = loaded(f"errorfile 402 {page}")
    assert found is None
    assert "'402' not handled" in said


def test_an_empty_file_ends_the_connection_without_a_word(rules: Any, tmp_path: Path) -> None:
    (tmp_path / "page").write_bytes(b"")
    built = rules(f"errorfile 403 {tmp_path}/page\nhttp-request deny")
    assert answer(built)[1].silent


def test_the_backend_is_asked_before_the_frontend(rules: Any) -> None:
    front = rules("errorloc 403 /front\nerrorloc 404 /front\nhttp-request deny")
    back = rules("errorloc 403 /back")
    view, verdict = front.request(GET)
    assert isinstance(verdict, Answer)
    view.be = FakeView(back.errors).fe
    message = verdict.reply.message(view)
    assert (b"location", b"/back") in fields(message)


# --- redirects


@pytest.mark.parametrize(
    ("arguments", "location"),
    [
        ("location /x%[path]", b"/x/a/b"),
        ("prefix https://h", b"https://h/a/b?c=d"),
        ("prefix / drop-query append-slash", b"/a/b/"),
        ("scheme https", b"https://x/a/b?c=d"),
        ("scheme https drop-query append-slash", b"https://x/a/b/"),
        ("location %[str()]", b""),
    ],
)
def test_locations(rules: Any, arguments: str, location: bytes) -> None:
    _, message = answer(rules(f"http-request redirect {arguments}"))
    assert fields(message) == [
        (b"content-length", b"0"),
        (b"location", location),
        (b"cache-control", b"no-cache"),
    ]
    assert (message.status, message.reason) == (302, b"Found")
    assert not message.close


def test_codes_and_cookies(rules: Any) -> None:
    built = rules("http-request redirect location / code 301 set-cookie A=b")
    assert fields(answer(built)[1])[2:] == [(b"set-cookie", b"A=b; path=/;")]
    built = rules("http-request redirect location / code 308 clear-cookie A=")
    assert fields(answer(built)[1])[2:] == [(b"set-cookie", b"A=; path=/; Max-Age=0;")]


def test_nothing_to_redirect_to(rules: Any) -> None:
    _view, verdict = rules("http-request redirect location %[str()] ignore-empty").request(GET)
    assert verdict is None


def test_a_body_that_is_not_read_ends_the_connection(rules: Any) -> None:
    built = rules("http-request redirect location /")
    assert answer(built, b"POST / HTTP/1.1\ncontent-length: 1")[1].close
    assert not answer(built, b"POST / HTTP/1.1\ncontent-length: 0")[1].close


def test_the_keyword_is_a_plain_text_in_a_set_of_its_own(rules: Any) -> None:
    built = rules("http-request allow\nredirect location /%[path]")
    view = FakeView({})
    view.request = request_head(GET)
    verdict = view.run(built.set("redirect"))
    assert isinstance(verdict, Answer)
    message = verdict.reply.message(view)  # type: ignore[arg-type]
    assert message is not None
    assert (b"location", b"/%[path]") in fields(message)

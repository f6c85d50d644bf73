"""Answers made here: return, deny, tarpit, auth (manual 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mtproxy.base.ruleset import ReplyKind, ReplySpec
from mtproxy.http import replies
from mtproxy.http.edit import fits_a_line
from mtproxy.http.headers import make_header
from mtproxy.rules.reply import ErrorReply, Message, Reply, build_reply
from mtproxy.rules.replyspec import WORDS, parse_reply
from mtproxy.rules.tables import Action
from mtproxy.rules.verdict import Answer

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act
    from mtproxy.rules.verdict import Verdict
    from mtproxy.rules.view import View

_REQUEST: Final = frozenset({"http-request"})
_BOTH: Final = frozenset({"http-request", "http-response"})


def _end(reader: RuleReader) -> None:
    """Only a condition may follow a reply; suggests one of its arguments otherwise."""
    if not reader.at_condition():
        raise reader.unknown(reader.peek(), (*WORDS, "if", "unless"))


# --- return


def _parse_return(reader: RuleReader) -> ReplySpec:
    spec = parse_reply(reader, 200)
    _end(reader)
    return spec


def _build_return(spec: ReplySpec, build: Build) -> Act:
    answer = Answer(build_reply(spec, build))
    return lambda _view: answer


# --- deny, tarpit


def _parse_denial(reader: RuleReader, default: int) -> ReplySpec:
    """Without arguments, or with a status alone, the answer is what the proxies have for it."""
    if reader.at_condition():
        return ReplySpec(default, ReplyKind.DEFAULT)
    status = default
    if reader.peek() == "deny_status":
        reader.next()
        word = reader.peek()
        status = reader.integer(200, 599)
        if reader.at_condition():
            if status not in replies.STATUSES:
                raise reader.error(f"status code '{status}' not handled by default", word)
            return ReplySpec(status, ReplyKind.DEFAULT)
    spec = parse_reply(reader, status)
    _end(reader)
    return spec


def _parse_deny(reader: RuleReader) -> ReplySpec:
    return _parse_denial(reader, 403 if reader.point.name == "http-request" else 502)


def _build_deny(spec: ReplySpec, build: Build) -> Act:
    answer = Answer(build_reply(spec, build), denied=True)
    return lambda _view: answer


def _parse_tarpit(reader: RuleReader) -> ReplySpec:
    return _parse_denial(reader, 500)


def _build_tarpit(spec: ReplySpec, build: Build) -> Act:
    answer = Answer(build_reply(spec, build), denied=True, delayed=True)
    return lambda _view: answer


# --- auth


class _Challenge(Reply):
    """401, or 407 where the client takes us for its proxy (`option http-use-proxy-header`)."""

    __slots__ = ("error", "name", "value")
    blames = True

    def __init__(self, status: int, realm: bytes) -> None:
        self.error = ErrorReply(status)
        self.name = b"www-authenticate" if status == 401 else b"proxy-authenticate"
        self.value = b'Basic realm="%b"' % realm

    def message(self, view: View) -> Message | None:
        message = self.error.message(view)
        if message is not None:
            headers = [one for one in message.headers if one[0] != self.name]
            headers.append(make_header(self.name, self.value))
            message.headers = headers
        return message


def _parse_auth(reader: RuleReader) -> bytes | None:
    if reader.peek() != "realm":
        return None
    reader.next()
    word = reader.value("a realm")
    realm = word.encode("utf-8", "surrogateescape")
    if not fits_a_line(realm):
        raise reader.error("a header cannot hold a line end or a NUL", word)
    return realm


def _build_auth(realm: bytes | None, build: Build) -> Act:
    if realm is None:
        realm = build.proxy.name.encode()
    direct = Answer(_Challenge(401, realm))
    proxied = Answer(_Challenge(407, realm))

    def act(view: View) -> Verdict:
        return proxied if as_proxy(view) else direct

    return act


def as_proxy(view: View) -> bool:
    """Whether the client speaks to us as to its proxy (`option http-use-proxy-header`)."""
    request = view.request
    return (
        request is not None
        and "http-use-proxy-header" in view.fe.settings.options
        and request.target[:1] not in (b"/", b"*")
    )


ACTIONS: tuple[Action, ...] = (
    Action("return", _BOTH, _parse_return, _build_return, final=True),
    Action("deny", _BOTH, _parse_deny, _build_deny, final=True),
    Action("tarpit", _REQUEST, _parse_tarpit, _build_tarpit, final=True),
    Action("auth", _REQUEST, _parse_auth, _build_auth, final=True),
)

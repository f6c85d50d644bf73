"""Redirects: `http-request redirect`, `http-response redirect`, and the keyword `redirect`, whose
rules form a set of their own behind http-request (manual 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mtproxy.base.ruleset import Format, Rule
from mtproxy.http.edit import fits_a_line, size
from mtproxy.http.headers import Header, make_header
from mtproxy.http.uri import split_target
from mtproxy.rules.reply import Message, Reply
from mtproxy.rules.replyspec import DEFAULT_BUFSIZE
from mtproxy.rules.tables import Action
from mtproxy.rules.verdict import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act
    from mtproxy.rules.verdict import Verdict
    from mtproxy.rules.view import View

_REASONS: Final = {
    301: b"Moved Permanently",
    302: b"Found",
    303: b"See Other",
    307: b"Temporary Redirect",
    308: b"Permanent Redirect",
}
#: redirects that no cache may keep
_UNCACHED: Final = frozenset({302, 303, 307})
_KINDS: Final = ("location", "prefix", "scheme")
_WITH_VALUE: Final = (*_KINDS, "set-cookie", "clear-cookie", "code")
_FLAGS: Final = ("drop-query", "append-slash", "ignore-empty")
_CONTENT_LENGTH: Final = make_header(b"content-length", b"0")
_NO_CACHE: Final = make_header(b"cache-control", b"no-cache")


@dataclass(frozen=True, slots=True)
class Redirect:
    """`kind`: location, prefix or scheme. `target` is None for a prefix that adds nothing."""

    kind: str
    target: Format | None
    code: int = 302
    flags: frozenset[str] = frozenset()
    cookie: bytes | None = None


# --- reading


def _parse(reader: RuleReader) -> Redirect:
    return parse_redirect(reader, formats=True)


def parse_redirect(reader: RuleReader, *, formats: bool) -> Redirect:
    """The arguments of a redirect. `formats`: its target is a log format, else a plain text."""
    kind = target = ""
    code = 302
    flags: set[str] = set()
    cookie: bytes | None = None
    while not reader.at_condition():
        word = reader.next()
        if word in _FLAGS:
            flags.add(word)
            continue
        if word not in _WITH_VALUE:
            raise reader.unknown(word, (*_WITH_VALUE, *_FLAGS))
        value = reader.value(f"a value for '{word}'")
        if word in _KINDS:
            kind, target = word, value
        elif word == "code":
            if value not in map(str, _REASONS):
                raise reader.error(
                    f"'code': unsupported HTTP code '{value}'"
                    " (must be one of 301, 302, 303, 307 or 308)",
                    value,
                )
            code = int(value)
        else:
            cookie = value.encode("utf-8", "surrogateescape")
            if not fits_a_line(cookie):
                raise reader.error("a header cannot hold a line end or a NUL", value)
            cookie += b"; path=/;" if word == "set-cookie" else b"; path=/; Max-Age=0;"
    if not kind:
        raise reader.error("redirection type expected ('prefix', 'location', or 'scheme')")
    if reader.point.name == "http-response" and kind != "location":
        raise reader.error("response only supports redirect type 'location'", kind)
    return Redirect(kind, _target(reader, kind, target, formats), code, frozenset(flags), cookie)


def _target(reader: RuleReader, kind: str, text: str, formats: bool) -> Format | None:
    if kind == "prefix" and text == "/":
        # a way to redirect to the same place with another query or cookie
        return None
    if formats:
        fmt = reader.format(text)
    else:
        fmt = Format(text, (), text.encode("utf-8", "surrogateescape"))
    if fmt.constant is not None and not fits_a_line(fmt.constant):
        raise reader.error("a header cannot hold a line end or a NUL", text)
    return fmt


def parse_keyword(reader: RuleReader) -> Rule:
    """A whole statement `redirect ...`, behind its first word."""
    start = reader.position
    args = parse_redirect(reader, formats=False)
    words = reader.words[start : reader.position]
    condition = reader.condition()
    reader.end()
    return Rule("redirect", args, condition, reader.location, words)


# --- running


class _Redirection(Reply):
    """The response to one stream's request."""

    __slots__ = ("code", "cookie", "location", "reason", "room")

    def __init__(self, args: Redirect, location: Callable[[View], bytes], bufsize: int) -> None:
        self.code = args.code
        self.reason = _REASONS[args.code]
        self.location = location
        self.room = bufsize
        self.cookie: Header | None = None
        if args.cookie is not None:
            self.cookie = make_header(b"set-cookie", args.cookie)

    def message(self, view: View) -> Message | None:
        location = self.location(view)
        if not fits_a_line(location):
            return None
        headers = [_CONTENT_LENGTH, make_header(b"location", location)]
        if self.code in _UNCACHED:
            headers.append(_NO_CACHE)
        if self.cookie is not None:
            headers.append(self.cookie)
        if size(headers) > self.room:
            return None
        message = Message(self.code, self.reason, headers, b"")
        request = view.request
        if request is not None and view.response is None:
            # the body of the request is not read to its end
            message.close = request.chunked or request.content_length > 0
        return message


def _build(args: Redirect, build: Build) -> Act:
    tune = build.shared.settings.global_.tune
    # as much as a buffer holds beside a status line
    bufsize = int(tune.get("tune.bufsize", DEFAULT_BUFSIZE)) - 128
    text: Callable[[View], bytes] = _nothing
    if args.target is not None:
        text = build.format(args.target)
    answer = Answer(_Redirection(args, _location(args, text), bufsize))
    if args.kind != "location" or "ignore-empty" not in args.flags:
        return lambda _view: answer

    def unless_empty(view: View) -> Verdict | None:
        return answer if text(view) else None

    return unless_empty


def _nothing(_view: View) -> bytes:
    return b""


def _location(args: Redirect, text: Callable[[View], bytes]) -> Callable[[View], bytes]:
    if args.kind == "location":
        return text
    drop_query = "drop-query" in args.flags
    append_slash = "append-slash" in args.flags
    with_scheme = args.kind == "scheme"

    def location(view: View) -> bytes:
        request: Any = view.request
        path = split_target(request.target)[1]
        if path is None:
            path = b"/"
        elif drop_query:
            path = path.partition(b"?")[0]
        out = text(view)
        if with_scheme:
            host = next((one[1] for one in request.headers if one[0] == b"host"), b"")
            out += b"://" + host.partition(b",")[0].rstrip(b" \t")
        out += path
        if append_slash and not out.endswith(b"/"):
            out += b"/"
        return out

    return location


ACTIONS: tuple[Action, ...] = (
    Action("redirect", frozenset({"http-request", "http-response"}), _parse, _build),
)

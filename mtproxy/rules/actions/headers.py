"""Changes of heads: set-header, add-header, del-header, replace-header, replace-value, set-status,
strict-mode, early-hint (manual 4.2).

All but the last two work on requests and responses alike. Names are lower-cased, as HAProxy writes
them. What a rule cannot do is counted and answered with 500, see `rules.rewrite`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mtproxy.base.ruleset import Format, Rule
from mtproxy.http.edit import (
    FRAMING,
    fits_a_line,
    is_name,
    note_upgrade,
    parts,
    remains,
    remove,
    rule_header,
)
from mtproxy.http.headers import CONNECTION_CLOSE, KINDS, Header, connection_flags
from mtproxy.http.status import reason_phrase
from mtproxy.http.uri import with_authority
from mtproxy.rules import regex
from mtproxy.rules.rewrite import Rewriter
from mtproxy.rules.tables import Action
from mtproxy.rules.verdict import Wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.http.h1_request import RequestHead
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act
    from mtproxy.rules.verdict import Verdict
    from mtproxy.rules.view import View

_REQUEST: Final = frozenset({"http-request"})
_RESPONSES: Final = frozenset({"http-response", "http-after-response"})
_HTTP: Final = _REQUEST | _RESPONSES

#: HAProxy's length of a field name has 8 bits
_NAME_MAX: Final = 255
#: ways to compare a field name (manual 4.2, "http-request del-header")
_MATCHES: Final = ("str", "beg", "end", "sub", "reg")


def header_name(reader: RuleReader) -> bytes:
    """The next word, which has to be a field name; lower-cased."""
    word = reader.value("a header name")
    name = word.lower().encode("utf-8", "surrogateescape")
    if not is_name(name) or len(name) > _NAME_MAX:
        raise reader.error(f"'{word}' cannot be the name of a header", word)
    return name


def header_value(reader: RuleReader) -> Format:
    """The next word, a log-format string that gives the value of a header."""
    word = reader.value("a log-format string")
    fmt = reader.format(word)
    if fmt.constant is not None and not fits_a_line(fmt.constant):
        raise reader.error("a header cannot hold a line end or a NUL", word)
    return fmt


# --- what hangs on single headers


def _after(name: bytes, request: bool) -> Callable[[View, Any], None] | None:
    """What else has to follow a change of this header; None for nearly all of them."""
    if request:
        if name == b"host":
            return _host_changed
        if name in (b"connection", b"upgrade"):
            return lambda _view, head: note_upgrade(head)
    elif name == b"connection":
        return _connection_changed
    return None


def _host_changed(_view: View, head: RequestHead) -> None:
    """The authority of a target goes with Host (RFC 9112 section 3.2.2), as in HAProxy."""
    hosts = [one[1] for one in head.headers if one[0] == b"host"]
    head.host = hosts[-1] if hosts else None
    if hosts and head.target[:1] != b"/":
        head.target = with_authority(head.method, head.target, hosts[-1])


def _connection_changed(view: View, head: Any) -> None:
    for name, value, _, _ in head.headers:
        if name == b"connection" and connection_flags(value) & CONNECTION_CLOSE:
            view.txn.close = True


# --- set-header, add-header


@dataclass(frozen=True, slots=True)
class _Field:
    point: str
    name: bytes
    value: Format


def _parse_field(reader: RuleReader) -> _Field:
    return _Field(reader.point.name, header_name(reader), header_value(reader))


def _build_set(args: _Field, build: Build) -> Act:
    return _build_field(args, build, replacing=True)


def _build_add(args: _Field, build: Build) -> Act:
    return _build_field(args, build, replacing=False)


def _build_field(args: _Field, build: Build, *, replacing: bool) -> Act:
    name = bytes(bytearray(args.name))  # the thread's own
    rewriter = Rewriter(build, args.point)
    request = rewriter.request
    text = build.format(args.value)
    after = _after(name, request)
    plain = name not in KINDS
    overhead = 8 + len(name)
    slack = rewriter.slack
    ready: Header | None = None
    if args.value.constant is not None:
        ready = rule_header(name, args.value.constant, request=request)

    # the most frequent of all actions: what is usual is written out
    def act(view: View) -> Verdict | None:
        txn = view.txn
        if request:
            head: Any = view.request if txn.own_req else txn.own_request(view)
        else:
            head = view.response if txn.own_res else txn.own_response(view)
        header = ready
        if header is not None:
            value = header[1]
        else:
            value = text(view)
            if not fits_a_line(value):
                if replacing:
                    _remove(head, name)
                return rewriter.failed(view)
            if plain:
                header = (name, value.strip(b" \t"), b"%b: %b\r\n" % (name, value), 0)
            else:
                header = rule_header(name, value, request=request)
        if replacing:
            for one in head.headers:
                if one[0] == name:
                    _remove(head, name)
                    break
        if request:
            added = txn.req_added + overhead + len(value)
            if added <= slack:
                txn.req_added = added
            elif not rewriter.spend(view, overhead + len(value)):
                return rewriter.failed(view)
        else:
            added = txn.res_added + overhead + len(value)
            if added <= slack:
                txn.res_added = added
            elif not rewriter.spend(view, overhead + len(value)):
                return rewriter.failed(view)
        head.headers.append(header)
        if after is not None:
            after(view, head)
        return None

    return act


def _fixed_field(args: _Field) -> bool:
    return args.value.constant is not None and args.name not in KINDS


def _fixed_deletion(args: _Deletion) -> bool:
    return args.match == "str" and args.name not in KINDS


def _remove(head: Any, name: bytes) -> bool:
    """Delete all fields of a name from a head of one's own; whether there was any."""
    headers: list[Header] = head.headers
    kept = [one for one in headers if one[0] != name]
    if len(kept) == len(headers):
        return False
    head.headers = remove(headers, name) if name in FRAMING else kept
    return True


# --- del-header


@dataclass(frozen=True, slots=True)
class _Deletion:
    point: str
    name: bytes
    match: str = "str"


def _parse_del(reader: RuleReader) -> _Deletion:
    word = reader.value("a header name")
    name = word.encode("utf-8", "surrogateescape")
    match = "str"
    if reader.peek() == "-m":
        reader.next()
        match = reader.choice(_MATCHES, "a match method:")
    if match == "reg":
        check_regex(reader, word)
    else:
        name = name.lower()
    return _Deletion(reader.point.name, name, match)


def check_regex(reader: RuleReader, pattern: str) -> None:
    """Refuse what is no regular expression. Raises ConfigError."""
    try:
        regex.compile(pattern)
    except regex.RegexError as error:
        raise reader.error(f"bad regular expression '{pattern}' : {error}", pattern) from None


def _build_del(args: _Deletion, build: Build) -> Act:
    name = args.name
    rewriter = Rewriter(build, args.point)
    request = rewriter.request
    own = rewriter.head
    matches: Callable[[bytes], bool]
    match args.match:
        case "beg":
            matches = lambda one: one.startswith(name)  # noqa: E731
        case "end":
            matches = lambda one: one.endswith(name)  # noqa: E731
        case "sub":
            matches = lambda one: name in one  # noqa: E731
        case "reg":
            matches = regex.compile(name).search
        case _:
            after = _after(name, request)

            def delete(view: View) -> None:
                source = view.request if request else view.response
                assert source is not None
                for one in source.headers:
                    if one[0] == name:
                        break
                else:
                    return
                head = own(view)
                _remove(head, name)
                if after is not None:
                    after(view, head)

            return delete

    def delete_matching(view: View) -> None:
        head = own(view)
        kept: list[Header] = []
        gone: list[Header] = []
        for one in head.headers:
            (gone if one[0] and matches(one[0]) else kept).append(one)
        if not gone:
            return
        kept += [rest for one in gone if (rest := remains(one))]
        head.headers = kept
        for one in gone:
            after = _after(one[0], request)
            if after is not None:
                after(view, head)

    return delete_matching


# --- replace-header, replace-value


@dataclass(frozen=True, slots=True)
class _Replacement:
    point: str
    name: bytes
    pattern: str
    template: Format


def _parse_replace(reader: RuleReader) -> _Replacement:
    name = header_name(reader)
    pattern = reader.value("a regular expression")
    check_regex(reader, pattern)
    return _Replacement(reader.point.name, name, pattern, template(reader))


def template(reader: RuleReader) -> Format:
    """The next word, a log-format string that gives a replacement with references to groups."""
    word = reader.value("a replacement")
    fmt = reader.format(word)
    if fmt.constant is not None and (wrong := regex.template_error(fmt.constant)) is not None:
        raise reader.error(wrong, word)
    return fmt


def _build_replace_header(args: _Replacement, build: Build) -> Act:
    pattern = regex.compile(args.pattern)

    def whole(value: bytes, text: bytes) -> bytes | None:
        groups = pattern.groups(value)
        return None if groups is None else regex.expand(text, value, groups)

    return _build_replace(args, build, whole)


def _build_replace_value(args: _Replacement, build: Build) -> Act:
    pattern = regex.compile(args.pattern)

    def by_part(value: bytes, text: bytes) -> bytes | None:
        """What surrounds a part that is replaced goes with it, as in HAProxy."""
        out: list[bytes] = []
        changed = False
        for start, end in parts(value):
            part = value[start:end]
            bare = part.strip(b" \t")
            groups = pattern.groups(bare)
            if groups is not None:
                changed = True
                part = regex.expand(text, bare, groups)
            out.append(part)
        return b",".join(out) if changed else None

    return _build_replace(args, build, by_part)


def _build_replace(
    args: _Replacement, build: Build, change: Callable[[bytes, bytes], bytes | None]
) -> Act:
    """`change` gives the new value from the old one and the template; None: it stays."""
    name = args.name
    rewriter = Rewriter(build, args.point)
    request = rewriter.request
    own = rewriter.head
    text = build.format(args.template)
    after = _after(name, request)

    def act(view: View) -> Verdict | None:
        source = view.request if request else view.response
        assert source is not None
        for one in source.headers:
            if one[0] == name:
                break
        else:
            return None
        replacement = text(view)
        if regex.template_error(replacement) is not None:
            return rewriter.failed(view)
        head = own(view)
        headers = head.headers
        for at, one in enumerate(headers):
            if one[0] != name:
                continue
            value = change(one[1], replacement)
            if value is None:
                continue
            growth = len(value) - len(one[1])
            if not fits_a_line(value) or not rewriter.spend(view, growth):
                return rewriter.failed(view)
            if name in FRAMING and (rest := remains(one)) is not None:
                headers.append(rest)
            headers[at] = rule_header(name, value, request=request)
        if after is not None:
            after(view, head)
        return None

    return act


# --- set-status


@dataclass(frozen=True, slots=True)
class _Status:
    point: str
    status: int
    reason: bytes


def _parse_status(reader: RuleReader) -> _Status:
    status = reader.integer(100, 999)
    reason = reason_phrase(status)
    if reader.peek() == "reason":
        reader.next()
        word = reader.value("a reason")
        reason = word.encode("utf-8", "surrogateescape")
        if not fits_a_line(reason):
            raise reader.error("a reason cannot hold a line end or a NUL", word)
    return _Status(reader.point.name, status, reason)


def _build_status(args: _Status, build: Build) -> Act:
    rewriter = Rewriter(build, args.point)
    status, reason = args.status, args.reason

    def act(view: View) -> Verdict | None:
        response = view.response
        assert response is not None
        if not rewriter.spend(view, len(reason) - len(response.reason)):
            return rewriter.failed(view)
        txn = view.txn
        head = txn.own_response(view)
        if txn.served_status is None:
            txn.served_status = head.status
        head.status = status
        head.reason = reason
        view.status = status
        request = view.request
        if request is not None and (mode := head.body_mode(request.method)) != head.body:
            # what the server sends behind its head is not what this status has
            head.body = mode
            head.usual = head.keep_alive = False
        if status < 200:
            # nobody waits for more after it, or what comes next would be taken for its response
            txn.close = True
        if status < 200 or status == 204:
            # RFC 9110 section 8.6: such a response does not speak of a body
            head.headers = [
                (one[0], one[1], b"", one[3]) if one[0] in FRAMING else one for one in head.headers
            ]
        return None

    return act


# --- strict-mode


def _parse_strict(reader: RuleReader) -> tuple[str, bool]:
    word = reader.value("'on' or 'off'")
    if word.lower() not in ("on", "off"):
        raise reader.unknown(word, ("on", "off"))
    return reader.point.name, word.lower() == "on"


def _build_strict(args: tuple[str, bool], build: Build) -> Act:
    point, strict = args
    soft = None if strict else (build, point)

    def act(view: View) -> None:
        view.txn.soft = soft

    return act


# --- early-hint


@dataclass(frozen=True, slots=True)
class _Hint:
    """`more`: the rule behind it goes on with the same 103."""

    field: _Field
    section: tuple[str, str]
    more: bool = False


def _parse_hint(reader: RuleReader) -> _Hint:
    hint = _Hint(_parse_field(reader), (reader.kind, reader.proxy))
    if not reader.more():
        _go_on(reader, hint)
    return hint


def _go_on(reader: RuleReader, hint: _Hint) -> None:
    """An early-hint rule without a condition belongs to the response of the one before it."""
    rules: Any = getattr(reader.draft, "rules", None)
    before: list[Rule] = rules.sets.get("http-request", []) if rules is not None else []
    last = before[-1] if before else None
    if (
        last is not None
        and last.action == "early-hint"
        and isinstance(last.args, _Hint)
        and last.args.section == hint.section
    ):
        before[-1] = replace(last, args=replace(last.args, more=True))


_HINTS: Final = b"HTTP/1.1 103 Early Hints\r\n"


def _build_hint(args: _Hint, build: Build) -> Act:
    name = args.field.name
    text = build.format(args.field.value)
    rewriter = Rewriter(build, args.field.point)
    more = args.more

    def act(view: View) -> Verdict | None:
        request = view.request
        if request is None or request.version < 11:
            return None
        value = text(view)
        txn = view.txn
        if not fits_a_line(value):
            txn.hints = b""
            return rewriter.internal(view)
        hints = (txn.hints or _HINTS) + name + b": " + value + b"\r\n"
        if more:
            txn.hints = hints
            return None
        txn.hints = b""
        message = hints + b"\r\n"

        async def send(view: View) -> None:
            await view.send_interim(message)

        return Wait(send)

    return act


ACTIONS: tuple[Action, ...] = (
    Action("set-header", _HTTP, _parse_field, _build_set, fixed=_fixed_field),
    Action("add-header", _HTTP, _parse_field, _build_add, fixed=_fixed_field),
    Action("del-header", _HTTP, _parse_del, _build_del, fixed=_fixed_deletion),
    Action("replace-header", _HTTP, _parse_replace, _build_replace_header),
    Action("replace-value", _HTTP, _parse_replace, _build_replace_value),
    Action("set-status", _RESPONSES, _parse_status, _build_status),
    Action("strict-mode", _HTTP, _parse_strict, _build_strict),
    Action("early-hint", _REQUEST, _parse_hint, _build_hint),
)

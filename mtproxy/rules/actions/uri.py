"""Changes of the request line: set-method, set-path, set-pathq, set-query, set-uri, replace-path,
replace-pathq, replace-uri, normalize-uri (manual 4.2, "http-request").

A result that could not stand in a request line (empty, with a space or a control character) is a
failed rewrite (see `rules.rewrite`), as is a change from or to CONNECT, whose messages are framed
by rules of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mtproxy.base.ruleset import Format
from mtproxy.http import normalize
from mtproxy.http.headers import is_token, make_header
from mtproxy.http.uri import authority_of, split_target
from mtproxy.rules import regex
from mtproxy.rules.actions.headers import check_regex, template
from mtproxy.rules.rewrite import INVALID, Rewriter
from mtproxy.rules.tables import Action

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.http.h1_request import RequestHead
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act
    from mtproxy.rules.verdict import Verdict
    from mtproxy.rules.view import View

_SETS: Final = frozenset({"http-request"})
_search_unfit = re.compile(rb"[\x00-\x20\x7f]").search

#: makes the new target from the old one and the new part
type _Part = Callable[[bytes, bytes], bytes]


# --- parts of a target


def _with_path(target: bytes, path: bytes) -> bytes:
    before, old = split_target(target)
    if old is None:
        # HAProxy puts a path in the place of a target that has none, up to its query
        return path + b"".join(target.partition(b"?")[1:])
    return before + path + b"".join(old.partition(b"?")[1:])


def _with_pathq(target: bytes, pathq: bytes) -> bytes:
    before, old = split_target(target)
    return pathq if old is None else before + pathq


def _with_query(target: bytes, query: bytes) -> bytes:
    path, mark, _ = target.partition(b"?")
    return path + b"?" + query if mark or query else path


def _with_uri(_target: bytes, uri: bytes) -> bytes:
    return uri


def _path_of(target: bytes) -> bytes | None:
    path = split_target(target)[1]
    return None if path is None else path.partition(b"?")[0]


def _pathq_of(target: bytes) -> bytes | None:
    return split_target(target)[1]


def _uri_of(target: bytes) -> bytes:
    return target


def _change(
    rewriter: Rewriter, view: View, target: bytes, *, whole: bool = False
) -> Verdict | None:
    """Put a new target into the request. `whole`: it is a URI, whose authority Host follows."""
    request = view.request
    assert request is not None
    if not target or _search_unfit(target) is not None:
        return rewriter.failed(view)
    if not rewriter.spend(view, len(target) - len(request.target)):
        return rewriter.failed(view)
    head = view.txn.own_request(view)
    head.target = target
    if whole:
        _host_follows(head)
    return None


def _host_follows(head: RequestHead) -> None:
    host = authority_of(head.method, head.target)
    if not host:
        return
    head.host = host
    named = make_header(b"host", host)
    head.headers = [named if one[0] == b"host" else one for one in head.headers]


# --- set-method


def _parse_format(reader: RuleReader) -> Format:
    return reader.format()


def _build_method(fmt: Format, build: Build) -> Act:
    rewriter = Rewriter(build, "http-request")
    text = build.format(fmt)

    def act(view: View) -> Verdict | None:
        request = view.request
        assert request is not None
        method = text(view)
        if method == request.method:
            return None
        if not is_token(method) or b"CONNECT" in (method, request.method):
            return rewriter.failed(view)
        if not rewriter.spend(view, len(method) - len(request.method)):
            return rewriter.failed(view)
        txn = view.txn
        if txn.first_method is None:
            txn.first_method = request.method
        head = txn.own_request(view)
        head.method = method
        head.usual = False
        return None

    return act


# --- set-*, replace-*


def _setter(part: _Part, *, whole: bool = False) -> Callable[[Format, Build], Act]:
    def build_set(fmt: Format, build: Build) -> Act:
        rewriter = Rewriter(build, "http-request")
        text = build.format(fmt)

        def act(view: View) -> Verdict | None:
            request = view.request
            assert request is not None
            return _change(rewriter, view, part(request.target, text(view)), whole=whole)

        return act

    return build_set


@dataclass(frozen=True, slots=True)
class _Replacement:
    pattern: str
    template: Format


def _parse_replace(reader: RuleReader) -> _Replacement:
    pattern = reader.value("a regular expression")
    check_regex(reader, pattern)
    return _Replacement(pattern, template(reader))


def _replacer(
    of: Callable[[bytes], bytes | None], part: _Part, *, whole: bool = False
) -> Callable[[_Replacement, Build], Act]:
    def build_replace(args: _Replacement, build: Build) -> Act:
        rewriter = Rewriter(build, "http-request")
        groups_of = regex.compile(args.pattern).groups
        text = build.format(args.template)

        def act(view: View) -> Verdict | None:
            request = view.request
            assert request is not None
            old = of(request.target)
            groups = groups_of(old) if old else None
            if old is None or groups is None:
                return None
            replacement = text(view)
            if regex.template_error(replacement) is not None:
                return rewriter.failed(view)
            new = regex.expand(replacement, old, groups)
            return _change(rewriter, view, part(request.target, new), whole=whole)

        return act

    return build_replace


# --- normalize-uri


@dataclass(frozen=True, slots=True)
class _Normalizer:
    """`with_query`: works on path and query; else on the path alone."""

    run: Callable[[bytes], bytes | None]
    with_query: bool = False


def _sorted_query(pathq: bytes) -> bytes:
    path, mark, query = pathq.partition(b"?")
    return path + mark + normalize.sort_query(query)


_NORMALIZERS: Final[dict[str, _Normalizer]] = {
    "fragment-encode": _Normalizer(normalize.encode_fragment, True),
    "fragment-strip": _Normalizer(normalize.strip_fragment, True),
    "path-merge-slashes": _Normalizer(normalize.merge_slashes),
    "path-strip-dot": _Normalizer(normalize.strip_dot),
    "path-strip-dotdot": _Normalizer(lambda path: normalize.strip_dotdot(path, full=False)),
    "path-strip-dotdot full": _Normalizer(lambda path: normalize.strip_dotdot(path, full=True)),
    "percent-decode-unreserved": _Normalizer(
        lambda target: normalize.decode_unreserved(target, strict=False), True
    ),
    "percent-decode-unreserved strict": _Normalizer(
        lambda target: normalize.decode_unreserved(target, strict=True), True
    ),
    "percent-to-uppercase": _Normalizer(
        lambda target: normalize.encoded_to_upper(target, strict=False), True
    ),
    "percent-to-uppercase strict": _Normalizer(
        lambda target: normalize.encoded_to_upper(target, strict=True), True
    ),
    "query-sort-by-name": _Normalizer(_sorted_query, True),
}
_OPTIONS: Final = {
    "path-strip-dotdot": "full",
    "percent-decode-unreserved": "strict",
    "percent-to-uppercase": "strict",
}


def _parse_normalizer(reader: RuleReader) -> str:
    if not getattr(reader.global_draft, "experimental", False):
        raise reader.error(
            "is experimental, must be allowed via a global 'expose-experimental-directives'"
        )
    names = [name for name in _NORMALIZERS if " " not in name]
    name = reader.choice(names, "a normalizer:")
    option = _OPTIONS.get(name)
    if reader.at_condition():
        return name
    if option is None:
        reader.end()
    reader.choice([str(option)])
    return f"{name} {option}"


def _build_normalizer(name: str, build: Build) -> Act:
    rewriter = Rewriter(build, "http-request")
    normalizer = _NORMALIZERS[name]
    run, with_query = normalizer.run, normalizer.with_query

    def act(view: View) -> Verdict | None:
        request = view.request
        assert request is not None
        before, path = split_target(request.target)
        if path is None:
            return None
        query = b""
        if not with_query:
            path, mark, query = path.partition(b"?")
            query = mark + query
        normal = run(path)
        if normal is None:
            return INVALID
        if normal == path:
            return None
        return _change(rewriter, view, before + normal + query)

    return act


ACTIONS: tuple[Action, ...] = (
    Action("set-method", _SETS, _parse_format, _build_method),
    Action("set-path", _SETS, _parse_format, _setter(_with_path)),
    Action("set-pathq", _SETS, _parse_format, _setter(_with_pathq)),
    Action("set-query", _SETS, _parse_format, _setter(_with_query)),
    Action("set-uri", _SETS, _parse_format, _setter(_with_uri, whole=True)),
    Action("replace-path", _SETS, _parse_replace, _replacer(_path_of, _with_path)),
    Action("replace-pathq", _SETS, _parse_replace, _replacer(_pathq_of, _with_pathq)),
    Action("replace-uri", _SETS, _parse_replace, _replacer(_uri_of, _with_uri, whole=True)),
    Action("normalize-uri", _SETS, _parse_normalizer, _build_normalizer),
)

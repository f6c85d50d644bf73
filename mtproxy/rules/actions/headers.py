"""Changes of headers: set-header, add-header, del-header, replace-*, early-hint (manual 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.base.ruleset import Format
from mtproxy.http.headers import make_header
from mtproxy.rules.tables import Action

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act
    from mtproxy.rules.view import View

_HTTP = frozenset({"http-request", "http-response", "http-after-response"})


def _parse_set(reader: RuleReader) -> tuple[str, bytes, Format]:
    name = reader.value("a header name").lower().encode()
    return reader.point.name, name, reader.format()


def _build_set(args: tuple[str, bytes, Format], build: Build) -> Act:
    point, name, fmt = args
    text = build.format(fmt)

    def set_request(view: View) -> None:
        head = view.txn.own_request(view)
        head.headers = [one for one in head.headers if one[0] != name]
        head.headers.append(make_header(name, text(view)))

    def set_response(view: View) -> None:
        head = view.txn.own_response(view)
        head.headers = [one for one in head.headers if one[0] != name]
        head.headers.append(make_header(name, text(view)))

    return set_request if point == "http-request" else set_response


ACTIONS: tuple[Action, ...] = (Action("set-header", _HTTP, _parse_set, _build_set),)

"""Request line and URI (manual 7.3.6: method, path, url, base, urlp, ...)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.rules.points import Need
from mtproxy.rules.tables import Fetch
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.rules.view import View


def _path(view: View) -> bytes | None:
    head = view.request
    if head is None:
        return None
    target = head.target
    if target[:1] != b"/":
        target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
    return target.partition(b"?")[0]


def _url(view: View) -> bytes | None:
    head = view.request
    return None if head is None else head.target


FETCHES: tuple[Fetch, ...] = (
    Fetch("path", Type.STR, Need.REQ_HEAD, call=_path),
    Fetch("path_beg", Type.STR, Need.REQ_HEAD, call=_path, match="beg", acl_only=True),
    Fetch("url", Type.STR, Need.REQ_HEAD, call=_url),
)

"""Status line and what else a response tells (manual 7.3.6).

Nothing is compressed and nothing cached here: the fetches that speak of that say so. Functions
belong to the thread that made them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mtproxy.rules.fetches.heads import response_of
from mtproxy.rules.points import Need
from mtproxy.rules.tables import Fetch
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.rules.view import View


def _status(view: View) -> int | None:
    """In log lines, of what a server answered alone: that is what HAProxy has then."""
    if view.logged:
        return view.status if view.t_r >= 0 and view.status > 0 else None
    head = response_of(view)
    return None if head is None else head.status


def _version(view: View) -> bytes | None:
    head = response_of(view)
    return None if head is None else b"1.%d" % (head.version - 10)


def _never(_view: View) -> bool:
    return False


def _none(_view: View) -> bytes | None:
    return None


_HEAD: Final = Need.RES_HEAD
_KEPT: Final = Need.RES_TXN

FETCHES: tuple[Fetch, ...] = (
    Fetch("status", Type.SINT, _KEPT, call=_status),
    Fetch("res.ver", Type.STR, _HEAD, call=_version),
    Fetch("resp_ver", Type.STR, _HEAD, call=_version),
    Fetch("res.comp", Type.BOOL, _KEPT, call=_never),
    Fetch("res.comp_algo", Type.STR, _KEPT, call=_none),
    Fetch("res.cache_hit", Type.BOOL, _KEPT, call=_never),
    Fetch("res.cache_name", Type.STR, _KEPT, call=_none),
    Fetch("fcgi.docroot", Type.STR, Need.REQ_HEAD, later="FastCGI"),
    Fetch("fcgi.index", Type.STR, Need.REQ_HEAD, later="FastCGI"),
)

"""What has been captured of a transaction (manual 7.3.6: capture.*), and its unique id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtproxy.rules.keeping import unique_id
from mtproxy.rules.points import Need
from mtproxy.rules.tables import ArgKind, Fetch, required
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate
    from mtproxy.rules.view import View


def _request_slot(args: tuple[Any, ...], _build: Build) -> Evaluate:
    index: int = args[0]

    def fetch(view: View) -> bytes | None:
        slots = view.captured_request_headers
        return slots[index] if 0 <= index < len(slots) else None

    return fetch


def _response_slot(args: tuple[Any, ...], _build: Build) -> Evaluate:
    index: int = args[0]

    def fetch(view: View) -> bytes | None:
        slots = view.captured_response_headers
        return slots[index] if 0 <= index < len(slots) else None

    return fetch


def _method(view: View) -> bytes | None:
    line = view.request_line
    return None if line is None else line.partition(b" ")[0]


def _uri(view: View) -> bytes | None:
    """Path and query of the request as it came."""
    line = view.request_line
    if line is None:
        return None
    target = line.partition(b" ")[2].partition(b" ")[0]
    if target.startswith(b"/"):
        return target
    # absolute form: what stands behind the authority; authority and asterisk form have no path
    _, scheme, rest = target.partition(b"://")
    if not scheme:
        return None
    slash = rest.find(b"/")
    return rest[slash:] if slash >= 0 else b""


def _request_version(view: View) -> bytes | None:
    line = view.request_line
    if line is None or view.request is None:
        return None
    return b"HTTP/1.1" if view.request.version == 11 else b"HTTP/1.0"


def _response_version(view: View) -> bytes | None:
    head = view.response
    if head is None or view.sconn is None:
        return None
    return b"HTTP/1.1" if head.version == 11 else b"HTTP/1.0"


def _unique_id(view: View) -> bytes | None:
    text = unique_id(view)
    return None if text is None else text.encode("utf-8", "surrogateescape")


_SLOT = required(ArgKind.SINT)

FETCHES: tuple[Fetch, ...] = (
    Fetch("capture.req.hdr", Type.STR, Need.TXN, make=_request_slot, args=_SLOT),
    Fetch("capture.res.hdr", Type.STR, Need.RES_TXN, make=_response_slot, args=_SLOT),
    Fetch("capture.req.method", Type.STR, Need.TXN, _method),
    Fetch("capture.req.uri", Type.STR, Need.TXN, _uri),
    Fetch("capture.req.ver", Type.STR, Need.TXN, _request_version),
    Fetch("capture.res.ver", Type.STR, Need.TXN, _response_version),
    Fetch("unique-id", Type.STR, call=_unique_id),
)

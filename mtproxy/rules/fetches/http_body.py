"""Request and response bodies (manual 7.3.6: req.body and res.body families).

What they see is what has been read of a body when they are evaluated: `option http-buffer-request`
and `wait-for-body` make it more. Functions belong to the thread that made them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from mtproxy.rules.fetches.heads import request_of, response_of
from mtproxy.rules.fetches.http_request import find_parameters
from mtproxy.rules.points import Need
from mtproxy.rules.tables import ArgKind, Fetch, optional
from mtproxy.rules.types import Binary, Type, Value

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate, Every
    from mtproxy.rules.view import View


def _body(view: View) -> Binary | None:
    return None if request_of(view) is None else Binary(view.txn.body or b"")


def _body_length(view: View) -> int | None:
    return None if request_of(view) is None else len(view.txn.body or b"")


def _body_size(view: View) -> int | None:
    """The length that the head tells; of a chunked body, what is here."""
    head = request_of(view)
    if head is None:
        return None
    return head.content_length if head.content_length >= 0 else len(view.txn.body or b"")


def _response_body(view: View) -> Binary | None:
    return None if response_of(view) is None else Binary(view.response_body())


def _response_body_length(view: View) -> int | None:
    return None if response_of(view) is None else len(view.response_body())


def _response_body_size(view: View) -> int | None:
    head = response_of(view)
    if head is None:
        return None
    return head.content_length if head.content_length >= 0 else len(view.response_body())


def _every_parameter(args: tuple[Any, ...], _build: Build) -> Every:
    name: bytes = args[0] or b""

    def every(view: View) -> Iterable[Value]:
        if request_of(view) is None:
            return ()
        return map(Binary, find_parameters(view.txn.body or b"", name))

    return every


def _parameter(args: tuple[Any, ...], build: Build) -> Evaluate:
    every = _every_parameter(args, build)

    def first(view: View) -> Value | None:
        for value in every(view):
            return value
        return None

    return first


_REQUEST: Final = Need.REQ_BODY
_RESPONSE: Final = Need.RES_BODY

FETCHES: tuple[Fetch, ...] = (
    Fetch("req.body", Type.BIN, _REQUEST, call=_body),
    Fetch("req.body_len", Type.SINT, _REQUEST, call=_body_length),
    Fetch("req.body_size", Type.SINT, _REQUEST, call=_body_size),
    Fetch(
        "req.body_param",
        Type.BIN,
        _REQUEST,
        make=_parameter,
        every=_every_parameter,
        args=optional(ArgKind.STR),
    ),
    Fetch("res.body", Type.BIN, _RESPONSE, call=_response_body),
    Fetch("res.body_len", Type.SINT, _RESPONSE, call=_response_body_length),
    Fetch("res.body_size", Type.SINT, _RESPONSE, call=_response_body_size),
)

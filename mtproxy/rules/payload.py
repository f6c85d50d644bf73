"""The bytes that rules of `mode tcp` look at, and how a fetch says that they may become more.

A stream of HTTP has no such bytes, and none will come (as in HAProxy, which warns of fetches that
look for them, see `rules.places`). Elsewhere a fetch that could say more with more bytes leaves
`view.may_change` set, unless nothing more will come (`txn.payload_final`): conditions of content
rules are then decided later (see `rules.acl`).
Owner thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtproxy.rules.view import View


def request_bytes(view: View) -> bytes:
    """What has come of the request in `mode tcp`."""
    return view.txn.payload


def response_bytes(view: View) -> bytes:
    """What has come of the response in `mode tcp`."""
    return view.txn.res_payload


def looked_at(view: View) -> bytes:
    """The bytes of the direction whose rules run now."""
    return view.txn.res_payload if view.txn.looking_back else request_bytes(view)


def more_may_come(view: View) -> None:
    """Note that what was found, or not found, is not the last word."""
    if not view.txn.payload_final and view.request is None:
        view.may_change = True

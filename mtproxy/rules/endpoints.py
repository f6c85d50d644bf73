"""Addresses of a client's connection: as they were, and as rules changed them (set-src, set-dst).

A stream's `client_ip`, `client_port` and `dst_text` are the addresses that count: fetches, logs and
forwarded headers use them. The first change keeps what was there in `Endpoints`. As in HAProxy a
change made by "tcp-request connection" is one of the connection itself, one by "tcp-request
session" lasts for all its transactions, and any other for one transaction. Addresses of a PROXY
header are those of the session, too. Owner thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.rules.types import Ip4, Ip6, ip_text, parse_ip

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.rules.view import View

type Endpoint = tuple[str, int]
#: a change made by a rule set: the new address and port of one end
type Change = Callable[[View, str, int], None]

#: addresses of which one thread remembers the numbers
_KNOWN_MAX = 4096


class Endpoints:
    """What the addresses were, None where they never changed; and the PROXY header."""

    __slots__ = (
        "conn_dst",
        "conn_src",
        "failure",
        "header_due",
        "sess_dst",
        "sess_src",
        "tlvs",
    )

    def __init__(self) -> None:
        #: of the connection
        self.conn_src: Endpoint | None = None
        self.conn_dst: Endpoint | None = None
        #: of the session: what each transaction begins with
        self.sess_src: Endpoint | None = None
        self.sess_dst: Endpoint | None = None
        #: the connection begins with a PROXY header that has not come yet
        self.header_due = False
        #: (type, value) of the header; None: there was no header
        self.tlvs: tuple[tuple[int, bytes], ...] | None = None
        #: number and text of what is wrong with the connection
        self.failure = (0, "Success")


def numbers() -> Callable[[str], Ip4 | Ip6 | None]:
    """A function from an address in text to its number; None for what is no IP address.

    It remembers what it was asked before and belongs to one thread.
    """
    known: dict[str, Ip4 | Ip6 | None] = {}

    def number(text: str) -> Ip4 | Ip6 | None:
        try:
            return known[text]
        except KeyError:
            if len(known) >= _KNOWN_MAX:
                known.clear()
            # a link-local address may name its interface
            known[text] = found = parse_ip(text.partition("%")[0])
            return found

    return number


def text_of(address: Ip4 | Ip6) -> str:
    """An address as streams keep it."""
    return ip_text(address).decode()


def source_of(view: View) -> Endpoint:
    """The source of the connection itself."""
    kept = view.endpoints
    if kept is None or kept.conn_src is None:
        return view.client_ip, view.client_port
    return kept.conn_src


def destination_of(view: View) -> Endpoint:
    """The destination of the connection itself."""
    kept = view.endpoints
    if kept is None or kept.conn_dst is None:
        return view.dst_ip, view.dst_port
    return kept.conn_dst


def source_change(point: str) -> Change:
    """How the rule set `point` changes the source."""
    if point == "tcp-request connection":
        return _set_source
    return _set_session_source if point == "tcp-request session" else _set_transaction_source


def destination_change(point: str) -> Change:
    """How the rule set `point` changes the destination."""
    if point == "tcp-request connection":
        return _set_destination
    if point == "tcp-request session":
        return _set_session_destination
    return _set_transaction_destination


def forget_changes(view: View) -> None:
    """A new transaction begins on the connection: what the last one changed holds no longer."""
    kept = view.endpoints
    if kept is not None:
        if kept.sess_src is not None:
            view.client_ip, view.client_port = kept.sess_src
        if kept.sess_dst is not None:
            view.dst_text = kept.sess_dst


def expect_header(view: View) -> None:
    """The connection has to begin with a PROXY header, see `stream.proxied`."""
    _kept(view).header_due = True


def note_header(
    view: View,
    source: Endpoint | None,
    destination: Endpoint | None,
    tlvs: tuple[tuple[int, bytes], ...],
) -> None:
    """A PROXY header has come; endpoints are None where it names none."""
    kept = _kept(view)
    kept.header_due = False
    kept.tlvs = tlvs
    if source is not None:
        _set_session_source(view, *source)
    if destination is not None:
        _set_session_destination(view, *destination)


def tlv(view: View, kind: int) -> bytes | None:
    """The value of the PROXY header's last TLV of a type, which is the one that HAProxy keeps."""
    kept = view.endpoints
    return dict(kept.tlvs).get(kind) if kept is not None and kept.tlvs else None


def _kept(view: View) -> Endpoints:
    if view.endpoints is None:
        view.endpoints = Endpoints()
    return view.endpoints


def _set_source(view: View, ip: str, port: int) -> None:
    view.client_ip, view.client_port = ip, port


def _set_session_source(view: View, ip: str, port: int) -> None:
    kept = _kept(view)
    if kept.conn_src is None:
        kept.conn_src = (view.client_ip, view.client_port)
    kept.sess_src = (ip, port)
    view.client_ip, view.client_port = ip, port


def _set_transaction_source(view: View, ip: str, port: int) -> None:
    kept = _kept(view)
    if kept.conn_src is None:
        kept.conn_src = (view.client_ip, view.client_port)
    if kept.sess_src is None:
        kept.sess_src = (view.client_ip, view.client_port)
    view.client_ip, view.client_port = ip, port


def _set_destination(view: View, ip: str, port: int) -> None:
    view.dst_text = (ip, port)


def _set_session_destination(view: View, ip: str, port: int) -> None:
    kept = _kept(view)
    if kept.conn_dst is None:
        kept.conn_dst = (view.dst_ip, view.dst_port)
    kept.sess_dst = view.dst_text = (ip, port)


def _set_transaction_destination(view: View, ip: str, port: int) -> None:
    kept = _kept(view)
    before = (view.dst_ip, view.dst_port)
    if kept.conn_dst is None:
        kept.conn_dst = before
    if kept.sess_dst is None:
        kept.sess_dst = before
    view.dst_text = (ip, port)

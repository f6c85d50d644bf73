"""What the families of HTTP fetches share: the heads, names, numbers and addresses in texts.

Everything runs on the thread that owns the view; what is not of a view is pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from socket import AF_INET, inet_pton
from typing import TYPE_CHECKING, Any, Final

from mtproxy.http.errors import BadMessage
from mtproxy.http.framing import find_head_end
from mtproxy.http.h1_request import parse_request_head
from mtproxy.rules.tables import Arg, Fetch
from mtproxy.rules.types import Ip4, Ip6, Value, parse_ip

if TYPE_CHECKING:
    from mtproxy.http.h1_request import RequestHead
    from mtproxy.http.h1_response import ResponseHead
    from mtproxy.rules.build import Build
    from mtproxy.rules.points import Need
    from mtproxy.rules.tables import Evaluate, Every, Maker
    from mtproxy.rules.types import Type
    from mtproxy.rules.view import View

#: gives the head that a family reads, None where there is none
type Source = Callable[[View], RequestHead | ResponseHead | None]
type EveryMaker = Callable[[tuple[Any, ...], Build], Every | None]

#: match methods that have ACL keywords of their own: path_beg, hdr_sub, ...
METHODS: Final = ("beg", "dir", "dom", "end", "len", "reg", "sub")

_match_address = re.compile(
    rb"0*([0-9]+)\.0*([0-9]+)\.0*([0-9]+)\.0*([0-9]+)(?::([0-9]+))?"
).fullmatch


# --- heads


def request_of(view: View) -> RequestHead | None:
    """The request's head.

    In `mode tcp` it is read from the bytes that came so far; while they may become one, the
    view's `may_change` is set.
    """
    head = view.request
    return head if head is not None else _sniff(view)


def response_of(view: View) -> ResponseHead | None:
    """The response's head."""
    return view.response


def either_of(view: View) -> RequestHead | ResponseHead | None:
    """The head of the direction that is being looked at."""
    head = view.response
    return head if head is not None else request_of(view)


def _sniff(view: View) -> RequestHead | None:
    txn = view.txn
    if txn.sniffed is not None:
        return txn.sniffed
    payload = txn.payload
    try:
        end = find_head_end(payload)
        if end < 0:
            view.may_change = not txn.payload_final
            return None
        txn.sniffed = parse_request_head(bytes(payload[:end]), view.room.cache)
    except (BadMessage, ValueError):
        return None
    return txn.sniffed


# --- texts


def to_number(text: bytes) -> int:
    """A text as the 32-bit number that HAProxy reads in headers, cookies and parameters.

    It begins at the first character, ends before the first one that is greater than "9", and takes
    every smaller one for a digit (that of ASCII 46, ".", has the value -2); whatever remains after
    an overflow is kept. So "12ms" is 12, and only what is a number is read as one.
    """
    if text.isdigit() and len(text) < 10:
        return int(text)
    sign = 1
    if text[:1] == b"-":
        sign, text = -1, text[1:]
    number = 0
    for byte in text:
        digit = (byte if byte < 128 else byte - 256) - 48
        if digit > 9:
            break
        number = number * 10 + sign * digit
    return (number + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def to_address(text: bytes) -> Ip4 | Ip6 | None:
    """An address as headers have it: IPv4, perhaps with a port behind it, or IPv6."""
    try:
        return Ip4(int.from_bytes(inet_pton(AF_INET, text.decode("latin-1"))))
    except (OSError, ValueError):
        return _unusual_address(text)


def _unusual_address(text: bytes) -> Ip4 | Ip6 | None:
    """IPv6, or IPv4 with a port or with zeros in front of its numbers."""
    match = _match_address(text)
    if match is None:
        if b":" not in text:
            return None
        address = parse_ip(text.decode("latin-1"))
        return address if type(address) is Ip6 else None
    first, second, third, fourth, port = match.groups()
    if port is not None and (len(port) > 5 or int(port) > 65535):
        return None
    number = 0
    for part in (first, second, third, fourth):
        if len(part) > 3 or int(part) > 255:
            return None
        number = number << 8 | int(part)
    return Ip4(number)


def source_bytes(view: View) -> bytes:
    """The client's address as 4 or 16 bytes; empty if it has none."""
    address = parse_ip(view.client_ip)
    if address is None:
        return b""
    return int(address).to_bytes(4 if type(address) is Ip4 else 16)


# --- tables


def nothing(_view: View) -> None:
    """A sample that never exists."""


def no_values(_view: View) -> Iterable[Value]:
    """The values of a sample that never exists."""
    return ()


def acl_keywords(
    names: Iterable[str],
    out: Type,
    needs: Need,
    *,
    call: Evaluate | None = None,
    make: Maker | None = None,
    every: EveryMaker | None = None,
    args: tuple[Arg, ...] = (),
    check: Callable[[tuple[Any, ...]], str | None] | None = None,
) -> tuple[Fetch, ...]:
    """The ACL keywords `name_beg`, `name_dir`, ... of a fetch."""
    return tuple(
        Fetch(
            f"{name}_{method}",
            out,
            needs,
            call=call,
            make=make,
            every=every,
            args=args,
            check=check,
            match=method,
            acl_only=True,
        )
        for name in names
        for method in METHODS
    )

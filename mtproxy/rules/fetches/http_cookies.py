"""Cookies of request and response (manual 7.3.6: cook and scook families).

With a name the last cookie of that name, without one the first cookie at all; in ACLs all of them
are compared. Functions belong to the thread that made them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from mtproxy.http.cookies import Pair, named, pairs_of
from mtproxy.http.fields import NO_INDEX, parts_of
from mtproxy.rules.fetches.heads import acl_keywords, request_of, response_of, to_number
from mtproxy.rules.points import Need
from mtproxy.rules.tables import ArgKind, Fetch, optional
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.http.fields import Head
    from mtproxy.rules.build import Build
    from mtproxy.rules.fetches.heads import EveryMaker
    from mtproxy.rules.tables import Evaluate, Every, Maker
    from mtproxy.rules.view import View

#: gives the values of all cookies of a name
type Cookies = Callable[[View, bytes], Iterator[bytes]]

_NAME: Final = optional(ArgKind.STR)


def _lines(head: Head, field: bytes, *, response: bool) -> list[list[Pair]]:
    """The pairs of all lines; parsed once for a head that is never changed."""
    index = head.index
    key = b";" + field
    if index is not None:
        known = index.get(key)
        if known is not None:
            return known
    lines = [pairs_of(part, response=response) for part in parts_of(head, field)]
    if head.index is not NO_INDEX and head.index is not None:
        head.index[key] = lines
    return lines


def _of_request(view: View, name: bytes) -> Iterator[bytes]:
    head = view.request or request_of(view)
    if head is not None:
        for pairs in _lines(head, b"cookie", response=False):
            yield from named(pairs, name)


def _of_response(view: View, name: bytes) -> Iterator[bytes]:
    head = response_of(view)
    if head is not None:
        for pairs in _lines(head, b"set-cookie", response=True):
            yield from named(pairs, name, response=True)


def _of_either(view: View, name: bytes) -> Iterator[bytes]:
    return _of_request(view, name) if view.response is None else _of_response(view, name)


def _first_or_last(cookies: Cookies, args: tuple[Any, ...]) -> Callable[[View], bytes | None]:
    name: bytes = args[0] or b""
    if name and cookies is _of_request:
        return _last_of_request(name)

    def value(view: View) -> bytes | None:
        last: bytes | None = None
        for cookie in cookies(view, name):
            last = cookie
            if not name:
                break
        return last

    return value


def _last_of_request(name: bytes) -> Callable[[View], bytes | None]:
    """What `named` finds last, in one go."""
    shortest = len(name) + 1

    def value(view: View) -> bytes | None:
        head = view.request or request_of(view)
        last: bytes | None = None
        if head is not None:
            for pairs in _lines(head, b"cookie", response=False):
                for found, cookie, left in pairs:
                    if found == name and left > shortest:
                        last = cookie
        return last

    return value


def _string(cookies: Cookies) -> tuple[Maker, EveryMaker]:
    def make(args: tuple[Any, ...], _build: Build) -> Evaluate:
        return _first_or_last(cookies, args)

    def every(args: tuple[Any, ...], _build: Build) -> Every:
        name: bytes = args[0] or b""
        return lambda view: cookies(view, name)

    return make, every


def _number(cookies: Cookies) -> tuple[Maker, EveryMaker]:
    def make(args: tuple[Any, ...], _build: Build) -> Evaluate:
        value_of = _first_or_last(cookies, args)

        def number(view: View) -> int | None:
            value = value_of(view)
            return None if value is None else to_number(value)

        return number

    def every(args: tuple[Any, ...], _build: Build) -> Every:
        name: bytes = args[0] or b""
        return lambda view: map(to_number, cookies(view, name))

    return make, every


def _count(cookies: Cookies, *, response: bool) -> Maker:
    def make(args: tuple[Any, ...], _build: Build) -> Evaluate:
        name: bytes = args[0] or b""

        def count(view: View) -> int | None:
            if (response_of(view) if response else request_of(view)) is None:
                return None
            return sum(1 for _ in cookies(view, name))

        return count

    return make


def _family(name: str, cookies: Cookies, needs: Need, *, response: bool) -> tuple[Fetch, ...]:
    string, strings = _string(cookies)
    number, numbers = _number(cookies)
    count = _count(cookies, response=response)
    return (
        Fetch(name, Type.STR, needs, make=string, every=strings, args=_NAME),
        Fetch(f"{name}_cnt", Type.SINT, needs, make=count, args=_NAME),
        Fetch(f"{name}_val", Type.SINT, needs, make=number, every=numbers, args=_NAME),
    )


def _derived(name: str, cookies: Cookies, needs: Need) -> tuple[Fetch, ...]:
    string, strings = _string(cookies)
    return acl_keywords((name,), Type.STR, needs, make=string, every=strings, args=_NAME)


_EITHER: Final = _string(_of_either)

FETCHES: tuple[Fetch, ...] = (
    *_family("req.cook", _of_request, Need.REQ_HEAD, response=False),
    *_family("cook", _of_request, Need.REQ_HEAD, response=False),
    *_derived("cook", _of_request, Need.REQ_HEAD),
    *_family("res.cook", _of_response, Need.RES_HEAD, response=True),
    *_family("scook", _of_response, Need.RES_HEAD, response=True),
    *_derived("scook", _of_response, Need.RES_HEAD),
    Fetch(
        "cookie",
        Type.STR,
        Need.REQ_HEAD | Need.RES_HEAD,
        make=_EITHER[0],
        every=_EITHER[1],
        args=_NAME,
    ),
)

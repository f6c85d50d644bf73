"""Headers of request and response (manual 7.3.6: hdr, fhdr and shdr families).

`hdr` sees the parts of comma-separated lists, `fhdr` whole lines; both give the last one if no
occurrence is asked for, and in ACLs compare all of them. Functions belong to the thread that made
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mtproxy.http.fields import lines_of, parts_of
from mtproxy.http.headers import Header
from mtproxy.rules.fetches.heads import (
    acl_keywords,
    either_of,
    no_values,
    nothing,
    request_of,
    response_of,
    to_address,
    to_number,
)
from mtproxy.rules.points import Need
from mtproxy.rules.tables import ArgKind, Fetch, optional
from mtproxy.rules.types import Binary, Ip4, Ip6, Type, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtproxy.rules.build import Build
    from mtproxy.rules.fetches.heads import EveryMaker, Source
    from mtproxy.rules.tables import Evaluate, Every, Maker
    from mtproxy.rules.view import View

#: how far back an occurrence may be counted from the last one
_HISTORY: Final = 10

_NAME_AND_PLACE: Final = optional(ArgKind.STR, ArgKind.SINT)
_NAME: Final = optional(ArgKind.STR)
_EITHER: Final = Need.REQ_HEAD | Need.RES_HEAD


def _check_place(args: tuple[Any, ...]) -> str | None:
    place = args[1]
    if place is not None and place < -_HISTORY:
        return f"header occurrence must be >= -{_HISTORY}."
    return None


# --- one value


def _value_of(source: Source, args: tuple[Any, ...], *, whole: bool) -> Callable[[View], Any]:
    """The value at a place (from 1, or from -1 backwards; 0 and None: the last)."""
    if args[0] is None:
        return nothing
    name: bytes = args[0].lower()
    key = name if whole else b"," + name
    look_up = lines_of if whole else parts_of
    place = args[1] or -1
    index = place - 1 if place > 0 else place

    def last(view: View) -> bytes | None:
        head = view.request
        if head is None:
            head = request_of(view)
            if head is None:
                return None
        known = head.index
        values = None if known is None else known.get(key)
        if values is None:
            values = look_up(head, name)
        return values[-1] if values else None

    def last_of_either(view: View) -> bytes | None:
        head: Any = view.response
        if head is None:
            head = view.request or request_of(view)
            if head is None:
                return None
        known = head.index
        values = None if known is None else known.get(key)
        if values is None:
            values = look_up(head, name)
        return values[-1] if values else None

    def at_place(view: View) -> bytes | None:
        head = source(view)
        if head is None:
            return None
        values = look_up(head, name)
        try:
            return values[index]
        except IndexError:
            return None

    # the usual cases have functions of their own
    if index == -1 and source is request_of:
        return last
    return last_of_either if index == -1 and source is either_of else at_place


def _values_of(source: Source, args: tuple[Any, ...], *, whole: bool) -> Every | None:
    """All values; None where the arguments choose one."""
    if args[0] is None:
        return no_values
    if args[1]:
        return None
    name: bytes = args[0].lower()
    look_up = lines_of if whole else parts_of

    def every(view: View) -> Iterable[bytes]:
        head = source(view)
        return () if head is None else look_up(head, name)

    return every


def _string(source: Source, *, whole: bool = False) -> tuple[Maker, EveryMaker]:
    def make(args: tuple[Any, ...], _build: Build) -> Evaluate:
        return _value_of(source, args, whole=whole)

    def every(args: tuple[Any, ...], _build: Build) -> Every | None:
        return _values_of(source, args, whole=whole)

    return make, every


def _number(source: Source) -> tuple[Maker, EveryMaker]:
    def make(args: tuple[Any, ...], _build: Build) -> Evaluate:
        value_of = _value_of(source, args, whole=False)

        def number(view: View) -> int | None:
            value = value_of(view)
            return None if value is None else to_number(value)

        return number

    def every(args: tuple[Any, ...], _build: Build) -> Every | None:
        values_of = _values_of(source, args, whole=False)
        if values_of is None:
            return None
        return lambda view: map(to_number, values_of(view))  # type: ignore[arg-type]

    return make, every


def _address(source: Source) -> tuple[Maker, EveryMaker]:
    def make(args: tuple[Any, ...], _build: Build) -> Evaluate:
        value_of = _value_of(source, args, whole=False)

        def address(view: View) -> Ip4 | Ip6 | None:
            value = value_of(view)
            return None if value is None else to_address(value)

        return address

    def every(args: tuple[Any, ...], _build: Build) -> Every | None:
        values_of = _values_of(source, args, whole=False)
        if values_of is None:
            return None

        def addresses(view: View) -> Iterable[Value]:
            # what is no address is passed over
            for value in values_of(view):
                found = to_address(value)  # type: ignore[arg-type]
                if found is not None:
                    yield found

        return addresses

    return make, every


def _count(source: Source, *, whole: bool = False) -> Maker:
    look_up = lines_of if whole else parts_of

    def make(args: tuple[Any, ...], _build: Build) -> Evaluate:
        name: bytes = (args[0] or b"").lower()

        def count(view: View) -> int | None:
            head = source(view)
            return None if head is None else len(look_up(head, name))

        return count

    return make


# --- all headers at once


def _names(source: Source) -> Maker:
    def make(args: tuple[Any, ...], _build: Build) -> Evaluate:
        delimiter: bytes = (args[0] or b",")[:1]

        def names(view: View) -> bytes | None:
            head = source(view)
            return None if head is None else delimiter.join([one[0] for one in head.headers])

        return names

    return make


def _block(source: Source) -> Evaluate:
    def block(view: View) -> Binary | None:
        head = source(view)
        if head is None:
            return None
        return Binary(b"".join([b"%b: %b\r\n" % one[:2] for one in head.headers]) + b"\r\n")

    return block


def spoe_length(length: int) -> bytes:
    """A length in the variable encoding of the SPOE protocol (its documentation, section 3.1)."""
    if length < 240:
        return bytes((length,))
    out = bytearray((length & 15 | 240,))
    length = (length - 240) >> 4
    while length >= 128:
        out.append(length & 127 | 128)
        length = (length - 128) >> 7
    out.append(length)
    return bytes(out)


def _packed(header: Header) -> bytes:
    name, value = header[:2]
    return spoe_length(len(name)) + name + spoe_length(len(value)) + value


def _binary_block(source: Source) -> Evaluate:
    def block(view: View) -> Binary | None:
        head = source(view)
        if head is None:
            return None
        return Binary(b"".join(map(_packed, head.headers)) + b"\0\0")

    return block


# --- tables


def _family(prefix: str, source: Source, needs: Need) -> tuple[Fetch, ...]:
    """hdr, hdr_cnt, hdr_ip, hdr_val."""
    string, strings = _string(source)
    number, numbers = _number(source)
    address, addresses = _address(source)
    return (
        Fetch(
            prefix, Type.STR, needs, make=string, every=strings,
            args=_NAME_AND_PLACE, check=_check_place,
        ),
        Fetch(f"{prefix}_cnt", Type.SINT, needs, make=_count(source), args=_NAME),
        Fetch(
            f"{prefix}_ip", Type.ADDR, needs, make=address, every=addresses,
            args=_NAME_AND_PLACE, check=_check_place,
        ),
        Fetch(
            f"{prefix}_val", Type.SINT, needs, make=number, every=numbers,
            args=_NAME_AND_PLACE, check=_check_place,
        ),
    )  # fmt: skip


def _more(prefix: str, source: Source, needs: Need) -> tuple[Fetch, ...]:
    """What exists under the names of today alone."""
    line, lines = _string(source, whole=True)
    return (
        Fetch(
            f"{prefix}.fhdr", Type.STR, needs, make=line, every=lines,
            args=_NAME_AND_PLACE, check=_check_place,
        ),
        Fetch(
            f"{prefix}.fhdr_cnt", Type.SINT, needs, make=_count(source, whole=True), args=_NAME
        ),
        Fetch(
            f"{prefix}.hdr_names", Type.STR, needs, make=_names(source), args=optional(ArgKind.STR)
        ),
        Fetch(f"{prefix}.hdrs", Type.BIN, needs, call=_block(source)),
        Fetch(f"{prefix}.hdrs_bin", Type.BIN, needs, call=_binary_block(source)),
    )  # fmt: skip


def _derived(name: str, source: Source, needs: Need) -> tuple[Fetch, ...]:
    string, strings = _string(source)
    return acl_keywords(
        (name,),
        Type.STR,
        needs,
        make=string,
        every=strings,
        args=_NAME_AND_PLACE,
        check=_check_place,
    )


FETCHES: tuple[Fetch, ...] = (
    *_family("req.hdr", request_of, Need.REQ_HEAD),
    *_more("req", request_of, Need.REQ_HEAD),
    *_family("res.hdr", response_of, Need.RES_HEAD),
    *_more("res", response_of, Need.RES_HEAD),
    *_family("shdr", response_of, Need.RES_HEAD),
    *_derived("hdr", request_of, Need.REQ_HEAD),
    *_derived("shdr", response_of, Need.RES_HEAD),
    # its direction is that of the rule, except in ACLs; those with a suffix are of requests
    Fetch(
        "hdr", Type.STR, _EITHER, make=_string(either_of)[0],
        args=_NAME_AND_PLACE, check=_check_place, acl="req.hdr",
    ),
    *(one for one in _family("hdr", request_of, Need.REQ_HEAD) if one.name != "hdr"),
)  # fmt: skip

"""What a stream is hashed by: `balance source|uri|url_param|hdr|rdp-cookie|hash` (manual 4.2).

`hash_function` makes one thread's function from a stream to 32 bits; None where the stream lacks
what is looked for, and then servers take turns. Owner thread only.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from mtproxy.base.hashes import avalanche, crc32, djb2, sdbm, wt6
from mtproxy.http.fields import lines_of, split_list
from mtproxy.http.uri import path_and_query
from mtproxy.proxy.balance.base import HashOf
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.base.settings import BalanceSettings, ProxySettings
    from mtproxy.rules.build import Build

#: the algorithms that choose by a key
KEYED = frozenset({"source", "uri", "url_param", "hdr", "rdp-cookie", "hash"})
#: those of them that need the head of a request, or the bytes of a session, as rules see it
NEED_VIEW = frozenset({"url_param", "hdr", "rdp-cookie", "hash"})

type KeyOf = Callable[[Any], bytes | None]

_read_integer = re.compile(rb"[ \t]*([-+]?)([0-9]*)").match
_token = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]").match


def as_number(key: bytes) -> int:
    """The function `none`: the key is a decimal number, as far as it is one."""
    found = _read_integer(key)
    assert found is not None
    number = int(found[2] or b"0") & 0xFFFFFFFFFFFFFFFF
    return (-number if found[1] == b"-" else number) & 0xFFFFFFFF


_FUNCTIONS: dict[str, Callable[[bytes], int]] = {
    "sdbm": sdbm,
    "djb2": djb2,
    "wt6": wt6,
    "crc32": crc32,
    "none": as_number,
}


def hash_function(proxy: ProxySettings, build: Build) -> HashOf | None:
    """The function of a backend on the calling thread; None: its algorithm needs none."""
    params = proxy.balance_params
    spread = params.avalanche
    match proxy.balance:
        case "source":
            return _source(spread=spread)
        case "uri":
            key_of = _uri(params)
        case "url_param":
            key_of = _url_param(params.name)
        case "hdr":
            key_of = _header(params.name.lower(), domain_only=params.domain_only)
        case "rdp-cookie" | "hash":
            assert params.expression is not None
            # what is cast to that type is bytes
            key_of = cast("KeyOf", build.expression(params.expression, Type.BIN))
            if proxy.balance == "rdp-cookie":
                key_of = _not_empty(key_of)
        case _:
            return None
    digest = _FUNCTIONS[params.function]

    def hash_of(stream: Any) -> int | None:
        key = key_of(stream)
        if key is None:
            return None
        return avalanche(digest(key)) if spread else digest(key)

    return hash_of


def _not_empty(key_of: KeyOf) -> KeyOf:
    def key(stream: Any) -> bytes | None:
        return key_of(stream) or None

    return key


def _source(*, spread: bool) -> HashOf:
    """The words of the client's address, one upon the other."""
    parse = socket.inet_pton

    def hash_of(stream: Any) -> int | None:
        text = stream.client_ip
        if ":" in text:
            packed = parse(socket.AF_INET6, text.partition("%")[0])
            high, low = int.from_bytes(packed[:8]), int.from_bytes(packed[8:])
            both = high ^ low
            number = (both >> 32) ^ (both & 0xFFFFFFFF)
        elif text == "unix":
            return None
        else:
            number = int.from_bytes(parse(socket.AF_INET, text))
        return avalanche(number) if spread else number

    return hash_of


def target_of(stream: Any) -> bytes:
    """The request's target, as rules may have changed it."""
    request = stream.request
    if request is not None:
        return request.target  # type: ignore[no-any-return]
    line: bytes = stream.request_line
    return line.split(b" ", 2)[1]


def _uri(params: BalanceSettings) -> KeyOf:
    def key_of(stream: Any) -> bytes:
        target = target_of(stream)
        if params.path_only:
            target = path_and_query(target) or b""
        if params.length:
            target = target[: params.length]
        if not params.whole:
            target = target.partition(b"?")[0]
        if params.depth:
            # up to the slash that ends the last directory that counts
            target = b"/".join(target.split(b"/", params.depth + 1)[: params.depth + 1])
        return target

    return key_of


def _url_param(name: bytes) -> KeyOf:
    begin = name + b"="

    def value_in(query: bytes) -> bytes | None:
        if begin in query:
            for part in query.split(b"&"):
                if part.startswith(begin):
                    return part[len(begin) :]
        return None

    def key_of(stream: Any) -> bytes | None:
        value = value_in(target_of(stream).partition(b"?")[2])
        if value is None and stream.request.method == b"POST":
            value = value_in(stream.txn.body or b"")
            if value and _token(value) is None:
                # this is no form
                value = b"" if value[0] in b" \t\r\n" else None
        return value

    return key_of


def _header(name: bytes, *, domain_only: bool) -> KeyOf:
    def key_of(stream: Any) -> bytes | None:
        lines = lines_of(stream.request, name)
        value: bytes | None = split_list(lines[0])[0] if lines else None
        if not value:
            return None
        return domain_of(value) if domain_only else value

    return key_of


def domain_of(host: bytes) -> bytes:
    """`use_domain_only`: the last part of a name before its top-level domain."""
    end = host.rfind(b".", 1)
    if end < 0:
        return host
    return host[host.rfind(b".", 0, end - 1) + 1 : end]

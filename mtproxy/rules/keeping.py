"""What a frontend keeps of its transactions for logs: captures and the unique id (manual 8.7, 8.8).

One `Keeper` per frontend and thread, None where a frontend keeps nothing. The stream calls it where
HAProxy does the same: headers are captured before the rules of their message, cookies behind them;
the unique id is made when the request goes on to a server, or earlier for whoever asks. Slots are
lists in the stream (`captured_request_headers`, `captured_response_headers`). Owner thread only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mtproxy.base.ruleset import Capture, Captures, CookieCapture
from mtproxy.http.headers import Header, make_header

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.view import View

#: one cookie: white space and a separator before it, then name, "=" and value; quotes hold
#: separators together
_COOKIES: Final = re.compile(
    rb'[ \t]*([^=,;]*?)[ \t]*(?:(=)[ \t]*((?:"(?:[^"\\]|\\.)*"?|[^",;])*))?(?:[,;]|$)', re.DOTALL
)
#: in Set-Cookie a comma separates nothing
_SET_COOKIE: Final = re.compile(
    rb'[ \t]*([^=;]*?)[ \t]*(?:(=)[ \t]*((?:"(?:[^"\\]|\\.)*"?|[^",;])*))?(?:[,;]|$)', re.DOTALL
)

#: bytes, `tune.http.cookielen` unless it is set
DEFAULT_COOKIE_LENGTH: Final = 63

type _Slots = dict[bytes, list[tuple[int, int]]]


class Keeper:
    """Captures and the unique id of one frontend on one thread."""

    __slots__ = ("cookie", "id_header", "make_id", "request", "response", "size", "slots")

    def __init__(
        self,
        captures: Captures | None,
        make_id: Callable[[View], bytes] | None,
        id_header: bytes | None,
    ) -> None:
        captures = captures or Captures()
        #: the most that each slot takes, requests and responses
        self.size = (
            tuple(one.length for one in captures.request),
            tuple(one.length for one in captures.response),
        )
        #: header name -> its slots and their lengths
        self.request = _by_name(captures.request)
        self.response = _by_name(captures.response)
        self.slots = (len(captures.request), len(captures.response))
        self.cookie = captures.cookie
        self.make_id = make_id
        self.id_header = id_header

    def begin(self, view: View) -> None:
        """A transaction begins; `view.request` is None for what was no request."""
        request = view.request
        view.request_cookie = view.response_cookie = None
        if request is None:
            # HAProxy has no stream then, and nothing to show
            view.captured_request_headers = view.captured_response_headers = ()
            view.unique_id = ""
            return
        self.begin_bytes(view)
        slots = view.captured_request_headers
        if self.request and isinstance(slots, list):
            _capture(request.headers, self.request, slots)

    def begin_bytes(self, view: View) -> None:
        """A TCP session begins: slots for rules to fill."""
        requests, responses = self.slots
        view.captured_request_headers = [None] * requests
        view.captured_response_headers = [None] * responses
        view.unique_id = None

    def request_refused(self, view: View) -> None:
        """The rules refused the request: its cookie is captured nevertheless."""
        if self.cookie is not None and view.request is not None:
            view.request_cookie = _first_cookie(view.request.headers, b"cookie", self.cookie)

    def request_leaves(self, view: View) -> None:
        """The rules are through with the request."""
        self.request_refused(view)
        if self.make_id is not None:
            unique = unique_id(view)
            if self.id_header is not None and unique is not None:
                head = view.txn.own_request(view)
                data = unique.encode("utf-8", "surrogateescape")
                head.headers = [*head.headers, make_header(self.id_header, data)]

    def response_comes(self, view: View) -> None:
        """A server's response is here; its rules have not run yet."""
        slots = view.captured_response_headers
        if self.response and view.response is not None and isinstance(slots, list):
            _capture(view.response.headers, self.response, slots)

    def response_leaves(self, view: View) -> None:
        """The rules are through with the response."""
        if self.cookie is not None and view.response is not None:
            view.response_cookie = _first_cookie(view.response.headers, b"set-cookie", self.cookie)


def build_keeper(build: Build) -> Keeper | None:
    """This thread's keeper for the frontend side of a proxy; None: nothing is kept."""
    rules = build.proxy.rules
    fmt = rules.formats.get("unique-id-format")
    make_id = None if fmt is None else build.format(fmt)
    if rules.captures is None and make_id is None:
        return None
    captures = rules.captures
    if captures is not None and captures.cookie is not None:
        tune = build.shared.settings.global_.tune
        most = int(tune.get("tune.http.cookielen", DEFAULT_COOKIE_LENGTH))
        cookie = replace(captures.cookie, length=min(captures.cookie.length, most))
        captures = replace(captures, cookie=cookie)
    return Keeper(captures, make_id, rules.unique_id_header)


def unique_id(view: View) -> str | None:
    """The transaction's unique id, made when it is first asked for; None without a format."""
    known = view.unique_id
    if known is None:
        keeper = view.room.keeper
        if keeper is None or keeper.make_id is None:
            return None
        # a format that asks for the id itself finds nothing, as in HAProxy
        view.unique_id = ""
        known = keeper.make_id(view).decode("utf-8", "surrogateescape")
        view.unique_id = known
    return known


def fill(view: View, index: int, value: bytes, *, response: bool) -> bool:
    """Put text into a slot, cut to its length; False where there is no such slot."""
    keeper = view.room.keeper
    if keeper is None:
        return False
    sizes = keeper.size[response]
    slots = view.captured_response_headers if response else view.captured_request_headers
    if not 0 <= index < len(sizes) or not isinstance(slots, list):
        return False
    slots[index] = value[: sizes[index]]
    return True


def _by_name(captures: Iterable[Capture]) -> _Slots:
    slots: _Slots = {}
    for index, one in enumerate(captures):
        if one.name:
            slots.setdefault(one.name, []).append((index, one.length))
    return slots


def _capture(headers: Iterable[Header], wanted: _Slots, slots: list[bytes | None]) -> None:
    """The last field of a name is the one that is kept."""
    for name, value, _, _ in headers:
        found = wanted.get(name)
        if found is not None:
            for index, length in found:
                slots[index] = value[:length]


def _first_cookie(headers: Iterable[Header], name: bytes, wanted: CookieCapture) -> bytes | None:
    """The first cookie whose text begins with the wanted name, as "name=value"."""
    pattern = _COOKIES if name == b"cookie" else _SET_COOKIE
    for field, value, _, _ in headers:
        if field != name:
            continue
        for found in pattern.finditer(value):
            if found[2] is None:
                if name == b"set-cookie":
                    break
                continue
            text = found[1] + b"=" + found[3].rstrip(b" \t")
            if text.startswith(wanted.name) and not found[1].startswith(b"$"):
                return text[: wanted.length]
            if name == b"set-cookie":
                break
    return None

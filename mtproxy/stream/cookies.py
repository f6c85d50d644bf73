"""Persistence cookies (manual 4.2 `cookie`): who is named in a request, what a response sets.

A `PersistenceCookie` belongs to one backend on one thread. `read` looks for the cookie in a
request and takes out what the server must not see; `write` makes the response say which server it
was. What was found is kept in the transaction as the two letters of the log (manual 8.5).

Forms: `NAME=SRV`, with dates `NAME=SRV|LAST|FIRST` (in units of four seconds, five characters of
six bits each), and in prefix mode `NAME=SRV~VALUE`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mtproxy.http.headers import K_COOKIE, K_SET_COOKIE, Header, make_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtproxy.base.settings import CookieSettings
    from mtproxy.http.h1_request import RequestHead
    from mtproxy.http.h1_response import ResponseHead
    from mtproxy.proxy.server import Server
    from mtproxy.stream.http_rules import HttpRules

_DIGITS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
#: dates further in the future than this are not believed, s
_FUTURE: Final = 86400

#: one cookie of a Cookie header: name, value; quotes hide separators, to the end if need be
_split_cookies = re.compile(rb'((?:"(?:[^"\\]|\\.|\\\Z)*(?:"|\Z)|[^;,"])*)(?:[;,]|$)').finditer

#: statuses whose responses a cache may keep (RFC 9110 section 15.1)
_CACHEABLE: Final = frozenset({200, 203, 204, 206, 300, 301, 404, 405, 410, 414, 501})
_CACHEABLE_METHODS: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"TRACE"})
#: words of Cache-Control that forbid it
_FORBIDDING: Final = frozenset({b"private", b"no-cache", b"no-store", b"max-age=0", b"s-maxage=0"})
#: fields that make a response worth keeping
_REASONS: Final = frozenset({b"expires", b"etag", b"last-modified"})


def to_date(seconds: int) -> bytes:
    """A date in units of four seconds as five characters."""
    return bytes([_DIGITS[seconds >> shift & 63] for shift in (24, 18, 12, 6, 0)])


def from_date(text: bytes) -> int:
    """The date that five characters stand for, 0 if they do not."""
    value = 0
    for char in text[:5]:
        digit = _DIGITS.find(char)
        if digit < 0:
            return 0
        value = value << 6 | digit
    return value if len(text) >= 5 else 0


def _outside(date: int, limit: int, now: int) -> bool:
    """Whether a cookie of `date` is too old for a `limit` in seconds, or not to be believed."""
    if not date or not limit:
        return False
    return now - date > limit or date - now > _FUTURE


class PersistenceCookie:
    """One backend's cookie on one thread. Call `learn_servers` next."""

    __slots__ = ("by_value", "name", "persist", "prefix", "settings", "starts", "tail")

    def __init__(self, settings: CookieSettings, *, persist: bool) -> None:
        """`persist`: `option persist`, a server that is down is asked nevertheless."""
        self.settings = settings
        self.name = settings.name
        self.starts = settings.name + b"="
        self.persist = persist
        self.prefix = settings.mode == "prefix"
        #: several servers may share a value: the first one that runs is meant
        self.by_value: dict[bytes, list[Server]] = {}
        tail = b""
        for domain in settings.domains:
            tail += b"; domain=" + domain
        if settings.httponly:
            tail += b"; HttpOnly"
        if settings.secure:
            tail += b"; Secure"
        for attribute in settings.attributes:
            tail += b"; " + attribute
        self.tail = tail

    def learn_servers(self, servers: Sequence[Server]) -> None:
        """`servers` are the backend's from now on, in its order."""
        by_value: dict[bytes, list[Server]] = {}
        for server in servers:
            value = server.cookie
            if value:
                by_value.setdefault(value, []).append(server)
        self.by_value = by_value

    # --- requests
    def read(self, stream: HttpRules, *, ignored: bool, forced: bool) -> Server | None:
        """The server that the request names, if it may be asked; not taken yet.

        `ignored`: another choice was made, or persistence shall not count. `forced`: the server
        may be down. The cookie is taken out of the request where the server must not see it.
        """
        request = stream.request
        assert request is not None
        if self.settings.mode or self.settings.preserve:
            stream.txn.cookie_state = "NN"
        found: Server | None = None
        starts = self.starts
        #: where nothing is left of a header
        emptied: set[int] = set()
        for position, header in enumerate(request.headers):
            if header[3] != K_COOKIE or self.name not in header[1]:
                continue
            kept: list[bytes] = []
            changed = False
            for match in _split_cookies(header[1]):
                part = match[1]
                name, equal, value = part.partition(b"=")
                if not equal or name.strip(b" \t") != self.name:
                    if part:
                        kept.append(part)
                    continue
                value = value.strip(b" \t")
                delimiter = rest = b""
                if self.prefix:
                    value, delimiter, rest = value.partition(b"~")
                server = self._look_up(
                    stream, value, ignored=ignored or found is not None, forced=forced
                )
                found = found or server
                if delimiter:
                    kept.append(b" " + starts + rest)
                    changed = True
                elif self.settings.mode == "insert" and self.settings.indirect:
                    changed = True
                else:
                    kept.append(part)
            if changed:
                head = stream.txn.own_request(stream)
                text = b";".join(kept).strip(b" \t")
                if text:
                    head.headers[position] = make_header(b"cookie", text)
                else:
                    emptied.add(position)
        if emptied:
            head = stream.txn.own_request(stream)
            head.headers = [one for at, one in enumerate(head.headers) if at not in emptied]
        return found

    def _look_up(
        self, stream: HttpRules, value: bytes, *, ignored: bool, forced: bool
    ) -> Server | None:
        """The server that one value names, and the letter of the log."""
        txn = stream.txn
        if not self.prefix:
            value, bar, dates = value.partition(b"|")
            if bar and self._too_old(stream, dates):
                return None
        down = False
        if value and not ignored:
            for server in self.by_value.get(value, ()):
                running = server.shared.running
                if running or self.persist or forced:
                    self._note(stream, "V" if running else "D")
                    return server
                down = True
        letter = "D" if down else "U" if ignored else "I"
        if not (ignored and txn.cookie_state[0] in "VD"):
            self._note(stream, letter)
        return None

    def _note(self, stream: HttpRules, letter: str) -> None:
        """The first letter of the log; a cookie that is only looked at has none."""
        txn = stream.txn
        if txn.cookie_state != "--":
            txn.cookie_state = letter + txn.cookie_state[1]

    def _too_old(self, stream: HttpRules, dates: bytes) -> bool:
        """Take the dates of a cookie to heart; whether it counts no more."""
        txn, settings = stream.txn, self.settings
        last, _, first = dates.partition(b"|")
        now = (stream.ctx.now + stream.ctx.wall_offset) // 1000
        last_date, first_date = from_date(last) << 2, from_date(first) << 2
        letter = ""
        if _outside(first_date, settings.maxlife, now):
            letter = "O"
        elif _outside(last_date, settings.maxidle, now):
            letter = "E"
        if letter:
            self._note(stream, letter)
            return True
        txn.cookie_dates = (last_date, first_date)
        return False

    # --- responses
    def write(self, stream: HttpRules) -> None:
        """Change the Set-Cookie headers of the response, and add ours where it is due."""
        server = stream.srv
        settings, txn = self.settings, stream.txn
        response = stream.response
        if server is None or response is None:
            return
        value = server.cookie
        letter = "N"
        seen = False
        headers: list[Header] = []
        for header in response.headers:
            if header[3] == K_SET_COOKIE:
                name, equal, rest = header[1].partition(b"=")
                if equal and name.strip(b" \t") == self.name:
                    seen = True
                    letter = "P"
                    if settings.preserve:
                        pass
                    elif settings.mode == "insert" or settings.indirect:
                        letter = "D"
                        continue
                    elif value and settings.mode == "rewrite":
                        _, end, tail = rest.partition(b";")
                        header = make_header(b"set-cookie", self.starts + value + end + tail)
                        letter = "R"
                    elif value and self.prefix:
                        header = make_header(b"set-cookie", self.starts + value + b"~" + rest)
                        letter = "R"
            headers.append(header)
        if letter in "DR":
            txn.own_response(stream).headers = headers
        if txn.cookie_state != "--":
            txn.cookie_state = txn.cookie_state[0] + letter
        if settings.mode == "insert" and not (seen and settings.preserve) and self._due(stream):
            self._insert(stream, value)

    def _due(self, stream: HttpRules) -> bool:
        """Whether the client has to be told its server (again)."""
        settings, txn = self.settings, stream.txn
        if settings.postonly:
            assert stream.request is not None
            if stream.request.method != b"POST":
                return False
        if txn.ignore_persist:
            return False
        if not txn.direct:
            return True
        last, first = txn.cookie_dates
        now = (stream.ctx.now + stream.ctx.wall_offset) // 1000
        if (settings.maxidle or last) and (not last or last < now):
            return True
        return bool(settings.maxlife) != bool(first)

    def _insert(self, stream: HttpRules, value: bytes) -> None:
        settings, txn = self.settings, stream.txn
        if not value:
            text = self.starts + b"; Expires=Thu, 01-Jan-1970 00:00:01 GMT; path=/"
        else:
            text = self.starts + value
            if settings.maxidle or settings.maxlife:
                now = (stream.ctx.now + stream.ctx.wall_offset) // 1000
                text += b"|" + to_date(now + 3 >> 2)
                if settings.maxlife:
                    first = txn.cookie_dates[1]
                    text += b"|" + to_date(first >> 2 if first else now + 3 >> 2)
            text += b"; path=/"
        head = txn.own_response(stream)
        head.headers.append(make_header(b"set-cookie", text + self.tail))
        txn.cookie_state = txn.cookie_state[0] + ("U" if value and txn.direct else "I")
        if settings.nocache and stream.request is not None and cacheable(stream.request, head)[0]:
            head.headers.append(make_header(b"cache-control", b"private"))


def cacheable(request: RequestHead, response: ResponseHead) -> tuple[bool, bool]:
    """Whether a cache might keep the response: allowed, and fresh for some time or checkable
    (RFC 9111 section 3); and whether its cookies with it.
    """
    allowed = cookies = request.method in _CACHEABLE_METHODS and response.status in _CACHEABLE
    reason = False
    for name, value, _, _ in response.headers:
        if name == b"pragma":
            if value.lower() == b"no-cache":
                return False, False
        elif name == b"cache-control":
            for one in value.lower().split(b","):
                word = one.strip()
                if word == b"public":
                    allowed = cookies = True
                elif word in _FORBIDDING:
                    allowed = cookies = False
                elif word.startswith(b'no-cache="set-cookie'):
                    cookies = False
                elif word.startswith((b"max-age", b"s-maxage")):
                    reason = True
        elif name in _REASONS:
            reason = True
    return allowed and reason, cookies

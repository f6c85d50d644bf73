"""Credentials of a request, and whether a `userlist` knows them (manual 7.3.6: http_auth family).

Passwords are compared by crypt(3), which is meant to be slow (milliseconds), and browsers send them
with every request. So each thread remembers credentials that were right, as a digest keyed with
a number of its own that nobody knows: at most `_REMEMBERED` for each list. Wrong ones are not
remembered: nobody can push the right ones out by guessing.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from mtproxy.base import crypt
from mtproxy.rules.points import Need
from mtproxy.rules.tables import ArgKind, Fetch, optional, required
from mtproxy.rules.types import Type, Value

if TYPE_CHECKING:
    from mtproxy.base.settings import UserSettings
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Evaluate, Every
    from mtproxy.rules.view import View

#: credentials that were right, for each list and thread
_REMEMBERED: Final = 1024

_match_base64 = re.compile(rb"[A-Za-z0-9+/]*={0,2}").fullmatch


def _field(view: View) -> bytes:
    """The name of the field that carries the credentials."""
    request = view.request
    assert request is not None
    if "http-use-proxy-header" in view.fe.settings.options and request.target[:1] not in b"/*":
        return b"proxy-authorization"
    return b"authorization"


def _scheme(view: View, name: bytes) -> tuple[bytes, bytes] | None:
    """Scheme and credentials of a field; None where it is missing or has no scheme."""
    request = view.request
    if request is None:
        return None
    for header in request.headers:
        if header[0] == name:
            # a comma would begin a second value
            value = header[1].partition(b",")[0].rstrip(b" \t")
            scheme, space, rest = value.partition(b" ")
            return (scheme, rest.lstrip(b" ")) if space and scheme else None
    return None


def _is(scheme: bytes, wanted: bytes) -> bool:
    """HAProxy takes the beginning of a scheme's name for it."""
    return wanted.startswith(scheme.lower())


def _basic(view: View) -> tuple[bytes, bytes] | None:
    """User and password of the Basic scheme (RFC 7617)."""
    if view.request is None:
        return None
    found = _scheme(view, _field(view))
    if found is None or not _is(found[0], b"basic") or len(found[1]) % 4:
        return None
    if _match_base64(found[1]) is None:
        return None
    try:
        text = binascii.a2b_base64(found[1])
    except binascii.Error:
        return None
    user, colon, password = text.partition(b"\0")[0].partition(b":")
    return (user, password) if colon else None


def _user(view: View) -> bytes | None:
    known = _basic(view)
    return None if known is None else known[0]


def _password(view: View) -> bytes | None:
    known = _basic(view)
    return None if known is None else known[1]


def _type(view: View) -> bytes | None:
    if view.request is None:
        return None
    if _basic(view) is not None:
        return b"Basic"
    return None if _own_bearer(view) is None else b"Bearer"


def _own_bearer(view: View) -> bytes | None:
    found = _scheme(view, _field(view))
    if found is None or _is(found[0], b"basic") or not _is(found[0], b"bearer"):
        return None
    return found[1]


def _bearer(args: tuple[Any, ...], _build: Build) -> Evaluate:
    if not args or args[0] is None:
        return lambda view: None if view.request is None else _own_bearer(view)
    name: bytes = args[0].lower()

    def bearer(view: View) -> bytes | None:
        if view.request is None:
            return None
        found = _scheme(view, name)
        if found is None or found[0].lower() != b"bearer":
            return b""
        return found[1]

    return bearer


class Checker:
    """A userlist on one thread. `right(view)` is the user whose credentials a request has."""

    def __init__(self, users: Mapping[str, UserSettings]) -> None:
        self.users = {name.encode("utf-8", "surrogateescape"): user for name, user in users.items()}
        self._key = os.urandom(32)
        self._right: dict[bytes, None] = {}

    def right(self, view: View) -> bytes | None:
        """The user's name; None: there are no credentials, or they are wrong."""
        known = _basic(view)
        return known[0] if known is not None and self.check(*known) else None

    def check(self, name: bytes, password: bytes) -> bool:
        """Whether this is the user's password. As slow as crypt(3) unless it was right before."""
        user = self.users.get(name)
        if user is None or user.password is None:
            return False
        if user.insecure:
            return hmac.compare_digest(password, user.password)
        digest = hashlib.blake2b(b"%d:%b%b" % (len(name), name, password), key=self._key).digest()
        if digest in self._right:
            return True
        if not crypt.matches(password, user.password):
            return False
        if len(self._right) >= _REMEMBERED:
            self._right.clear()
        self._right[digest] = None
        return True

    def groups(self, name: bytes) -> tuple[bytes, ...]:
        """The groups of a user of the list."""
        return tuple(group.encode("utf-8", "surrogateescape") for group in self.users[name].groups)


def _checker(args: tuple[Any, ...], build: Build) -> Checker:
    return Checker(build.shared.settings.userlists[args[0]])


def _auth(args: tuple[Any, ...], build: Build) -> Evaluate:
    checker = _checker(args, build)

    def auth(view: View) -> bool | None:
        known = _basic(view)
        return None if known is None else checker.check(*known)

    return auth


def _group(args: tuple[Any, ...], build: Build) -> Evaluate:
    return _checker(args, build).right


def _groups(args: tuple[Any, ...], build: Build) -> Every:
    """In ACLs the groups of the user are compared rather than its name."""
    checker = _checker(args, build)
    groups_of: dict[bytes, tuple[bytes, ...]] = {
        name: checker.groups(name) for name in checker.users
    }

    def groups(view: View) -> Iterator[Value]:
        name = checker.right(view)
        return iter(()) if name is None else iter(groups_of[name])

    return groups


_IN: Final = Need.REQ_HEAD

FETCHES: tuple[Fetch, ...] = (
    Fetch("http_auth", Type.BOOL, _IN, make=_auth, args=required(ArgKind.USERLIST), http=True),
    Fetch(
        "http_auth_group",
        Type.STR,
        _IN,
        make=_group,
        args=required(ArgKind.USERLIST),
        every=_groups,
        http=True,
    ),
    Fetch("http_auth_bearer", Type.STR, _IN, make=_bearer, args=optional(ArgKind.STR), http=True),
    Fetch("http_auth_pass", Type.STR, _IN, call=_password, http=True),
    Fetch("http_auth_type", Type.STR, _IN, call=_type, http=True),
    Fetch("http_auth_user", Type.STR, _IN, call=_user, http=True),
)

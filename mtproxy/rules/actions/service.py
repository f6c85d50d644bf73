"""use-service, and what is refused: the cache, SPOE, Lua (manual 4.2).

A service answers requests here. `use-service prometheus-exporter` tells the counters (stats.
prometheus). `use-service python.MODULE.FUNCTION` calls a function of an
installed Python module: `FUNCTION(view) -> (status, [(name, value), ...], body)`, all of them
bytes but the status. It runs on the connection's thread and must not block. What it raises is
reported, and the client gets a 500.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mtproxy.base.nearest import nearest
from mtproxy.base.report import say
from mtproxy.http.headers import Header, make_header, parse_field_line
from mtproxy.rules.reply import Message, Reply
from mtproxy.rules.tables import Action
from mtproxy.rules.verdict import Answer

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Act
    from mtproxy.rules.view import View

type Service = Callable[[View], tuple[int, list[tuple[bytes, bytes]], bytes]]

_REQUEST = frozenset({"http-request"})
_PREFIX = "python."
#: services of this program by the name that HAProxy gives them
SERVICES = ("prometheus-exporter",)


class ServiceReply(Reply):
    """The answer of a Python function."""

    __slots__ = ("function", "name")

    def __init__(self, name: str, function: Service) -> None:
        self.name = name
        self.function = function

    def message(self, view: View) -> Message | None:
        outer = sys.exception()
        try:
            status, fields, body = self.function(view)
            headers = [_header(name, value) for name, value in fields]
            headers.append(make_header(b"content-length", b"%d" % len(body)))
            return Message(status, _reason(status), headers, body)
        except Exception as error:  # noqa: BLE001  # somebody else's code: reported, answered with 500
            say("alert", f"service {self.name} failed:\n{_told(error, outer)}")
            return None


def _told(error: Exception, outer: BaseException | None) -> str:
    """The traceback with what the service itself handled, but not with `outer`, which was being
    handled when the service was called: the proxy's own affair.
    """
    left: list[BaseException] = [error]
    while left:
        one = left.pop()
        if one.__context__ is outer:
            one.__context__ = None
        left += [inner for inner in (one.__cause__, one.__context__) if inner is not None]
    return "".join(traceback.format_exception(error))


def _header(name: bytes, value: bytes) -> Header:
    found = parse_field_line(name + b": " + value)
    if found is None:
        raise ValueError(f"{name!r}: {value!r} is no header field")
    return found


def _reason(status: int) -> bytes:
    from http import HTTPStatus

    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b"Unknown"


def _parse(reader: RuleReader) -> str:
    name = reader.value("a service name")
    if name.startswith("lua."):
        raise reader.error("Lua is known but not supported by mtproxy yet; see 'python.'", name)
    if name in SERVICES:
        return name
    if not name.startswith(_PREFIX):
        raise reader.error(
            f"'{name}' is no service: 'python.MODULE.FUNCTION' names a function of a module",
            name,
            nearest(name, SERVICES),
        )
    try:
        find(name)
    except (ImportError, AttributeError, TypeError) as error:
        raise reader.error(f"'{name}' cannot be used: {error}", name) from None
    return name


def find(name: str) -> Service:
    """The function that `python.MODULE.FUNCTION` names. Raises ImportError, AttributeError, or
    TypeError where it cannot be called.
    """
    module, _, attribute = name.removeprefix(_PREFIX).rpartition(".")
    if not module:
        raise ImportError("a module and a function are expected behind 'python.'")
    function: Any = getattr(importlib.import_module(module), attribute)
    if not callable(function):
        raise TypeError(f"{attribute} is no function")
    service: Service = function
    return service


def _build(name: str, build: Build) -> Act:
    reply = (
        build.shared.services[name](build) if name in SERVICES else ServiceReply(name, find(name))
    )
    answer = Answer(reply)
    return lambda _view: answer


ACTIONS: tuple[Action, ...] = (
    Action("use-service", _REQUEST, _parse, _build, final=True),
    Action("cache-use", _REQUEST, later="the cache"),
    Action("cache-store", frozenset({"http-response"}), later="the cache"),
)

"""Looks at the process, and words to its operator (manual 7.3.1: debug, nbsrv, srv_queue).

Functions belong to the thread that made them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtproxy.rules.casts import to_text
from mtproxy.rules.tables import ArgKind, Converter, optional
from mtproxy.rules.types import Type, Value, type_of

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View

_PRINTABLE = bytes(byte if 0x20 <= byte < 0x7F else 0x2E for byte in range(256))


def _debug(args: tuple[Any, ...], build: Build) -> Convert:
    """Writes what comes and passes it on."""
    prefix = (args[0] or b"").decode("utf-8", "surrogateescape")
    write = build.room.thread_logs.sink(args[1] or "buf0")

    def show(value: Value, _view: View) -> Value:
        text = to_text(value).translate(_PRINTABLE).decode()
        write(f"[debug] {prefix}: type={type_of(value)} <{text}>")
        return value

    return show


def _nbsrv(_args: tuple[Any, ...], build: Build) -> Convert:
    backends = build.room.backends

    def count(value: Any, _view: View) -> int | None:
        backend = backends.get(value.decode("latin-1"))
        return None if backend is None else usable_servers(backend.shared)

    return count


def usable_servers(backend: Any) -> int:
    """Servers of a backend that get traffic now: backups only where no other is left."""
    if backend.active:
        return int(backend.active)
    if not backend.backup:
        return 0
    return int(backend.backup) if "allbackups" in backend.settings.options else 1


def _srv_queue(_args: tuple[Any, ...], build: Build) -> Convert:
    """Sessions that wait for a server, `backend/server` or one of the current proxy."""
    backends = build.room.backends
    current = build.proxy.name

    def waiting(value: Any, _view: View) -> int | None:
        name, slash, server = value.decode("latin-1").partition("/")
        if not slash:
            name, server = current, name
        backend = backends.get(name)
        if backend is None:
            return None
        for one in backend.shared.servers:
            if one.settings.name == server:
                return int(sum([counters.queue_cur for counters in one.side_counters]))
        return None

    return waiting


_DEVICES = "device detection"

CONVERTERS: tuple[Converter, ...] = (
    Converter("debug", Type.ANY, Type.ANY, _debug, optional(ArgKind.STR, ArgKind.SINK)),
    Converter("nbsrv", Type.STR, Type.SINT, _nbsrv),
    Converter("srv_queue", Type.STR, Type.SINT, _srv_queue),
    Converter("51d.single", Type.STR, Type.STR, later=_DEVICES),
    Converter("da-csv-conv", Type.STR, Type.STR, later=_DEVICES),
    Converter("x509_v_err_str", Type.SINT, Type.STR, later="TLS"),
)

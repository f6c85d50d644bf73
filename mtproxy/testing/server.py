"""A server whose every connection is a function: `handler(wire)` runs in a thread of its own.

What a handler raises is kept and raised again by `close()` (so by leaving the `with` block): a
mistake there fails the test. Only a peer that goes away early is normal, and counted in `aborted`.
`_wires` and the counters are guarded by `_lock`; everything else is written before the threads
start.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from mtproxy.testing.waiting import PATIENCE
from mtproxy.testing.wire import PeerClosed, Wire

type Handler = Callable[[Wire], None]
type HostPort = tuple[str, int]


def listen_on(address: HostPort | str, backlog: int = 128) -> socket.socket:
    """A listening socket on host and port, a UNIX path, or an abstract name ("@name")."""
    if isinstance(address, str):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind("\0" + address[1:] if address.startswith("@") else address)
    else:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    sock.listen(backlog)
    return sock


class Server:
    """Accepts from the moment it is made until `close()`."""

    def __init__(
        self,
        handler: Handler,
        address: HostPort | str = ("127.0.0.1", 0),
        *,
        backlog: int = 128,
        seconds: float = PATIENCE,
    ) -> None:
        self._handler = handler
        self._seconds = seconds
        self._listener = listen_on(address, backlog)
        self._unix_path = address if isinstance(address, str) and address[0] != "@" else None
        self.address: HostPort | str = address
        self.port = 0
        if not isinstance(address, str):
            self.port = self._listener.getsockname()[1]
            self.address = (address[0], self.port)
        self._lock = threading.Lock()
        self._wires: dict[Wire, threading.Thread] = {}
        self._errors: list[BaseException] = []
        self.accepted = 0
        self.aborted = 0
        self._closing = False
        self._thread = threading.Thread(target=self._accept, name="server", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(quiet=kind is not None)

    def _accept(self) -> None:
        while not self._closing:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                if self._closing:
                    return
                raise
            wire = Wire(sock, self._seconds)
            thread = threading.Thread(target=self._serve, args=(wire,), daemon=True)
            with self._lock:
                self.accepted += 1
                self._wires[wire] = thread
            thread.start()

    def _serve(self, wire: Wire) -> None:
        try:
            self._handler(wire)
        except (PeerClosed, ConnectionError):
            with self._lock:
                self.aborted += 1
        except BaseException as error:  # noqa: BLE001 - whatever it is, close() raises it
            with self._lock:
                if not self._closing:
                    self._errors.append(error)
        finally:
            wire.close()
            with self._lock:
                self._wires.pop(wire, None)

    def open_connections(self) -> int:
        with self._lock:
            return len(self._wires)

    def reset_all(self) -> int:
        """Resets (RST) every open connection; the number of them.

        The sockets are closed by the threads that own them: closing a descriptor under a blocked
        recv would leave it blocked. SHUT_RD wakes the receiver, and linger 0 makes its close a RST.
        """
        with self._lock:
            wires = list(self._wires)
            for wire in wires:
                with contextlib.suppress(OSError):
                    wire.sock.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )
                    wire.sock.shutdown(socket.SHUT_RD)
        return len(wires)

    def stop_listening(self) -> None:
        """Connections are refused from now on; open ones go on."""
        self._closing = True
        with contextlib.suppress(OSError):  # ENOTCONN: shutdown of a listener still wakes accept
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._listener.close()
        if self._unix_path is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._unix_path)

    def close(self, *, quiet: bool = False) -> None:
        """Ends everything; raises the first error of a handler unless `quiet`."""
        if not self._closing:
            self.stop_listening()
        with self._lock:
            errors = list(self._errors)
            threads = dict(self._wires)
        for wire in threads:
            with contextlib.suppress(OSError):
                wire.sock.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + PATIENCE
        for thread in threads.values():
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        if errors and not quiet:
            raise errors[0]


#: ports of `free_port` are multiples of this, so that a test may use the neighbours too
_PORT_STEP = 4
#: held until the process ends, see `free_port`
_reservations: list[socket.socket] = []


def free_port() -> int:
    """A TCP port on 127.0.0.1 where nothing listens now (for `bind` lines that need a number, and
    for servers that must refuse).

    Nobody else is given it while this process lives: it lies below the ports that the kernel gives
    to clients and to `bind(0)`, and an abstract socket named after it tells other test processes
    that it is taken.
    """
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    top = low if low > 20_000 else 60_000
    for _ in range(1000):
        port = random.randrange(10_000, top, _PORT_STEP)
        reservation = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            reservation.bind(f"\0mtproxy-test-port-{port}")
            with socket.socket() as sock:
                sock.bind(("0.0.0.0", port))
        except OSError:  # somebody else's
            reservation.close()
            continue
        _reservations.append(reservation)
        return port
    raise RuntimeError("no free port")

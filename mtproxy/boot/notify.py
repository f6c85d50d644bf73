"""Telling a service manager how far the process is (sd_notify(3)): one datagram per change.

Nothing happens unless $NOTIFY_SOCKET names a socket. Main thread and thread 0.
"""

from __future__ import annotations

import os
import socket

from mtproxy.boot.report import tell


def ready(text: str) -> None:
    """It serves; `text` is shown as its status."""
    _send(f"READY=1\nMAINPID={os.getpid()}\nSTATUS={text}")


def stopping() -> None:
    """It has begun to stop."""
    _send("STOPPING=1\nSTATUS=stopping")


def _send(text: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
            sock.sendto(text.encode(), address)
    except OSError as e:
        tell("warning", f"cannot notify the service manager at $NOTIFY_SOCKET: {e.strerror}")

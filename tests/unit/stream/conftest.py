"""Contexts and sockets for streams."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from mtproxy.sched.context import ThreadContext
from mtproxy.testing.pools import clean_context
from mtproxy.testing.waiting import PATIENCE


@pytest.fixture
def ctx() -> Iterator[ThreadContext]:
    with clean_context() as ctx:
        yield ctx


@pytest.fixture
def listener(ctx: ThreadContext) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


@pytest.fixture
def client(ctx: ThreadContext, listener: socket.socket) -> Iterator[socket.socket]:
    """The client's end of a connection whose other end is `accepted`."""
    with socket.create_connection(listener.getsockname()) as sock:
        sock.settimeout(PATIENCE)
        yield sock


@pytest.fixture
def accepted(listener: socket.socket, client: socket.socket) -> Iterator[socket.socket]:
    sock, _ = listener.accept()
    with sock:
        yield sock

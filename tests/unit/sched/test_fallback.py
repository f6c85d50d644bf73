"""PollPoller: what epoll reports edge-triggered, reported by poll(2)."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest

from mtproxy.net.connection import HUP, IN, OUT, RDHUP, WATCH
from mtproxy.sched.fallback import PollPoller


class Owner:
    """An entry of the fd table that takes what a poll reports, as the loop does."""

    def __init__(self, ready: int = 0) -> None:
        self.ready = ready
        self.tasklet = None


class Pair:
    """A watched socket and its peer."""

    def __init__(self, ready: int = 0) -> None:
        self.sock, self.peer = socket.socketpair()
        self.sock.setblocking(False)
        self.fdtab: dict[int, Owner] = {}
        self.poller = PollPoller(self.fdtab)  # type: ignore[arg-type]
        self.owner = self.watch(ready)

    def watch(self, ready: int = 0) -> Owner:
        owner = self.fdtab[self.sock.fileno()] = Owner(ready)
        self.poller.register(self.sock.fileno(), WATCH)
        return owner

    def turn(self) -> int:
        """One poll; the bits that came, which the owner has now."""
        came = 0
        for fd, bits in self.poller.poll(0, 100):
            came |= bits
            self.fdtab[fd].ready |= bits
        return came

    def close(self) -> None:
        self.sock.close()
        self.peer.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_readiness_is_reported_once(pair: Pair) -> None:
    assert pair.turn() == OUT
    assert pair.turn() == 0
    pair.peer.send(b"x")
    assert pair.turn() == IN
    assert pair.turn() == 0


def test_a_cleared_bit_is_asked_for_again(pair: Pair) -> None:
    pair.turn()
    pair.peer.send(b"x")
    assert pair.turn() == IN
    pair.owner.ready &= ~IN  # without having read: poll tells again
    assert pair.turn() == IN
    pair.sock.recv(1)
    pair.owner.ready &= ~(IN | OUT)
    assert pair.turn() == OUT


def test_the_end_of_input_is_reported_beside_unread_data(pair: Pair) -> None:
    pair.peer.send(b"x")
    assert pair.turn() == IN | OUT
    pair.peer.shutdown(socket.SHUT_WR)
    assert pair.turn() == RDHUP
    assert pair.turn() == 0


def test_a_broken_descriptor_is_not_reported_for_ever(pair: Pair) -> None:
    pair.peer.close()
    assert pair.turn() & HUP
    assert pair.turn() == 0
    assert pair.turn() == 0


def test_a_bit_that_was_known_before_is_not_reported() -> None:
    """A connection says itself that it may be written to at first."""
    pair = Pair(ready=IN | OUT)
    assert pair.turn() == 0
    pair.owner.ready = OUT
    pair.peer.send(b"x")
    assert pair.turn() == IN
    pair.close()


def test_level_triggered_descriptors_stay_reported(pair: Pair) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        fd = listener.fileno()
        exclusive = 1 << 28
        pair.fdtab[fd] = Owner()
        pair.poller.register(fd, select.EPOLLIN | exclusive)
        with socket.create_connection(listener.getsockname()):
            for _ in range(3):
                assert (fd, select.POLLIN) in pair.poller.poll(1, 100)
            pair.poller.unregister(fd)
            pair.turn()
            assert pair.poller.poll(0, 100) == []


def test_who_left_the_table_is_forgotten(pair: Pair) -> None:
    """Closing a connection takes it out of the table and says nothing to the poller."""
    pair.turn()
    fd = pair.sock.fileno()
    del pair.fdtab[fd]
    pair.peer.send(b"x")
    assert pair.turn() == 0
    pair.owner = pair.watch()
    assert pair.turn() == IN | OUT


def test_a_number_that_is_used_again_starts_anew(pair: Pair) -> None:
    """Closed and opened again between two polls, with the same number."""
    pair.turn()
    fd = pair.sock.fileno()
    pair.sock.close()
    pair.peer.close()
    other, peer = socket.socketpair()
    if other.fileno() != fd:
        pytest.skip("the kernel gave another number")
    pair.sock, pair.peer = other, peer
    peer.send(b"x")
    pair.owner = pair.watch()
    assert pair.turn() == IN | OUT


def test_an_edge_becomes_a_level(pair: Pair) -> None:
    pair.turn()
    fd = pair.sock.fileno()
    pair.peer.send(b"x")
    pair.poller.register(fd, IN)
    assert [pair.poller.poll(0, 10) for _ in range(2)] == [[(fd, IN)]] * 2


def test_unregistering_an_edge(pair: Pair) -> None:
    pair.turn()
    pair.poller.unregister(pair.sock.fileno())
    pair.peer.send(b"x")
    assert pair.turn() == 0


def test_it_waits(pair: Pair) -> None:
    pair.turn()
    assert pair.poller.poll(0.01, 10) == []
    pair.peer.send(b"x")
    assert pair.poller.poll(-1, 10) == [(pair.sock.fileno(), IN)]

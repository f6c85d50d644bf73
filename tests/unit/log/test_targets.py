"""Senders against real sockets, pipes and files: nothing blocks, what is lost is counted."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.log_settings import LogSettings
from mtproxy.log import targets
from mtproxy.testing.waiting import PATIENCE

LINE = b"<134>Nov 30 13:57:10 mtproxy[1]: " + b"x" * 150 + b"\n"
#: more than any socket buffer or pipe takes
MANY = 20_000


def udp_receiver() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(PATIENCE)
    return sock


def unix_receiver(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(path))
    sock.settimeout(PATIENCE)
    return sock


def udp_target(port: int) -> targets.LogTarget:
    address = Address(AddressKind.UDP4, "127.0.0.1", port, text=f"127.0.0.1:{port}")
    return targets.open_target(LogSettings(address))


def unix_target(path: Path) -> targets.LogTarget:
    return targets.open_target(LogSettings(Address(AddressKind.UNIX, str(path), text=str(path))))


def finishes(action, seconds: float = PATIENCE) -> bool:
    """Whether `action()` returns: what must not block may not hang the test either."""
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def test_udp_arrives_as_sent():
    with udp_receiver() as sink:
        target = udp_target(sink.getsockname()[1])
        target.send(LINE)
        assert sink.recv(2000) == LINE
        assert (target.sent, target.dropped) == (1, 0)
        assert target.name == f"127.0.0.1:{sink.getsockname()[1]}"
        target.close()


def test_udp_over_ipv6():
    try:
        sink = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        sink.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with sink:
        sink.settimeout(PATIENCE)
        address = Address(AddressKind.UDP6, "::1", sink.getsockname()[1])
        target = targets.open_target(LogSettings(address))
        target.send(LINE)
        assert sink.recv(2000) == LINE
        target.close()


def test_udp_nobody_listens_then_somebody_does():
    with udp_receiver() as sink:
        port = sink.getsockname()[1]
    target = udp_target(port)
    for _ in range(10):
        target.send(LINE)
    # every message but perhaps the last was reported as refused by the kernel
    assert target.dropped >= 9
    assert target.sent + target.dropped == 10
    lost = target.dropped
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", port))
        sink.settimeout(PATIENCE)
        target.send(LINE)
        assert sink.recv(2000) == LINE
        target.send(LINE)
        assert sink.recv(2000) == LINE
    assert target.dropped <= lost + 1
    target.close()


def test_udp_without_a_route_yet(monkeypatch: pytest.MonkeyPatch):
    """A log server that cannot be reached must not prevent the start."""
    now = [1000.0]
    with udp_receiver() as sink:
        address = sink.getsockname()
        real = socket.socket.connect

        def no_route(_sock: socket.socket, _address: object) -> None:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

        monkeypatch.setattr(targets.socket.socket, "connect", no_route, raising=False)
        target = targets.DatagramTarget("log", socket.AF_INET, address, lambda: now[0])
        target.send(LINE)
        assert (target.sent, target.dropped) == (0, 1)
        monkeypatch.setattr(targets.socket.socket, "connect", real)
        now[0] += targets.RECONNECT_INTERVAL
        target.send(LINE)
        assert sink.recv(2000) == LINE
        assert (target.sent, target.dropped) == (1, 1)
        target.close()


def test_udp_too_long_is_dropped():
    with udp_receiver() as sink:
        target = udp_target(sink.getsockname()[1])
        target.send(b"x" * 70_000)
        assert (target.sent, target.dropped) == (0, 1)
        target.close()


def test_unix_sink_that_does_not_read(tmp_path: Path):
    path = tmp_path / "log"
    with unix_receiver(path) as sink:
        target = unix_target(path)

        def send_many() -> None:
            for _ in range(MANY):
                target.send(LINE)

        assert finishes(send_many)
        assert target.sent + target.dropped == MANY
        assert target.dropped > MANY // 2
        # what was accepted is whole, and sending works again once there is room
        for _ in range(target.sent):
            assert sink.recv(2000) == LINE
        before = target.sent
        target.send(LINE)
        assert target.sent == before + 1
        assert sink.recv(2000) == LINE
        target.close()


def test_unix_daemon_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(targets, "RECONNECT_INTERVAL", 0.0)
    path = tmp_path / "log"
    sink = unix_receiver(path)
    target = unix_target(path)
    target.send(b"one\n")
    assert sink.recv(100) == b"one\n"
    sink.close()
    target.send(b"lost\n")
    assert (target.sent, target.dropped) == (1, 1)
    path.unlink()
    target.send(b"lost\n")
    assert (target.sent, target.dropped) == (1, 2)
    with unix_receiver(path) as sink:
        target.send(b"two\n")
        assert sink.recv(100) == b"two\n"
        assert (target.sent, target.dropped) == (2, 2)
    target.close()


def test_unix_restart_without_a_lost_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(targets, "RECONNECT_INTERVAL", 0.0)
    path = tmp_path / "log"
    sink = unix_receiver(path)
    target = unix_target(path)
    sink.close()
    path.unlink()
    with unix_receiver(path) as sink:
        target.send(b"two\n")
        assert sink.recv(100) == b"two\n"
    assert target.dropped == 0
    target.close()


def test_unix_daemon_that_starts_later(tmp_path: Path):
    path = tmp_path / "log"
    now = [1000.0]
    target = targets.DatagramTarget("log", socket.AF_UNIX, str(path), lambda: now[0])
    target.send(b"lost\n")
    assert target.dropped == 1
    with unix_receiver(path) as sink:
        # too early to look again: a missing daemon must not cost a connect per message
        target.send(b"lost\n")
        assert target.dropped == 2
        now[0] += targets.RECONNECT_INTERVAL
        target.send(b"there\n")
        assert sink.recv(100) == b"there\n"
    target.close()
    target.close()


def test_unix_message_too_long_keeps_the_connection(tmp_path: Path):
    path = tmp_path / "log"
    with unix_receiver(path) as sink:
        target = unix_target(path)
        target.send(b"x" * 10_000_000)
        assert target.dropped == 1
        target.send(b"short\n")
        assert sink.recv(100) == b"short\n"
        target.close()


def test_abstract_socket():
    name = f"mtproxy-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sink:
        sink.bind(b"\0" + name.encode())
        sink.settimeout(PATIENCE)
        target = targets.open_target(LogSettings(Address(AddressKind.ABNS, name)))
        target.send(LINE)
        assert sink.recv(2000) == LINE
        target.close()


def fd_target(fd: int) -> targets.LogTarget:
    return targets.open_target(LogSettings(Address(AddressKind.FD, fd=fd, text=f"fd@{fd}")))


def test_pipe_that_nobody_reads():
    reader, writer = os.pipe()
    try:
        target = fd_target(writer)

        def send_many() -> None:
            for _ in range(MANY):
                target.send(LINE)

        assert finishes(send_many)
        assert target.sent + target.dropped == MANY
        assert target.dropped > 0
        # The description that we share with others stays blocking.
        assert os.get_blocking(writer)
        target.close()
        os.close(writer)
        writer = -1
        received = b""
        while data := os.read(reader, 65536):
            received += data
        assert received == LINE * target.sent
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)


def test_a_line_that_went_out_in_part_is_finished_first():
    """Lines longer than PIPE_BUF may be cut by a full pipe; the next one waits for their rest."""
    long_line = b"y" * 9000 + b"\n"
    reader, writer = os.pipe()
    try:
        target = fd_target(writer)
        while not target.dropped:
            target.send(long_line)
        received = b""
        os.set_blocking(reader, False)
        for _ in range(50):
            try:
                while data := os.read(reader, 5000):
                    received += data
            except BlockingIOError:
                target.send(long_line)
        target.close()
        lines = received.split(b"\n")
        assert len(lines) > 40
        assert set(lines[:-1]) == {b"y" * 9000}
    finally:
        os.close(reader)
        os.close(writer)


def test_pipe_without_proc_is_asked_first(monkeypatch: pytest.MonkeyPatch):
    def no_proc(*_args: object) -> int:
        raise OSError("no /proc")

    reader, writer = os.pipe()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(targets.os, "open", no_proc)
            target = fd_target(writer)

        def send_many() -> None:
            for _ in range(MANY):
                target.send(LINE)

        assert finishes(send_many)
        assert target.dropped > 0
        assert target.sent + target.dropped == MANY
    finally:
        os.close(reader)
        os.close(writer)


def test_closed_pipe_counts_as_lost():
    reader, writer = os.pipe()
    target = fd_target(writer)
    os.close(reader)
    target.send(LINE)
    assert (target.sent, target.dropped) == (0, 1)
    target.close()
    os.close(writer)


def test_file_is_appended_where_its_owner_stands(tmp_path: Path):
    """Opening the file again would start at offset 0 and overwrite what the shell's `>` has got."""
    path = tmp_path / "out"
    with path.open("wb") as file:
        file.write(b"before\n")
        file.flush()
        target = fd_target(file.fileno())
        target.send(b"line\n")
        file.seek(0, os.SEEK_END)
        file.write(b"after\n")
        file.flush()
        target.close()
    assert path.read_bytes() == b"before\nline\nafter\n"


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_inherited_socket(kind: socket.SocketKind):
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    with ours, theirs:
        theirs.settimeout(PATIENCE)
        target = fd_target(ours.fileno())
        target.send(LINE)
        assert theirs.recv(2000) == LINE

        def send_many() -> None:
            for _ in range(MANY):
                target.send(LINE)

        assert finishes(send_many)
        assert target.dropped > 0
        assert ours.getblocking()
        target.close()


def test_standard_output(capfd: pytest.CaptureFixture[str]):
    target = targets.open_target(LogSettings(None, stdio="stdout"))
    target.send(b"hello\n")
    target.close()
    target = targets.open_target(LogSettings(None, stdio="stderr"))
    target.send(b"oops\n")
    target.close()
    assert capfd.readouterr() == ("hello\n", "oops\n")


def test_terminal():
    """Line discipline turns \\n into \\r\\n; our own description leaves the shell's blocking."""
    controller, terminal = os.openpty()
    try:
        target = fd_target(terminal)
        target.send(b"hello\n")
        assert os.read(controller, 100) == b"hello\r\n"
        assert os.get_blocking(terminal)

        def send_many() -> None:
            for _ in range(MANY):
                target.send(LINE)

        assert finishes(send_many)
        assert target.dropped > 0
        target.close()
    finally:
        os.close(controller)
        os.close(terminal)


def test_line_without_address_is_an_error():
    with pytest.raises(OSError, match="without an address"):
        targets.open_target(LogSettings(None))


def test_closed_descriptor_loses_messages():
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    target = fd_target(writer)
    target.send(b"x\n")
    assert (target.sent, target.dropped) == (0, 1)
    target.close()


def test_no_descriptor_left(monkeypatch):
    def refused(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    real = socket.socket
    monkeypatch.setattr(socket, "socket", refused)
    now = [1.0]
    target = targets.DatagramTarget("t", socket.AF_UNIX, "/nowhere", clock=lambda: now[0])
    target.waiting.append(b"x\n")
    target.flush()
    assert (target.sent, target.dropped) == (0, 1)
    monkeypatch.setattr(socket, "socket", real)
    now[0] += 1
    target.send(b"y\n")  # tries again: nobody listens there
    assert target.dropped == 2


# --- what one turn of the loop has logged


def test_flush_sends_in_order_and_counts():
    with udp_receiver() as sink:
        target = udp_target(sink.getsockname()[1])
        target.waiting += [b"1\n", b"x" * 70_000, b"2\n"]
        target.flush()
        assert (sink.recv(100), sink.recv(100)) == (b"1\n", b"2\n")
        assert (target.sent, target.dropped, target.waiting) == (2, 1, [])
        target.flush()
        assert target.sent == 2
        target.close()


def test_flush_after_the_daemon_was_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(targets, "RECONNECT_INTERVAL", 0.0)
    path = tmp_path / "log"
    sink = unix_receiver(path)
    target = unix_target(path)
    sink.close()
    path.unlink()
    target.waiting += [b"lost\n", b"lost too\n"]
    target.flush()
    assert (target.sent, target.dropped) == (0, 2)
    with unix_receiver(path) as sink:
        target.waiting += [b"1\n", b"2\n"]
        target.flush()
        assert (sink.recv(100), sink.recv(100)) == (b"1\n", b"2\n")
    assert target.sent == 2
    target.close()


def test_flush_of_a_refused_target():
    with udp_receiver() as sink:
        port = sink.getsockname()[1]
    target = udp_target(port)
    for _ in range(5):
        target.waiting += [LINE, LINE]
        target.flush()
    assert target.sent + target.dropped == 10
    assert target.dropped >= 9
    target.close()


def test_flush_of_a_pipe():
    reader, writer = os.pipe()
    try:
        target = fd_target(writer)
        target.waiting += [b"1\n", b"2\n"]
        target.flush()
        assert os.read(reader, 100) == b"1\n2\n"
        target.close()
    finally:
        os.close(reader)
        os.close(writer)

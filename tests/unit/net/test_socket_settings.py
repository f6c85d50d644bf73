"""Sockets as the configuration wants them."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mtproxy.base.addresses import Address, AddressKind, BindSettings, SourceSettings
from mtproxy.net.sockets import (
    FAST_OPEN,
    BindError,
    buffer_options,
    keepalive_options,
    listen,
    set_options,
    user_timeout_option,
)
from mtproxy.net.source import Source

TCP = socket.IPPROTO_TCP


def address(host: str = "127.0.0.1", port: int = 0) -> Address:
    kind = AddressKind.IPV6 if ":" in host else AddressKind.IPV4
    return Address(kind, host, port, text=f"{host}:{port}")


def bound(host: str = "127.0.0.1", **fields: Any) -> socket.socket:
    return listen(BindSettings(address(host), **fields), 10)


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    with socket.socket() as made:
        yield made


def test_a_plain_listener() -> None:
    with bound() as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 1
        assert sock.getsockopt(TCP, socket.TCP_NODELAY) == 1
        assert sock.getsockopt(TCP, socket.TCP_USER_TIMEOUT) == 0


def tcp_info(sock: socket.socket, at: int) -> int:
    """A 32-bit field of tcp_info (linux/tcp.h) behind its eight bytes."""
    return int.from_bytes(sock.getsockopt(TCP, socket.TCP_INFO, 104)[8 + 4 * at :][:4], "little")


def test_what_bind_lines_set() -> None:
    """`defer-accept`, `mss`, `tfo` and the backlog, read back from the kernel."""
    with bound(defer_accept=True, mss=-1200, tfo=True) as sock:
        assert sock.getsockopt(TCP, socket.TCP_DEFER_ACCEPT) >= 1
        assert sock.getsockopt(TCP, socket.TCP_MAXSEG) == 1200
        assert sock.getsockopt(TCP, socket.TCP_FASTOPEN) > 0
        assert tcp_info(sock, 5) == 10  # of a listening socket: its backlog
    with bound() as plain:
        assert plain.getsockopt(TCP, socket.TCP_DEFER_ACCEPT) == 0
        assert plain.getsockopt(TCP, socket.TCP_FASTOPEN) == 0


def test_an_interface() -> None:
    """Connections through another one find nobody there."""
    told: list[str] = []
    with listen(BindSettings(address(), interface="lo"), 10, warn=told.append) as sock:
        if told:
            pytest.skip(f"no right to bind to an interface: {told}")
        name = sock.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
        assert name.rstrip(b"\0") == b"lo"
    listen(BindSettings(address(), interface="none.such"), 10, warn=told.append).close()
    assert told == ["cannot bind receiver to device 'none.such' (No such device)"]


@pytest.mark.parametrize(
    ("host", "level", "name"), [("192.0.2.77", 0, 19), ("2001:db8::7", 41, 75)]
)
def test_foreign_addresses(host: str, level: int, name: int) -> None:
    """`transparent`: an address of another host can be listened on (IP_TRANSPARENT)."""
    with pytest.raises(BindError):
        bound(host)
    try:
        sock = bound(host, transparent=True)
    except BindError as error:
        pytest.skip(f"no right to be transparent: {error}")
    with sock:
        assert sock.getsockopt(level, name) == 1


def test_without_reuse_of_the_port() -> None:
    with listen(BindSettings(address()), 10, reuse_port=False) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 0
        taken = BindSettings(address(port=sock.getsockname()[1]))
        with pytest.raises(BindError, match=r"cannot bind socket \(Address already in use\) for"):
            listen(taken, 10)


def test_user_timeout_is_that_of_accepted_connections_too() -> None:
    with bound(tcp_ut=1234) as sock:
        client = socket.create_connection(sock.getsockname())
        sock.setblocking(True)
        accepted, _ = sock.accept()
        assert accepted.getsockopt(TCP, socket.TCP_USER_TIMEOUT) == 1234
        client.close()
        accepted.close()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"v6only": True}, 1), ({"v4v6": True}, 0), ({"v6only": True, "v4v6": True}, 1)],
)
def test_one_family_or_both(fields: dict[str, bool], expected: int) -> None:
    try:
        sock = bound("::", **fields)
    except BindError:
        pytest.skip("no IPv6")
    with sock:
        assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == expected


def test_what_the_system_does_by_default() -> None:
    try:
        plain = socket.socket(socket.AF_INET6)
        sock = bound("::")
    except (OSError, BindError):
        pytest.skip("no IPv6")
    with plain, sock:
        default = plain.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == default


def test_messages_name_the_address_itself(tmp_path: Path) -> None:
    """Also when it is one of a range or a list."""
    one = Address(AddressKind.IPV4, "192.0.2.77", 81, text="192.0.2.77:80-82")
    with pytest.raises(BindError, match=r"^cannot bind socket \(.*\) for \[192\.0\.2\.77:81\]$"):
        listen(BindSettings(one), 10)
    path = str(tmp_path / "no" / "socket")
    with pytest.raises(BindError, match=r"^cannot bind UNIX socket \(No such file .*\) \[/.*\]$"):
        listen(BindSettings(Address(AddressKind.UNIX, path, text=path)), 10)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
@pytest.mark.parametrize(
    ("uid", "gid", "owner"), [(65534, None, (65534, 0)), (None, 65533, (0, 65533))]
)
def test_owner_of_a_unix_socket(
    tmp_path: Path, uid: int | None, gid: int | None, owner: tuple[int, int]
) -> None:
    path = tmp_path / "s"
    where = Address(AddressKind.UNIX, str(path), text=str(path))
    with listen(BindSettings(where, uid=uid, gid=gid, mode=0o600), 10):
        status = path.stat()
        assert (status.st_uid, status.st_gid) == owner
        assert status.st_mode & 0o777 == 0o600


def test_options_reach_the_socket(sock: socket.socket) -> None:
    set_options(sock, keepalive_options(3, 44, 5) + user_timeout_option(777))
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert [sock.getsockopt(TCP, name) for name in _PROBES] == [3, 44, 5]
    assert sock.getsockopt(TCP, socket.TCP_USER_TIMEOUT) == 777
    before = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    set_options(sock, buffer_options(8192, 0))
    # the kernel doubles what it is told
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 16384 != before


_PROBES = (socket.TCP_KEEPCNT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)


def test_nothing_said_changes_nothing() -> None:
    assert user_timeout_option(None) == user_timeout_option(0) == ()
    assert buffer_options(0, 0) == ()


def test_a_unix_socket_takes_what_it_knows() -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        set_options(sock, keepalive_options(3, 4, 5) + buffer_options(8192, 0) + FAST_OPEN)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 16384
        Source(SourceSettings(address())).bind(sock)
        assert sock.getsockname() == ""


def test_source_without_a_port_leaves_the_port_to_connect(sock: socket.socket) -> None:
    with bound() as listener:
        Source(SourceSettings(address("127.0.0.9"))).bind(sock)
        assert sock.getsockname() == ("127.0.0.9", 0)
        sock.connect(listener.getsockname())
        assert sock.getsockname()[1] > 0


def test_source_of_ipv6() -> None:
    try:
        listener = bound("::1")
    except BindError:
        pytest.skip("no IPv6")
    with listener, socket.socket(socket.AF_INET6) as sock:
        Source(SourceSettings(address("::1"))).bind(sock)
        assert sock.getsockname()[:2] == ("::1", 0)
        sock.connect(listener.getsockname())


def test_source_of_another_family(sock: socket.socket) -> None:
    with pytest.raises(OSError) as caught:
        Source(SourceSettings(address("::1"))).bind(sock)
    assert caught.value.errno == errno.EAFNOSUPPORT

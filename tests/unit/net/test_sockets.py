"""Listening on every kind of address, and what is said when that fails."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mtproxy.base.addresses import Address, AddressKind, BindSettings
from mtproxy.net.sockets import (
    BindError,
    abstract_name,
    keepalive_options,
    listen,
    original_destination,
    peer_text,
    set_options,
    sockaddr,
)
from mtproxy.testing import procfs

V4 = Address(AddressKind.IPV4, "127.0.0.1", 0, text="127.0.0.1:0")
V6 = Address(AddressKind.IPV6, "::1", 0, text="[::1]:0")


def unix(path: Path) -> Address:
    return Address(AddressKind.UNIX, str(path), text=f"unix@{path}")


def abstract(name: str) -> Address:
    return Address(AddressKind.ABNS, name, text=f"abns@{name}")


def inherited(fd: int) -> Address:
    return Address(AddressKind.FD, fd=fd, text=f"fd@{fd}")


@pytest.fixture
def has_ipv6() -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return
    except OSError:
        pytest.skip("no IPv6 here")


@pytest.fixture
def name() -> Iterator[str]:
    """Of an abstract socket that nobody else uses."""
    return f"mtproxy-test-{os.getpid()}"


def accepted_by(listener: socket.socket, family: int, where: Any) -> socket.socket:
    """Connect to `where`; the listener's side of it, non-blocking as it is."""
    assert not listener.getblocking()
    with socket.socket(family) as client:
        client.connect(where)
        return listener.accept()[0]


@pytest.mark.parametrize(
    ("address", "port", "expected"),
    [
        (Address(AddressKind.IPV4, "1.2.3.4", 80), None, (socket.AF_INET, ("1.2.3.4", 80))),
        (Address(AddressKind.IPV4, "1.2.3.4", 80), 99, (socket.AF_INET, ("1.2.3.4", 99))),
        (Address(AddressKind.UDP4, "1.2.3.4", 514), None, (socket.AF_INET, ("1.2.3.4", 514))),
        (Address(AddressKind.IPV6, "::1", 80), None, (socket.AF_INET6, ("::1", 80, 0, 0))),
        (Address(AddressKind.UDP6, "::1", 80), 0, (socket.AF_INET6, ("::1", 0, 0, 0))),
        (Address(AddressKind.UNIX, "/a/b"), 9, (socket.AF_UNIX, "/a/b")),
        (Address(AddressKind.ABNS, "x"), None, (socket.AF_UNIX, b"\0x" + bytes(106))),
    ],
)
def test_sockaddr(address: Address, port: int | None, expected: tuple[int, object]) -> None:
    assert sockaddr(address, port) == expected


def test_an_inherited_descriptor_has_no_address() -> None:
    with pytest.raises(ValueError, match="inherited"):
        sockaddr(inherited(3))


def test_abstract_names_have_the_full_length() -> None:
    assert len(abstract_name("x")) == len(abstract_name("x" * 300)) == 108


def test_ipv4() -> None:
    with (
        listen(BindSettings(V4), 10) as listener,
        accepted_by(listener, socket.AF_INET, listener.getsockname()) as sock,
    ):
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "inherited"
        assert original_destination(sock) == listener.getsockname()
        assert not sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        set_options(sock, keepalive_options(None, None, None))
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.usefixtures("has_ipv6")
def test_ipv6_takes_ipv4_if_told() -> None:
    with (
        listen(BindSettings(V6), 10) as listener,
        accepted_by(listener, socket.AF_INET6, listener.getsockname()) as sock,
    ):
        assert original_destination(sock)[0] == "::1"
    everywhere = Address(AddressKind.IPV6, "::", 0, text="[::]:0")
    with listen(BindSettings(everywhere, v6only=True), 10) as listener, socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", listener.getsockname()[1])) != 0
    with listen(BindSettings(everywhere, v4v6=True), 10) as listener:
        where = ("127.0.0.1", listener.getsockname()[1])
        with accepted_by(listener, socket.AF_INET, where) as sock:
            assert original_destination(sock)[0] == "::ffff:127.0.0.1"


def test_a_unix_path(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with (
        listen(BindSettings(unix(path), mode=0o620), 10) as listener,
        accepted_by(listener, socket.AF_UNIX, str(path)) as sock,
    ):
        assert stat.S_IMODE(path.stat().st_mode) == 0o620
        assert original_destination(sock) == ("unix", 0)
        set_options(sock, keepalive_options(1, 2, 3))  # means nothing here, and does no harm
    assert list(tmp_path.iterdir()) == [path], "no temporary name is left"


def test_a_unix_path_is_taken_over(tmp_path: Path) -> None:
    """Of an old process, dead or alive: whoever connects now comes to the new one."""
    path = tmp_path / "s"
    (tmp_path / f"s.{os.getpid()}.tmp").write_text("left over")
    with (
        listen(BindSettings(unix(path)), 10) as old,
        listen(BindSettings(unix(path)), 10) as new,
        accepted_by(new, socket.AF_UNIX, str(path)),
        pytest.raises(BlockingIOError),
    ):
        old.accept()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(
    ("fields", "owner"),
    [({"uid": 1234}, (1234, 0)), ({"gid": 4321}, (0, 4321)), ({"uid": 1, "gid": 2}, (1, 2))],
)
def test_the_owner_of_a_unix_path(
    tmp_path: Path, fields: dict[str, int], owner: tuple[int, int]
) -> None:
    path = tmp_path / "s"
    with listen(BindSettings(unix(path), **fields), 10):  # type: ignore[arg-type]
        found = path.stat()
        assert (found.st_uid, found.st_gid) == owner


def test_an_abstract_name(name: str) -> None:
    with (
        listen(BindSettings(abstract(name)), 10) as listener,
        accepted_by(listener, socket.AF_UNIX, abstract_name(name)),
    ):
        pass


@pytest.mark.parametrize("listening", [True, False], ids=["listening", "bound only"])
def test_an_inherited_descriptor(listening: bool) -> None:
    given = socket.socket()
    given.bind(("127.0.0.1", 0))
    if listening:
        given.listen(1)
    with (
        listen(BindSettings(inherited(given.detach())), 10) as listener,
        accepted_by(listener, socket.AF_INET, listener.getsockname()) as sock,
    ):
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# --- refusals


def refused(bind: BindSettings) -> str:
    before = procfs.fd_targets(os.getpid()).items()
    with pytest.raises(BindError) as caught:
        listen(bind, 10)
    assert procfs.fd_targets(os.getpid()).items() <= before
    return str(caught.value)


def test_an_address_in_use() -> None:
    with socket.socket() as other:  # without SO_REUSEPORT
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = other.getsockname()[1]
        text = f"127.0.0.1:{port}"
        bind = BindSettings(Address(AddressKind.IPV4, "127.0.0.1", port, text=text))
        assert refused(bind) == f"cannot bind socket (Address already in use) for [{text}]"


def test_an_address_of_nobody_here() -> None:
    bind = BindSettings(Address(AddressKind.IPV4, "192.0.2.1", 80, text="192.0.2.1:80"))
    assert (
        refused(bind) == "cannot bind socket (Cannot assign requested address) for [192.0.2.1:80]"
    )


def test_an_abstract_name_in_use(name: str) -> None:
    with listen(BindSettings(abstract(name)), 10):
        assert (
            refused(BindSettings(abstract(name)))
            == f"cannot bind UNIX socket (Address already in use) [abns@{name}]"
        )


def test_a_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    assert "a file that is not a socket is in the way" in refused(BindSettings(unix(path)))
    assert path.read_text() == "precious"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "no" / "s"
    assert (
        refused(BindSettings(unix(path)))
        == f"cannot bind UNIX socket (No such file or directory) [{path}]"
    )


def test_an_owner_that_is_refused_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chown(*_args: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chown", chown)
    assert "Operation not permitted" in refused(BindSettings(unix(tmp_path / "s"), uid=1))
    assert list(tmp_path.iterdir()) == []


def test_descriptors_that_are_none_or_no_sockets(tmp_path: Path) -> None:
    assert "(Bad file descriptor) for [fd@99987]" in refused(BindSettings(inherited(99987)))
    with (tmp_path / "file").open("w") as file:
        assert "for [fd@" in refused(BindSettings(inherited(file.fileno())))
        file.write("still open")


def test_a_descriptor_that_cannot_listen() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        bind = BindSettings(inherited(datagrams.fileno()))
        with pytest.raises(BindError, match=r"Operation not supported.*fd@"):
            listen(bind, 10)
        assert datagrams.getsockname(), "it is not ours to close"


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (("1.2.3.4", 5), ("1.2.3.4", 5)),
        (("::1", 5, 0, 0), ("::1", 5)),
        ("", ("unix", 0)),
        (b"\0name", ("unix", 0)),
    ],
)
def test_peer_text(peer: object, expected: tuple[str, int]) -> None:
    assert peer_text(peer) == expected

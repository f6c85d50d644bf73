"""`persist rdp-cookie`: which server a cookie names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mtproxy.proxy.transitions import set_maint
from mtproxy.stream.persistence import RdpPersistence
from mtproxy.sync import stats
from mtproxy.testing.proxies import FakeContext, make_backend

#: 127.0.0.1 and port 28812, as the client tells them
ADDRESS, PORT = 16777343, 35952


@pytest.fixture(autouse=True)
def one_thread() -> None:
    stats.configure(2)


@pytest.mark.parametrize(
    ("cookie", "position"),
    [
        (b"%d.%d.0000" % (ADDRESS, PORT), 1),
        (b"+%d. %d." % (ADDRESS, PORT), 1),
        (b"%d.%d" % (ADDRESS, PORT), None),
        (b"%d.28812.0000" % ADDRESS, None),
        (b"1.%d.0000" % PORT, None),
        (b"99999999999.%d.0000" % PORT, None),
        (b"user", None),
        (b"", None),
        (None, None),
    ],
)
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("persist", [False, True])
def test_the_server_of_a_cookie(
    cookie: bytes | None, position: int | None, down: bool, persist: bool
) -> None:
    shared, (backend,) = make_backend([1, 1], options=("persist",) if persist else ())
    second = shared.servers[1]
    second.address = replace(second.address, port=28812)
    if down:
        set_maint(second, FakeContext())  # type: ignore[arg-type]
    server = RdpPersistence(backend, lambda _view: cookie).choose(None)  # type: ignore[arg-type]
    expected = position if persist or not down else None
    assert (None if server is None else server.position) == expected

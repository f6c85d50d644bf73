"""Fixtures of the end-to-end tests: the real program, real sockets, real clients.

Every test that takes `proxy` runs twice, on mtproxy and on Debian's HAProxy, with the same
configuration and the same assertions: what we expect of ourselves is proven to be what HAProxy
does. `E2E_PROGRAMS` chooses, e.g. `E2E_PROGRAMS=haproxy pytest tests/e2e`. A test marked
`only("mtproxy")` runs on one of them, `differs` says where we are not HAProxy on purpose.

A case on HAProxy that fails is tried again: once is enough to prove the expectation, and what
HAProxy does wrong now and then is not ours to mend. One on mtproxy has a single try.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from _pytest.runner import runtestprotocol

from mtproxy.testing.nginx import Nginx
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program, find_tool
from mtproxy.testing.server import Handler, HostPort, Server
from mtproxy.testing.syslog_sink import SyslogSink

PROGRAMS = os.environ.get("E2E_PROGRAMS", "mtproxy haproxy").split()
HAPROXY_TRIES = 3


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "e2e: runs the real program over real sockets")
    config.addinivalue_line("markers", "only(program): the test is about one of the programs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(os.path.dirname(__file__)):
            item.add_marker(pytest.mark.e2e)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "program" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("only")
        names = [p for p in PROGRAMS if only is None or p in only.args]
        metafunc.parametrize("program", names)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    callspec = getattr(item, "callspec", None)
    if callspec is None or callspec.params.get("program") != "haproxy":
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(HAPROXY_TRIES):
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if not any(report.failed for report in reports):
            break
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


type Start = Callable[..., Program]
type Serve = Callable[..., Server]


@pytest.fixture
def proxy(program: str) -> Iterator[Start]:
    """`proxy(config, ...)` starts the program under test and waits until it serves, so that no time
    that a test measures holds the start. `ready=False` does not wait; the rest is Program's."""
    if program == "haproxy" and find_tool("haproxy") is None:
        pytest.skip("haproxy is not installed: .ci/need haproxy")
    with ExitStack() as stack:

        def start(config: str, *, ready: bool = True, **options: object) -> Program:
            running = Program(program, config, **options)  # type: ignore[arg-type]
            stack.callback(_report, running)
            stack.enter_context(running)
            if ready:
                running.wait_ready()
            return running

        yield start


def _report(running: Program) -> None:
    """pytest shows this with a failed test."""
    if running.directory.exists():
        print(f"--- {running.program} ---\n{running.config}\n--- output\n{running.output()}")


@pytest.fixture
def origin() -> Iterator[Origin]:
    with Origin() as running:
        assert isinstance(running, Origin)
        yield running


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve(handler)` starts a server with one function per connection."""
    with ExitStack() as stack:

        def start(handler: Handler, address: HostPort | str = ("127.0.0.1", 0)) -> Server:
            return stack.enter_context(Server(handler, address))

        yield start


@pytest.fixture
def sink() -> Iterator[SyslogSink]:
    with SyslogSink() as running:
        yield running


@pytest.fixture
def nginx() -> Iterator[Nginx]:
    if find_tool("nginx") is None:
        pytest.skip("nginx is not installed: .ci/need nginx")
    with Nginx() as running:
        yield running

"""Every algorithm chooses the servers that HAProxy chooses, also when some are down."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.settings import ProxySettings
from mtproxy.cli.args import parse_args
from mtproxy.config.load import load
from mtproxy.http.cache import HeadCache
from mtproxy.http.h1_request import parse_request_head
from mtproxy.proxy.backend import Backend, BackendShared
from mtproxy.proxy.balance.keys import hash_function
from mtproxy.proxy.transitions import set_drain, set_maint, set_ready, set_weight
from mtproxy.rules.build import Build, RuleShared
from mtproxy.testing.proxies import FakeContext, Messages

GOLDEN = json.loads(Path(__file__).parents[2].joinpath("golden/proxy/hash.json").read_text())
CTX = FakeContext()


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """All cases in one configuration."""
    text = "defaults\n mode http\n timeout server 1s\n timeout connect 1s\n"
    for number, case in enumerate(GOLDEN["cases"]):
        text += f"backend b{number}\n"
        text += "".join(f" {line}\n" for line in case["lines"])
        for i, words in enumerate(case["servers"]):
            text += f" server s{i} 127.0.0.1:8{i} {words}\n"
    path = tmp_path_factory.mktemp("balance") / "haproxy.cfg"
    path.write_text(text)
    cmdline = parse_args(["-f", str(path)])
    settings, diagnostics = load(cmdline.paths, cmdline, environ={})
    assert settings is not None, [item.text() for item in diagnostics]
    return settings


def streams() -> list[Any]:
    """The requests as a picker sees them."""
    found = []
    for row in GOLDEN["requests"]:
        method = "POST" if "body" in row else "GET"
        head = f"{method} {row['target']} HTTP/1.1\r\nhost: {row['host']}\r\n"
        if row["key"]:
            head += f"x-key: {row['key']}\r\n"
        request = parse_request_head(f"{head}\r\n".encode(), HeadCache())
        found.append(
            SimpleNamespace(
                client_ip=row["src"],
                request=request,
                request_line=request.start_line,
                txn=SimpleNamespace(body=row.get("body", "").encode()),
                may_change=False,
            )
        )
    return found


def backend_of(settings: Any, number: int) -> tuple[BackendShared, Backend]:
    proxy: ProxySettings = settings.proxy(f"b{number}", backend=True)
    shared = BackendShared(proxy, 0, Messages())
    side = Backend(shared, 0)
    side.set_hash(hash_function(proxy, Build(RuleShared(settings), proxy, CTX, None)))
    return shared, side


def change(shared: BackendShared, step: str) -> None:
    what, number, *value = step.split()
    server = shared.servers[int(number)]
    match what:
        case "maint":
            set_maint(server, CTX)
        case "drain":
            set_drain(server, CTX)
        case "ready":
            set_ready(server, CTX)
        case "weight":
            set_weight(server, CTX, int(value[0]))


@pytest.mark.parametrize(
    "number",
    range(len(GOLDEN["cases"])),
    ids=lambda number: f"{number} {'; '.join(GOLDEN['cases'][number]['lines'])}",
)
def test_choices_are_haproxys(settings: Any, number: int) -> None:
    case = GOLDEN["cases"][number]
    shared, side = backend_of(settings, number)
    rows = streams()
    for step, expected in zip(["", *case["steps"]], case["orders"], strict=True):
        if step:
            change(shared, step)
        shared._check()
        order = ""
        for row in rows:
            server = side.pick(row)
            order += "-" if server is None else str(server.position)
            if server is not None:
                server.release()
        assert order == expected, step or "at first"


def test_threads_share_turns_and_maps(settings: Any) -> None:
    """What one thread takes is not given to the other."""
    number = next(
        i for i, case in enumerate(GOLDEN["cases"]) if case["lines"] == ["balance static-rr"]
    )
    shared, one = backend_of(settings, number)
    two = Backend(shared, 1)
    order = ""
    for turn, row in enumerate(streams()):
        server = (one, two)[turn % 2].pick(row)
        assert server is not None
        order += str(server.position)
    assert order == GOLDEN["cases"][number]["orders"][0]

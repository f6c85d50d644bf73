"""From drafts to Settings: ids, logs, what proxies of each kind keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtproxy.base.settings import Settings
from mtproxy.config import load

DEFAULTS = "defaults\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n"


def settings(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "a.cfg"
    path.write_text(DEFAULTS + text)
    found, diagnostics = load([str(path)], resolver=lambda name, family: [])
    assert found is not None, [item.text() for item in diagnostics]
    return found


def test_ids_are_given_as_haproxy_gives_them(tmp_path: Path) -> None:
    """The expected numbers are those of HAProxy's `show stat` for this input."""
    found = settings(
        tmp_path,
        "frontend a\n bind :80\n"
        "backend b\n id 1\n server x 192.0.2.1:1\n server y 192.0.2.1:1 id 1\n"
        " server z 192.0.2.1:1\n"
        "listen c\n id 3\n bind :81\n"
        "frontend d\n bind :82\n",
    )
    assert [(proxy.name, proxy.id) for proxy in found.proxies] == [
        ("a", 2),
        ("b", 1),
        ("c", 3),
        ("d", 5),
    ]
    assert [server.id for server in found.proxies[1].servers] == [2, 1, 4]


def test_log_global_stands_for_all_global_targets_whatever_their_place(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        "global\n log 192.0.2.1 local0\n"
        "frontend a\n bind :80\n log global\n log global\n log 192.0.2.9 local7\n"
        "frontend b\n bind :81\n log global\n no log\n"
        "global\n log 192.0.2.2 local1\n",
    )
    first, second = found.proxies
    assert [log.facility for log in first.logs] == ["local0", "local1", "local7"]
    assert second.logs == ()


def test_logs_of_defaults_are_taken_over_and_added_to(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        " log 192.0.2.1 local0\n"
        "frontend a\n bind :80\n log 192.0.2.2 local1\nfrontend b\n bind :81\n",
    )
    assert [len(proxy.logs) for proxy in found.proxies] == [2, 1]


def test_what_a_proxy_cannot_use_is_not_in_its_settings(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        " maxconn 5\n backlog 6\n default_backend b\nfrontend a\n bind :80\nbackend b\n",
    )
    front, back = found.proxies
    assert (front.maxconn, front.backlog, front.default_backend) == (5, 6, "b")
    assert (back.maxconn, back.backlog, back.default_backend) == (None, None, None)


def test_a_server_without_an_address(tmp_path: Path) -> None:
    found = settings(tmp_path, "backend b\n server s gone.example:80 init-addr none\n")
    (server,) = found.proxies[0].servers
    assert (server.unresolved, server.disabled, server.hostname) == (True, False, "gone.example")


@pytest.mark.parametrize(
    ("before", "after", "ids"),
    [
        ("global\n stats socket /tmp/x\n", "", [2, 3]),
        ("global\n stats timeout 3s\n", "global\n stats socket /tmp/x\n", [2, 3]),
        ("global\n stats maxconn 3\n", "", [2, 3]),
        ("", "global\n stats socket /tmp/x\n", [1, 2]),
        ("", "", [1, 2]),
    ],
)
def test_runtime_sockets_take_a_proxys_number(
    tmp_path: Path, before: str, after: str, ids: list[int]
) -> None:
    """As HAProxy's `show stat` shows it: the first statement about them decides where."""
    found = settings(tmp_path, f"{before}frontend a\n bind :80\nbackend b\n{after}")
    assert [proxy.id for proxy in found.proxies] == ids
    assert [proxy.forced_id for proxy in found.proxies] == [False, False]


def test_listeners_have_numbers_in_their_proxy(tmp_path: Path) -> None:
    found = settings(
        tmp_path, "frontend a\n bind :80\n bind :81,:82\n bind :83 id 2\nlisten b\n bind :84\n"
    )
    assert [bind.id for bind in found.proxies[0].binds] == [1, 3, 4, 2]
    assert [bind.id for bind in found.proxies[1].binds] == [1]


def test_given_ids_are_remembered(tmp_path: Path) -> None:
    found = settings(
        tmp_path, "backend b\n id 7\n server x 192.0.2.1:1\n server y 192.0.2.1:1 id 5\n"
    )
    assert found.proxies[0].forced_id
    assert [server.forced_id for server in found.proxies[0].servers] == [False, True]


def test_names_are_unique_per_capability(tmp_path: Path) -> None:
    found = settings(tmp_path, "frontend x\n bind :80\n default_backend x\nbackend x\n")
    assert found.proxy("x", backend=False) is found.proxies[0]
    assert found.proxy("x", backend=True) is found.proxies[1]


@pytest.mark.parametrize("value", ["0", "0s"])
def test_a_timeout_of_zero_is_none(tmp_path: Path, value: str) -> None:
    found = settings(tmp_path, f"frontend a\n bind :80\n timeout http-request {value}\n")
    assert found.proxies[0].timeouts.http_request is None


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    found = settings(tmp_path, "frontend a\n bind :80\n")
    with pytest.raises(AttributeError):
        found.proxies[0].mode = "http"  # type: ignore[misc]

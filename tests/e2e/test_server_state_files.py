"""Server state files: what one process knew of its servers, the next one knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mtproxy.testing.configs import HTTP
from mtproxy.testing.waiting import wait_until

HEADER = "1\n# be_id be_name srv_id srv_name srv_addr ...\n"


def line(
    name: str,
    *,
    state: int = 2,
    admin: int = 0,
    weights: str = "1 1",
    since: int = 100,
    check: str = "1 0 2 0",
    address: str = "127.0.0.1",
    port: int | str = 9,
    backend: str = "3 be",
) -> str:
    return (
        f"{backend} 1 {name} {address} {state} {admin} {weights} {since} {check} 0 0 0 - {port} - "
        "0 0 - - 0\n"
    )


def config(path: Path, servers: str, *, mode: str = "global", head: str = "") -> str:
    where = f"    server-state-file {path}\n" if mode == "global" else ""
    listed = "".join(f"    server {server}\n" for server in servers.split("\n"))
    return (
        f"global\n{where}{head}\n{HTTP}    load-server-state-from-file {mode}\n"
        f"frontend fe\n    bind fd@${{fe}}\n    default_backend be\nbackend be\n{listed}"
    )


def fields(running, name: str) -> list[str]:
    """From `srv_addr` on."""
    for row in running.cli("show servers state be").splitlines():
        words = row.split()
        if len(words) > 4 and words[3] == name:
            return words[4:]
    raise KeyError(name)


@pytest.mark.parametrize(
    ("server", "stored", "expected"),
    [
        # name address: options; what the file says; srv_addr op admin uweight iweight ... port
        ("s 127.0.0.1:9", {}, "127.0.0.1 2 0 1 1 9"),
        ("s 127.0.0.1:9", {"admin": 1}, "127.0.0.1 0 1 1 1 9"),
        ("s 127.0.0.1:9", {"admin": 8}, "127.0.0.1 2 8 1 1 9"),
        ("s 127.0.0.1:9", {"state": 0}, "127.0.0.1 0 0 1 1 9"),
        ("s 127.0.0.1:9", {"state": 3}, "127.0.0.1 3 0 1 1 9"),
        # the operator had enabled it: it stays enabled while the configuration says `disabled`
        ("s 127.0.0.1:9 disabled", {"admin": 4}, "127.0.0.1 2 4 1 1 9"),
        ("s 127.0.0.1:9 disabled", {"admin": 5, "state": 0}, "127.0.0.1 0 5 1 1 9"),
        # the configuration has changed, and counts
        ("s 127.0.0.1:9 disabled", {"admin": 0}, "127.0.0.1 0 5 1 1 9"),
        ("s 127.0.0.1:9", {"admin": 5, "state": 0}, "127.0.0.1 0 0 1 1 9"),
        ("s 127.0.0.1:9 weight 10", {"weights": "40 10"}, "127.0.0.1 2 0 40 10 9"),
        ("s 127.0.0.1:9 weight 20", {"weights": "40 10"}, "127.0.0.1 2 0 20 20 9"),
        ("s 127.0.0.1:9", {"weights": "0 0", "admin": 8}, "127.0.0.1 2 0 1 1 9"),
        ("s 127.0.0.1:9", {"port": 77}, "127.0.0.1 2 0 1 1 77"),
        # an address that is written in the configuration counts
        ("s 127.0.0.1:9", {"address": "127.0.0.5"}, "127.0.0.1 2 0 1 1 9"),
        ("s localhost:9 init-addr last,libc", {"address": "127.0.0.5"}, "127.0.0.5 2 0 1 1 9"),
        ("s localhost:9 init-addr libc", {"address": "127.0.0.5"}, "127.0.0.1 2 0 1 1 9"),
    ],
)
def test_what_is_applied(
    proxy, tmp_path: Path, server: str, stored: dict[str, str | int], expected: str
) -> None:
    path = tmp_path / "state"
    path.write_text(HEADER + line("s", **stored))  # type: ignore[arg-type]
    running = proxy(config(path, server))
    got = fields(running, "s")
    assert [*got[:5], got[14]] == expected.split()
    assert 100 <= int(got[5]) < 160 or expected.split()[1] != "2"


def test_checks(proxy, tmp_path: Path) -> None:
    """A server that was down is down at once, and comes up by its checks."""
    path = tmp_path / "state"
    path.write_text(
        HEADER
        + line("down", state=0, check="8 2 0 6")
        + line("off", check="1 0 2 2")
    )  # fmt: skip
    running = proxy(
        config(path, "down 127.0.0.1:9 check inter 60s\noff 127.0.0.1:9 check inter 60s")
    )
    assert fields(running, "down")[1] == "0"
    assert fields(running, "off")[9] == "2"  # configured, not enabled
    assert "changed from server-state after a reload" in running.output()


def test_local_files(proxy, tmp_path: Path) -> None:
    (tmp_path / "be").write_text(
        HEADER
        + line("s1", admin=1, state=0)
        + line("gone")
        + line("s2", admin=1, state=0, backend="99 other")
    )
    running = proxy(
        config(
            tmp_path,
            "s1 127.0.0.1:9\ns2 127.0.0.1:9",
            mode="local",
            head=f"    server-state-base {tmp_path}",
        )
    )
    assert fields(running, "s1")[2] == "1"
    assert fields(running, "s2")[2] == "0"
    assert "Proxy 'be': can't find server 'gone' in backend 'be'" in running.output()


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (None, "Can't open global server state file"),
        ("", "Can't get version of the global server state file"),
        ("2\n", "Can't get version of the global server state file"),
        (HEADER + "1 be\n", "corrupted global server state file"),
        (
            HEADER + line("s", state=7, admin=1000),
            "server-state application failed for server 'be/s', invalid srv_op_state value '7', "
            "invalid srv_admin_state value '1000'",
        ),
        (HEADER + line("s", port=70000), "invalid srv_port value '70000'"),
    ],
)
def test_faults_are_warnings(proxy, tmp_path: Path, text: str | None, warning: str) -> None:
    path = tmp_path / "state"
    if text is not None:
        path.write_text(text)
    running = proxy(config(path, "s 127.0.0.1:9"))
    assert warning in running.output()
    assert fields(running, "s")[1:3] == ["2", "0"]


def test_from_one_process_to_the_next(proxy, tmp_path: Path) -> None:
    """The whole way: the answer of the socket is the file."""
    path = tmp_path / "state"
    path.write_text(HEADER)
    text = config(
        path, "s1 127.0.0.1:9 weight 10\ns2 127.0.0.1:9 check inter 200ms fall 1\ns3 127.0.0.1:9"
    )
    first = proxy(text)
    wait_until(lambda: fields(first, "s2")[1] == "0", "its check")
    first.cli("set weight be/s1 30")
    first.cli("set server be/s3 state maint")
    stored = first.cli("show servers state")
    path.write_text(stored)
    second = proxy(text)
    assert fields(second, "s1")[3:5] == ["30", "10"]
    assert fields(second, "s2")[1] == "0"
    assert fields(second, "s3")[1:3] == ["0", "1"]
    # all but times
    pattern = re.compile(r"^(\S+ \S+ \S+ \S+ \S+ \d+ \d+ \d+ \d+) \d+ ", re.MULTILINE)
    assert pattern.findall(second.cli("show servers state")) == pattern.findall(stored)

"""`mtproxy ctl` against a socket that answers what the test says."""

from __future__ import annotations

import errno
import io
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from mtproxy.__main__ import CLIENTS, main
from mtproxy.cli import client
from mtproxy.cli.client import ClientError, ask, choose_socket
from mtproxy.cli.client_locks import locks

type Serve = Callable[..., str]


def test_ctl_prints_the_answer(serve: Serve):
    path = serve(b"\na\nb\n\n")
    out = io.StringIO()
    assert client.ctl(["-S", path, "show", "info;", "show stat"], out) == 0
    assert out.getvalue() == "a\nb\n"
    sent = b"set severity-output number; show info; show stat\n"
    assert serve.asked == [sent]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("answer", "printed", "code"),
    [
        (b"Unknown command, but\n\n", "Unknown command, but\n", 1),
        (b"\nUnknown command, but\n\n", "Unknown command, but\n", 1),
        (b"\n[6]: Unknown command, but\n\n", "Unknown command, but\n", 1),
        (b"\n[3]: Unsupported command: x\n\n", "Unsupported command: x\n", 1),
        (b"\n[3]: No such server.\n\n", "No such server.\n", 1),
        (b"\n1 (initial 1)\n\n[3]: No such server.\n\n", "1 (initial 1)\n\nNo such server.\n", 1),
        (b"\n\n[3]: No such server.\n\n", "\nNo such server.\n", 1),
        (b"\n[4]: changed\n\n", "changed\n", 0),
        (b"\n[6]: done\n\n", "done\n", 0),
        (b"\nA=1\n[3]: no message\n\n", "A=1\n[3]: no message\n", 0),
        (b"\n\n", "", 0),
    ],
)
def test_ctl_says_by_its_exit_code_that_a_command_failed(
    serve: Serve, answer: bytes, printed: str, code: int
):
    out = io.StringIO()
    assert client.ctl(["-S", serve(answer), "x"], out) == code
    assert out.getvalue() == printed


class Full(io.StringIO):
    """A disk without room, as /dev/full."""

    def __init__(self, file: IO[bytes], error: int = errno.ENOSPC) -> None:
        super().__init__()
        self.file = file
        self.error = error

    def fileno(self) -> int:
        return self.file.fileno()

    def write(self, text: str) -> int:
        raise OSError(self.error, os.strerror(self.error))


@pytest.mark.parametrize(
    ("program", "command", "name"), [(client.ctl, ["x"], "ctl"), (locks, [], "locks")]
)
def test_an_answer_that_cannot_be_written(
    serve: Serve,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    program: Callable[..., int],
    command: list[str],
    name: str,
) -> None:
    with open(tmp_path / "out", "wb") as file:
        assert program(["-S", serve(b"\na\n\n"), *command], Full(file)) == 1
    assert capsys.readouterr().err == f"mtproxy {name}: cannot write: No space left on device\n"


def test_ctl_whose_reader_has_seen_enough(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open(tmp_path / "out", "wb") as file:
        assert client.ctl(["-S", serve(b"\na\n\n"), "x"], Full(file, errno.EPIPE)) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("timeout", ["x", "", "nan", "0", "-1", "inf", "1e30"])
def test_times_that_are_none(timeout: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        client.ctl(["--timeout", timeout, "x"])
    assert ended.value.code == 2
    assert f"--timeout: '{timeout}' is no time above 0, in seconds" in capsys.readouterr().err


def test_ctl_without_a_proxy(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "nope.sock"
    assert client.ctl(["-S", str(path), "show info"]) == 1
    assert capsys.readouterr().err == f"mtproxy ctl: no socket {path}: is the proxy running?\n"


def test_a_socket_that_nobody_listens_on(tmp_path: Path):
    path = tmp_path / "old.sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
    with pytest.raises(ClientError, match="nobody listens"):
        ask(str(path), "x")


def test_tcp_address():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        port = listener.getsockname()[1]

        def run() -> None:
            conn, _ = listener.accept()
            with conn:
                while conn.recv(1000):
                    pass
                conn.sendall(b"hi\n\n")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert ask(f"127.0.0.1:{port}", "x") == "hi\n\n"
        thread.join(5)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:99999999", "/" + "x" * 200, "abns@nope", "unix@nope"]
)
def test_bad_addresses(address: str):
    with pytest.raises(ClientError):
        ask(address, "x", timeout=1)


def test_a_proxy_that_does_not_answer(tmp_path: Path):
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        with pytest.raises(ClientError, match=r"did not answer within 0\.05 seconds"):
            ask(str(path), "x", timeout=0.05)


def test_choice_of_the_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv(client.SOCKET_VARIABLE, raising=False)
    monkeypatch.setattr(client, "USUAL_SOCKETS", (str(tmp_path / "a"), str(tmp_path / "b")))
    monkeypatch.setattr(client.tempfile, "gettempdir", lambda: str(tmp_path))
    with pytest.raises(ClientError, match="Name it with -S"):
        choose_socket(None)
    demo = tmp_path / "mtproxy-demo-1"
    demo.mkdir()
    with socket.socket(socket.AF_UNIX) as sock, socket.socket(socket.AF_UNIX) as of_a_demo:
        of_a_demo.bind(str(demo / "runtime.sock"))
        of_a_demo.listen(1)
        assert choose_socket(None) == str(demo / "runtime.sock")
        sock.bind(str(tmp_path / "b"))
        sock.listen(1)
        monkeypatch.setattr(client.os, "geteuid", lambda: os.getuid() + 1)
        if os.getuid() != 0:  # a socket of root's is trusted
            with pytest.raises(ClientError):
                choose_socket(None)
        monkeypatch.setattr(client.os, "geteuid", os.getuid)
        assert choose_socket(None) == str(tmp_path / "b")
        monkeypatch.setenv(client.SOCKET_VARIABLE, "env")
        assert choose_socket(None) == "env"
        assert choose_socket("named") == "named"


def test_a_stale_socket_does_not_hide_a_live_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv(client.SOCKET_VARIABLE, raising=False)
    stale, live = str(tmp_path / "a"), str(tmp_path / "b")
    monkeypatch.setattr(client, "USUAL_SOCKETS", (stale, live))
    monkeypatch.setattr(client.tempfile, "gettempdir", lambda: str(tmp_path))
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(stale)
    with pytest.raises(ClientError, match=f"tried: nobody listens on {stale}"):
        choose_socket(None)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(live)
        listener.listen(1)
        assert choose_socket(None) == live


@pytest.mark.parametrize("program", [client.ctl, locks])
def test_help_names_the_usual_places(
    program: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        program(["--help"])
    shown = "".join(capsys.readouterr().out.split())
    for path in client.USUAL_SOCKETS:
        assert path in shown


# --- dispatch


def test_main_gives_sub_commands_their_words(monkeypatch: pytest.MonkeyPatch):
    seen: list[list[str]] = []
    for name in ("ctl", "locks", "demo"):
        monkeypatch.setitem(
            CLIENTS, name, lambda words, name=name: seen.append([name, *words]) or 7
        )
    assert main(["ctl", "-S", "x", "show info"]) == 7
    assert main(["locks"]) == 7
    assert main(["demo", "--port", "1"]) == 7
    assert seen == [["ctl", "-S", "x", "show info"], ["locks"], ["demo", "--port", "1"]]

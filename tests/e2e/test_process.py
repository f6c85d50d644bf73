"""The program as a process: exit codes, signals, soft stop, the runtime socket, the pid file."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import uuid
from pathlib import Path

import pytest

from mtproxy.testing import procfs
from mtproxy.testing.configs import HTTP, http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import command_of, environment
from mtproxy.testing.server import free_port
from mtproxy.testing.waiting import PATIENCE, wait_until
from mtproxy.testing.wire import Wire, as_wire, connect, refused

GET = "GET /len/5 HTTP/1.1\nhost: a"


def run(program: str, *args: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code, and stdout with stderr, of one short run."""
    done = subprocess.run(
        [*command_of(program), *args],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE,
        env=environment(env),
    )
    return done.returncode, done.stdout.decode()


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "cfg"
    path.write_text(text)
    return str(path)


LISTENING = f"{HTTP}\nlisten l\n    bind 127.0.0.1:1\n    server s1 127.0.0.1:9\n"


def test_check_of_a_good_file(program: str, tmp_path: Path) -> None:
    path = written(tmp_path, LISTENING)
    assert run(program, "-c", "-f", path)[0] == 0
    code, text = run(program, "-c", "-V", "-f", path)
    assert code == 0
    assert "Configuration file is valid" in text


def test_check_of_a_bad_file(program: str, tmp_path: Path) -> None:
    path = written(tmp_path, LISTENING + "    no-such-word 1\n")
    code, text = run(program, "-c", "-f", path)
    assert code == 1
    assert "cfg:11" in text
    assert "no-such-word" in text


def test_all_errors_in_one_run(program: str, tmp_path: Path) -> None:
    path = written(
        tmp_path, LISTENING + "    first-word\n    timeout client soon\n    second-word\n"
    )
    code, text = run(program, "-c", "-f", path)
    assert code == 1
    for place in ("cfg:11", "cfg:12", "cfg:13"):
        assert place in text


def test_missing_file(program: str, tmp_path: Path) -> None:
    assert run(program, "-f", str(tmp_path / "nothing"))[0] == 1


def test_the_verdict_is_what_standard_output_says(program: str, tmp_path: Path) -> None:
    """Messages go to standard error, so that scripts may tell them apart."""
    warned = written(tmp_path, f"{LISTENING}backend b\n    bind-process 1\n")
    command = [*command_of(program), "-c", "-f", warned]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment())
    assert done.returncode == 0
    assert done.stdout == "Warnings were found.\nConfiguration file is valid\n"
    assert "'bind-process'" in done.stderr
    assert "valid" not in done.stderr


@pytest.mark.parametrize("directory", ["nowhere", "cfg", ""])
def test_a_directory_that_is_none(program: str, tmp_path: Path, directory: str) -> None:
    path = written(tmp_path, LISTENING)
    where = str(tmp_path / directory) if directory else ""
    code, text = run(program, "-c", "-C", where, "-f", path)
    assert code == 1
    assert "ould not change to directory" in text
    assert "Traceback" not in text


def test_no_listener(program: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"{HTTP}\nbackend b\n    server s1 127.0.0.1:9\n")
    assert run(program, "-c", "-f", path)[0] == 2


def test_zero_warning(program: str, tmp_path: Path) -> None:
    """-dW makes a warning fatal. A frontend without `timeout client` is worth one."""
    path = written(tmp_path, "listen l\n    mode http\n    bind 127.0.0.1:1\n")
    assert run(program, "-c", "-f", path)[0] == 0
    assert run(program, "-dW", "-c", "-f", path)[0] == 1


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("1", 0),
        ("0", 1),
        ("", 1),
        ("!0", 0),
        ("1 && 0", 1),
        ("0 || (1 && !0)", 0),
        ("version_atleast(2.0)", 0),
        ("version_before(2.0)", 1),
        ("version_atleast(99.0-dev1)", 1),
        ("streq(a,a)", 0),
        ("strneq(a,a)", 1),
        ("defined(MTP_TEST_VALUE)", 0),
        ("defined(MTP_TEST_NOTHING)", 1),
        ('streq("$MTP_TEST_VALUE","some thing")', 0),
        ("feature(NO_SUCH_FEATURE)", 1),
        ("nonsense(1)", 2),
        ("streq(a", 2),
    ],
)
def test_conditions(program: str, condition: str, code: int) -> None:
    assert run(program, "-cc", condition, env={"MTP_TEST_VALUE": "some thing"})[0] == code


def test_version(program: str) -> None:
    code, text = run(program, "-v")
    assert code == 0
    first = text.splitlines()[0].split()
    assert first[1] == "version"
    code, text = run(program, "-vv")
    assert code == 0
    assert "TARGET  = linux-glibc" in text


def test_environment_in_the_configuration(proxy, origin: Origin) -> None:
    config = """
defaults
    mode "${MTP_MODE-http}"
    timeout connect 1s
    timeout client "${MTP_UNSET-4s}"
    timeout server 4s
frontend fe
    bind "fd@${fe}"
    default_backend be
backend be
    server s1 "127.0.0.1:${MTP_PORT}"
"""
    running = proxy(config, env={"MTP_PORT": str(origin.port)})
    assert running.connect().request(GET).status == 200


def test_conditional_blocks(proxy, origin: Origin) -> None:
    config = f"""
.if streq(a,b)
nonsense that is never read
.elif version_atleast(1.0)
{http(origin.port)}
.else
more nonsense
.endif
"""
    assert proxy(config).connect().request(GET).status == 200


def test_sigint_stops_at_once(proxy, origin: Origin) -> None:
    """As a default SIGINT would, also with a client in the middle of its answer."""
    running = proxy(http(origin.port))
    wire = running.connect()
    wire.send(as_wire("GET /stall/10 HTTP/1.1\nhost: a"))
    wire.read_head()
    assert running.stop(signal.SIGINT) in (0, -signal.SIGINT, 130)
    assert wire.read_available(0.5) is not None
    assert wire.at_end()


def test_sigterm_stops_at_once(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    wire = running.connect()
    wire.send(as_wire("GET /stall/10 HTTP/1.1\nhost: a"))
    wire.read_head()
    # 143: HAProxy's own number for it
    assert running.stop(signal.SIGTERM) in (0, -signal.SIGTERM, 143)


def test_soft_stop_lets_a_running_answer_end(proxy, serve) -> None:
    go_on = threading.Event()

    def handler(server: Wire) -> None:
        server.read_head()
        server.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nha")
        assert go_on.wait(PATIENCE)
        server.send(b"lf")

    # HAProxy leaves a connection that it promised to keep to its timeout
    running = proxy(http(serve(handler).port, fe="timeout http-keep-alive 500ms"))
    wire = running.connect()
    wire.send(as_wire(GET))
    wire.read_head()
    running.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: refused(running.address()), "the listener to close")
    assert running.alive()
    go_on.set()
    assert wire.read_exactly(4) == b"half"
    # idle: nothing holds it any longer
    assert wire.at_end()
    assert running.wait_exit() == 0


def test_soft_stop_closes_keep_alive_connections(proxy, origin: Origin) -> None:
    """A response during the soft stop says close, and an idle connection is closed."""
    running = proxy(http(origin.port))
    busy, idle = running.connect(), running.connect()
    for wire in (busy, idle):
        assert wire.request(GET).status == 200
    busy.send(as_wire("GET /slow/1000/60 HTTP/1.1\nhost: a"))
    busy.read_head()
    running.process.send_signal(signal.SIGUSR1)
    assert len(busy.read_exactly(1000)) == 1000
    assert idle.at_end()
    busy.close()
    assert running.wait_exit() == 0


def test_soft_stop_without_clients_ends_at_once(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    assert (
        running.connect().request("GET /len/1 HTTP/1.1\nhost: a\nconnection: close").status == 200
    )
    assert running.stop(signal.SIGUSR1) == 0


def test_hard_stop_after(proxy, origin: Origin) -> None:
    running = proxy("global\n    hard-stop-after 500ms\n" + http(origin.port))
    wire = running.connect()
    wire.send(as_wire("GET /stall/10 HTTP/1.1\nhost: a"))
    wire.read_head()
    assert running.stop(signal.SIGUSR1) in (0, 1)


def test_daemon_mode_and_pid_file(program: str, tmp_path: Path, origin: Origin) -> None:
    """-D: the parent returns when the child serves; the pid file names the child."""
    port = free_port()
    pid_file = tmp_path / "pid"
    config = http(origin.port).replace('"fd@${fe}"', f"127.0.0.1:{port}")
    mark = {"MTP_DAEMON_TEST": uuid.uuid4().hex}
    words = ("-D", "-p", str(pid_file), "-f", written(tmp_path, config))
    try:
        code, text = run(program, *words, env=mark)
        assert code == 0, text
        pid = int(pid_file.read_text())
        with connect(("127.0.0.1", port)) as wire:
            assert wire.request(GET).status == 200
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the daemon to end")
    finally:
        procfs.kill_marked(f"MTP_DAEMON_TEST={mark['MTP_DAEMON_TEST']}")


def test_standard_input_may_be_closed(proxy, origin: Origin) -> None:
    assert proxy(http(origin.port), args=("-q",)).connect().request(GET).status == 200


def test_several_files(program: str, tmp_path: Path) -> None:
    first, second = tmp_path / "1.cfg", tmp_path / "2.cfg"
    first.write_text(HTTP)
    second.write_text("listen l\n    bind 127.0.0.1:1\n    server s1 127.0.0.1:9\n")
    assert run(program, "-c", "-f", str(first), "-f", str(second))[0] == 0
    assert run(program, "-c", "-f", str(tmp_path))[0] == 0  # a directory: its *.cfg in order


# -- runtime socket


def test_show_info(proxy, origin: Origin) -> None:
    running = proxy("global\n    nbthread 2\n" + http(origin.port))
    running.connect().request(GET)
    text = running.cli("show info")
    info = dict(line.split(": ", 1) for line in text.strip().splitlines() if ": " in line)
    assert info["Pid"] == str(running.pid)
    assert info["Nbthread"] == "2"
    assert int(info["CumReq"]) >= 1
    assert int(info["CurrConns"]) >= 1
    assert text.endswith("\n\n")


def test_show_stat(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    for path in ("/len/5", "/status/404", "/reset"):
        with running.connect() as wire:
            wire.request(f"GET {path} HTTP/1.1\nhost: a")
    wait_until(lambda: running.stat("fe", "FRONTEND")["scur"] == "0", "the sessions' end")
    fe, be, s1 = (
        running.stat("fe", "FRONTEND"),
        running.stat("be", "BACKEND"),
        running.stat("be", "s1"),
    )
    assert (fe["req_tot"], fe["hrsp_2xx"], fe["hrsp_4xx"], fe["hrsp_5xx"]) == ("3", "1", "1", "1")
    assert (be["hrsp_2xx"], be["hrsp_4xx"], be["hrsp_5xx"]) == ("1", "1", "1")
    # the 502 is the proxy's own, not the server's
    assert (s1["hrsp_2xx"], s1["hrsp_4xx"], s1["stot"]) == ("1", "1", "3")
    assert (fe["stot"], be["stot"]) == ("3", "3")
    assert (fe["status"], be["status"]) == ("OPEN", "UP")
    assert int(fe["bin"]) > 0
    assert int(fe["bout"]) > 0


def test_cli_dialogues(proxy, origin: Origin) -> None:
    running = proxy(http(origin.port))
    assert "Unknown command" in running.cli("no such command")
    both = running.cli("show version; show version")
    assert both.count("\n\n") == 2
    with connect(running.socket_path) as wire:
        wire.send(b"prompt\n")
        assert wire.read_until(b"> ").strip() == b">"
        wire.send(b"show version\n")
        assert wire.read_until(b"> ").endswith(b"\n\n> ")
        wire.send(b"quit\n")
        assert wire.at_end()


def test_cli_over_tcp(proxy, origin: Origin) -> None:
    running = proxy('global\n    stats socket "fd@${cli}" level admin\n' + http(origin.port))
    wire = running.connect("cli")
    wire.send(b"show version\n")
    assert wire.read_to_end().endswith(b"\n\n")


def test_help_lists_commands(proxy, origin: Origin) -> None:
    text = proxy(http(origin.port)).cli("help")
    for command in ("show info", "show stat", "show fd", "show activity", "show threads", "quit"):
        assert command in text


def test_levels(proxy, origin: Origin) -> None:
    running = proxy('global\n    stats socket "fd@${cli}" level user\n' + http(origin.port))
    wire = running.connect("cli")
    wire.send(b"show stat\n")
    assert b"fe,FRONTEND" in wire.read_to_end()
    with running.connect("cli") as denied:
        denied.send(b"clear counters\n")
        assert b"Permission denied" in denied.read_to_end()


def test_startup_logs(proxy, origin: Origin) -> None:
    """Warnings of the configuration can be read afterwards."""
    running = proxy(http(origin.port, fe="mode tcp\noption httplog", be="mode tcp"))
    lines = running.output().splitlines()
    warning = next(line for line in lines if "[WARNING]" in line and "option httplog" in line)
    assert warning.partition(" : ")[2] in running.cli("show startup-logs")

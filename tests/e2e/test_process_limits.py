"""What the process allows itself: threads and CPUs, descriptors, memory, core files, output."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import uuid
from pathlib import Path

import pytest

from mtproxy.testing import procfs
from mtproxy.testing.configs import HTTP, http
from mtproxy.testing.origin import Origin
from mtproxy.testing.program import Program, command_of, find_tool, run_to_end
from mtproxy.testing.server import free_port
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import as_wire, connect

GET = "GET /len/5 HTTP/1.1\nhost: a"
CPUS = sorted(os.sched_getaffinity(0))


def cpu_lists(pid: int) -> list[str]:
    """Which CPUs each thread of the process may use, in the order of their start."""
    found = []
    for task in sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda path: int(path.name)):
        allowed = re.search(
            r"^Cpus_allowed_list:\s*(\S+)", (task / "status").read_text(), re.MULTILINE
        )
        assert allowed
        found.append(allowed[1])
    return found


def info(running: Program) -> dict[str, str]:
    lines = running.cli("show info").splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def open_files(pid: int) -> tuple[str, str]:
    """Soft and hard limit of the number of open files."""
    found = re.search(r"^Max open files\s+(\S+)\s+(\S+)", limits(pid), re.MULTILINE)
    assert found
    return found[1], found[2]


def limits(pid: int) -> str:
    return Path(f"/proc/{pid}/limits").read_text()


# --- threads


@pytest.mark.parametrize("count", [1, 3])
def test_nbthread(proxy, origin: Origin, count: int) -> None:
    running = proxy(f"global\n    nbthread {count}\n" + http(origin.port))
    # mtproxy has its watchdog beside them
    extra = 1 if running.program == "mtproxy" else 0
    assert len(cpu_lists(running.pid)) == count + extra
    assert info(running)["Nbthread"] == str(count)


def test_every_cpu_has_a_thread_when_nothing_is_said(proxy, origin: Origin) -> None:
    assert info(proxy(http(origin.port)))["Nbthread"] == str(len(CPUS))


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_cpu_map(proxy, origin: Origin) -> None:
    first, second = CPUS[:2]
    head = f"global\n    nbthread 2\n    cpu-map 1/1-2 {second}\n    cpu-map 1/2 {first}\n"
    assert cpu_lists(proxy(head + http(origin.port)).pid)[:2] == [str(second), str(first)]


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_cpu_map_one_by_one(proxy, origin: Origin) -> None:
    first, second = CPUS[:2]
    head = f"global\n    nbthread 2\n    cpu-map auto:1/1-2 {first} {second}\n"
    assert cpu_lists(proxy(head + http(origin.port)).pid)[:2] == [str(first), str(second)]


def test_cpus_that_are_not_there(proxy, origin: Origin) -> None:
    """No reason not to start."""
    running = proxy("global\n    nbthread 1\n    cpu-map 1/1 1023\n" + http(origin.port))
    assert running.connect().request(GET).status == 200


# --- descriptors: prlimit gives the program a limit of 1000


def limited(program: str, tmp_path: Path, lines: str, *args: str) -> tuple[list[str], str]:
    if find_tool("prlimit") is None:
        pytest.skip("prlimit (util-linux) is not installed")
    path, sock = tmp_path / "cfg", str(tmp_path / "s.sock")
    path.write_text(
        f"global\n    stats socket {sock} level admin\n{lines}\n{HTTP}\n"
        f"listen l\n    bind 127.0.0.1:{free_port()}\n    server s1 127.0.0.1:9\n"
    )
    return [
        "prlimit",
        "--nofile=1000:1000",
        *command_of(program),
        "-db",
        *args,
        "-f",
        str(path),
    ], sock


@pytest.mark.parametrize(
    ("lines", "limit"),
    [
        ("    maxconn 100000", 1000),
        ("    maxconn 2000000", 1000),
        ("    ulimit-n 5000", 1000),
        ("    maxconn 300\n    fd-hard-limit 500", 500),
        ("    ulimit-n 600\n    fd-hard-limit 500", 500),
    ],
)
def test_too_few_descriptors(program: str, tmp_path: Path, lines: str, limit: int) -> None:
    command, _ = limited(program, tmp_path, lines)
    done = run_to_end(command)
    assert done.returncode == 1
    assert re.search(rf"Cannot raise FD limit to \d+, limit is {limit}", done.stderr)


def test_ulimit_n_that_contradicts_maxconn(program: str, tmp_path: Path) -> None:
    command, _ = limited(program, tmp_path, "    maxconn 600\n    ulimit-n 100")
    done = run_to_end(command)
    assert done.returncode == 1
    assert re.search(
        r"FD limit \(1000\) too low for maxconn=600/maxsock=(\d+)\. "
        r"Please raise 'ulimit-n' to \1 or more to avoid any trouble\.",
        done.stderr,
    )


@pytest.mark.parametrize(
    ("lines", "args", "soft"),
    [
        ("", (), "1000"),
        ("    ulimit-n 700", (), "700"),
        ("    ulimit-n 5000\n    no strict-limits", (), "1000"),
        ("    maxconn 100000\n    no strict-limits", (), "1000"),
        ("    maxconn 2000000\n    no strict-limits", (), "1000"),
        ("    fd-hard-limit 500", (), "500"),
        ("    fd-hard-limit 5000", (), "1000"),
    ],
)
def test_descriptors(
    program: str, tmp_path: Path, lines: str, args: tuple[str, ...], soft: str
) -> None:
    command, sock = limited(program, tmp_path, lines, *args)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: answered(sock), "the runtime socket")
            # a limit that is higher than needed is left alone
            assert open_files(process.pid) == ("1000", "1000")
            shown = answered(sock)
            asked = re.search(r"maxconn (\d+)", lines)
            if asked is None:
                assert int(shown["Maxconn"]) <= 500
                assert shown["Maxsock"] in (soft, "1000")
            else:
                # HAProxy goes on as if it had what it was refused: its Maxconn is this, too
                assert shown["Hard_maxconn"] == asked[1]
                assert int(shown["Maxsock"]) > 2 * int(asked[1])
                if program == "mtproxy":
                    assert 2 * int(shown["Maxconn"]) < int(soft)
            assert shown["Ulimit-n"] == soft
        finally:
            process.kill()


def answered(sock: str) -> dict[str, str]:
    """What `show info` says, empty while nothing listens."""
    try:
        with connect(sock) as wire:
            wire.send(b"show info\n")
            lines = wire.read_to_end().decode().splitlines()
            return dict(line.split(": ", 1) for line in lines if ": " in line)
    except (FileNotFoundError, ConnectionRefusedError):
        return {}


def test_maxconn_of_the_command_line(proxy, origin: Origin) -> None:
    assert info(proxy(http(origin.port), args=("-n", "77")))["Maxconn"] == "77"


# --- memory and core files


@pytest.mark.parametrize(("megabytes", "name"), [(700, "Max data size|Max address space")])
def test_limit_of_memory(proxy, origin: Origin, megabytes: int, name: str) -> None:
    """HAProxy limits its address space, of which Python reserves a gigabyte at once."""
    running = proxy("global\n    nbthread 2\n" + http(origin.port), args=("-m", str(megabytes)))
    assert re.search(rf"^(?:{name})\s+{megabytes << 20}\s", limits(running.pid), re.MULTILINE)
    for _ in range(3):
        with running.connect() as wire:
            assert wire.request("GET /len/3000000 HTTP/1.1\nhost: a").status == 200


@pytest.mark.only("mtproxy")  # HAProxy crashes
def test_a_limit_of_memory_that_is_too_small(program: str, tmp_path: Path) -> None:
    path = tmp_path / "cfg"
    path.write_text(
        f"{HTTP}\nlisten l\n    bind 127.0.0.1:{free_port()}\n    server s1 127.0.0.1:9\n"
    )
    command = [*command_of(program), "-db", "-m", "20", "-f", str(path)]
    done = run_to_end(command)
    assert done.returncode == 1
    assert re.search(r"20 MB of memory \(-m\) are not enough .* at least \d+ MB", done.stderr)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its user")
@pytest.mark.parametrize(("keyword", "owner"), [("set-dumpable", 65534), ("", 0)])
def test_set_dumpable(proxy, origin: Origin, keyword: str, owner: int) -> None:
    """The kernel gives the files of a process that may not be dumped to root (proc(5))."""
    if keyword and importlib.util.find_spec("_ctypes") is None:
        pytest.skip("this Python has no ctypes")
    running = proxy(f"global\n    uid 65534\n    gid 65534\n    {keyword}\n" + http(origin.port))
    assert Path(f"/proc/{running.pid}/status").stat().st_uid == owner


# --- ports and output


def test_noreuseport(program: str, tmp_path: Path) -> None:
    """Two processes share a port by SO_REUSEPORT, unless one of them says no."""
    port = free_port()
    path = tmp_path / "cfg"
    config = f"{HTTP}\nlisten l\n    bind 127.0.0.1:{port}\n    server s1 127.0.0.1:9\n"
    path.write_text(config)
    command = [*command_of(program), "-db", "-f", str(path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as first:
        try:
            wait_until(lambda: listens(port), "the first process to listen")
            done = run_to_end([*command, "-dR"])
            assert done.returncode == 1
            assert "Address already in use" in done.stderr
            path.write_text(f"global\n    noreuseport\n{config}")
            assert run_to_end(command).returncode == 1
            path.write_text(config)
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as second:
                wait_until(lambda: sockets_on(port) == 2, "the second process to listen")
                second.kill()
        finally:
            first.kill()


def sockets_on(port: int) -> int:
    """How many sockets listen on a port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(
        words[1].endswith(f":{port:04X}") and words[3] == "0A" for words in map(str.split, lines)
    )


def listens(port: int) -> bool:
    return sockets_on(port) == 1


@pytest.mark.parametrize("args", [(), ("-c",)])
def test_exit_code_without_a_listener(program: str, tmp_path: Path, args: tuple[str, ...]) -> None:
    """2 is -c's way to say that the file is valid; a start just fails."""
    path = tmp_path / "cfg"
    path.write_text(f"{HTTP}\nbackend b\n    server s1 127.0.0.1:9\n")
    done = run_to_end([*command_of(program), *args, "-f", str(path)])
    assert done.returncode == (2 if args else 1)
    assert ("No enabled listener found" in done.stderr) is not bool(args)


BAD_BIND = "listen l\n    bind 192.0.2.77:80\n    server s1 127.0.0.1:9\n"


@pytest.mark.parametrize(
    ("head", "args", "silent"),
    [
        ("", (), False),
        ("", ("-q",), True),
        ("", ("-q", "-V"), False),
        ("global\n    quiet\n", ("-V",), False),
    ],
)
def test_quiet(
    program: str, tmp_path: Path, head: str, args: tuple[str, ...], silent: bool
) -> None:
    path = tmp_path / "cfg"
    path.write_text(f"{head}{HTTP}\n{BAD_BIND}")
    done = run_to_end([*command_of(program), "-db", *args, "-f", str(path)])
    assert done.returncode == 1
    assert (done.stderr == "") is silent
    if not silent:
        reason = "cannot bind socket (Cannot assign requested address) for [192.0.2.77:80]"
        assert re.search(rf"Binding \[{path}:\d+\] for proxy l: ", done.stderr)
        assert f" for proxy l: {reason}\n" in done.stderr


def test_every_socket_that_cannot_be_bound_is_named_with_its_line(
    program: str, tmp_path: Path
) -> None:
    path = tmp_path / "cfg"
    path.write_text(f"global\n    stats socket /nonexistent/s.sock\n{HTTP}\n{BAD_BIND}")
    done = run_to_end([*command_of(program), "-db", "-f", str(path)])
    assert done.returncode == 1
    line = path.read_text().splitlines().index("    bind 192.0.2.77:80") + 1
    assert f"Binding [{path}:2] for frontend GLOBAL: cannot bind UNIX socket" in done.stderr
    assert f"Binding [{path}:{line}] for proxy l: cannot bind socket" in done.stderr


@pytest.mark.only("mtproxy")  # HAProxy's keyword, unlike its option, comes too late for this
def test_quiet_by_keyword(program: str, tmp_path: Path) -> None:
    path = tmp_path / "cfg"
    path.write_text(f"global\n    quiet\n{HTTP}\n{BAD_BIND}")
    done = run_to_end([*command_of(program), "-db", "-f", str(path)])
    assert (done.returncode, done.stderr) == (1, "")


def test_quiet_while_running(proxy, origin: Origin) -> None:
    """Changes of servers go to the logs only."""
    running = proxy(http(origin.port, server="check inter 100ms"), args=("-q",))
    running.cli("disable server be/s1")
    assert running.server_status("be", "s1") == "MAINT"
    assert running.output() == ""


# --- daemon


@pytest.mark.parametrize("way", ["option", "keywords"])
def test_daemon(program: str, tmp_path: Path, origin: Origin, way: str) -> None:
    """The parent returns 0 when the listeners are open; the pid file stays behind the process."""
    port = free_port()
    path, pid_file = tmp_path / "cfg", tmp_path / "pid"
    config = http(origin.port).replace('"fd@${fe}"', f"127.0.0.1:{port}")
    args: tuple[str, ...] = ("-D", "-p", str(pid_file))
    if way == "keywords":
        config, args = f"global\n    daemon\n    pidfile {pid_file}\n{config}", ()
    path.write_text(config)
    mark = uuid.uuid4().hex
    try:
        done = run_to_end(
            [*command_of(program), *args, "-f", str(path)], env={"MTP_DAEMON_TEST": mark}
        )
        assert done.returncode == 0, done.stderr
        pid = int(pid_file.read_text())
        with connect(("127.0.0.1", port)) as wire:
            assert wire.request(GET).status == 200
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        assert fields[3] == str(pid)  # the leader of a session of its own
        assert [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1, 2)] == ["/dev/null"] * 3
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the daemon to end")
        assert int(pid_file.read_text()) == pid
    finally:
        # also when the pid file never came
        procfs.kill_marked(f"MTP_DAEMON_TEST={mark}")


def test_a_daemon_that_cannot_start_says_so(program: str, tmp_path: Path) -> None:
    path, pid_file = tmp_path / "cfg", tmp_path / "pid"
    path.write_text(f"{HTTP}\n{BAD_BIND}")
    mark = uuid.uuid4().hex
    try:
        done = run_to_end(
            [*command_of(program), "-D", "-p", str(pid_file), "-f", str(path)],
            env={"MTP_DAEMON_TEST": mark},
        )
    finally:
        procfs.kill_marked(f"MTP_DAEMON_TEST={mark}")
    assert done.returncode == 1
    assert "cannot bind socket" in done.stderr
    assert not pid_file.exists()


def test_hard_stop_after_lets_those_end_that_can(proxy, origin: Origin) -> None:
    running = proxy("global\n    hard-stop-after 3s\n" + http(origin.port))
    quick, stalled = running.connect(), running.connect()
    quick.send(as_wire("GET /slow/1000/30 HTTP/1.1\nhost: a"))
    stalled.send(as_wire("GET /stall/10 HTTP/1.1\nhost: a"))
    quick.read_head()
    stalled.read_head()
    running.process.send_signal(signal.SIGUSR1)
    assert len(quick.read_exactly(1000)) == 1000
    assert running.alive()
    assert running.wait_exit() in (0, 1)


@pytest.mark.only("mtproxy")
@pytest.mark.skipif(importlib.util.find_spec("_ctypes") is not None, reason="has ctypes")
def test_set_dumpable_without_ctypes(proxy, origin: Origin) -> None:
    running = proxy("global\n    set-dumpable\n" + http(origin.port))
    assert running.connect().request(GET).status == 200
    assert "cannot set the dumpable flag: this Python has no ctypes" in running.output()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its root directory")
def test_chroot(proxy, origin: Origin, tmp_path: Path) -> None:
    """Nothing of the program is looked for after the start: in there is nothing."""
    jail = tmp_path / "jail"
    jail.mkdir()
    running = proxy(f"global\n    chroot {jail}\n    uid 65534\n" + http(origin.port))
    assert os.readlink(f"/proc/{running.pid}/root") == str(jail)
    for _ in range(2):
        with running.connect() as wire:
            assert wire.request(GET).status == 200
            assert wire.request("GET / HTTP/1.1\nno colon").status == 400
    for command in ("show info json", "show stat json", "show errors", "shwo info", "show fd"):
        answer = running.cli(command)
        assert answer
        assert "Internal error" not in answer
    running.cli("disable server be/s1")
    assert running.server_status("be", "s1") == "MAINT"

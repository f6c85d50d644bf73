"""The process as the system sees it. What changes a process is tried in one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mtproxy.boot.process import ProcessError, stop_others, write_pidfile
from mtproxy.testing.waiting import wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can")


def python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in another process, with boot.process as `process`."""
    prelude = (
        "import os, sys, time\n"
        "from mtproxy.base.settings import GlobalSettings\n"
        "from mtproxy.boot import process\n"
    )
    return subprocess.run(
        [sys.executable, "-c", prelude + code, *args],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


# --- daemon and pid file


def test_a_daemon_is_a_child_with_a_session_of_its_own(tmp_path: Path) -> None:
    pid_file, report = tmp_path / "pid", tmp_path / "report"
    done = python(
        "print('before')\n"
        "process.daemonize(sys.argv[1])\n"
        "print('lost')\n"
        "fds = [os.readlink(f'/proc/self/fd/{fd}') for fd in (0, 1, 2)]\n"
        "text = f'{os.getpid()} {os.getsid(0)} {fds}'\n"
        "open(sys.argv[2] + '.part', 'w').write(text)\n"
        "os.rename(sys.argv[2] + '.part', sys.argv[2])\n",
        str(pid_file),
        str(report),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "before\n", "")
    pid = int(pid_file.read_text())  # there when the parent has ended
    found = wait_until(lambda: report.exists() and report.read_text(), "the child's report", 20)
    assert found == f"{pid} {pid} {['/dev/null'] * 3}"


def test_without_a_pid_file(tmp_path: Path) -> None:
    assert python("process.daemonize(None)").returncode == 0


def test_a_daemon_whose_pid_file_cannot_be_written_does_not_stay(tmp_path: Path) -> None:
    report = tmp_path / "child"
    done = python(
        "try:\n"
        "    process.daemonize('/nonexistent/pid')\n"
        "except process.ProcessError as e:\n"
        "    sys.exit(str(e))\n"
        "time.sleep(1)\n"
        "open(sys.argv[1], 'w').close()\n",
        str(report),
    )
    assert done.returncode == 1
    assert done.stderr == "Cannot create pidfile /nonexistent/pid: No such file or directory\n"
    assert not report.exists()


def test_the_pid_file_has_one_line_and_leaves_no_other(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    path.write_text("123456789\n")
    write_pidfile(str(path), 42)
    assert path.read_text() == "42\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_instead_of_a_pid_file_keeps_its_place(tmp_path: Path) -> None:
    """Or /dev/null, which must not become a file."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_pidfile(str(path), 42)
        assert os.read(reader, 100) == b"42\n"
    finally:
        os.close(reader)
    assert path.is_fifo()


# --- root directory, group, user


@needs_root
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("gid=4321", "0 4321 []"),
        ("uid=1234, gid=4321", "1234 4321 []"),
        ("user='nobody', group='nogroup'", "65534 65534 []"),
        ("uid=1, user='nobody'", "65534 0 None"),
    ],
)
def test_confine_changes_user_and_group(settings: str, expected: str) -> None:
    done = python(
        f"process.confine(GlobalSettings({settings}))\n"
        "groups = os.getgroups() if os.getgid() else None\n"
        "print(os.getuid(), os.getgid(), groups)\n"
    )
    assert done.stdout.strip() == expected, done.stderr


@needs_root
def test_confine_changes_the_root_directory(tmp_path: Path) -> None:
    (tmp_path / "marker").touch()
    tmp_path.chmod(0o755)
    done = python(
        "process.confine(GlobalSettings(chroot=sys.argv[1], user='nobody'))\n"
        "print(os.getcwd(), os.listdir('/'), os.getuid())\n",
        str(tmp_path),
    )
    assert done.stdout.strip() == "/ ['marker'] 65534", done.stderr


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("user='no-such-user'", "cannot find user or group: "),
        ("group='no-such-group'", "cannot find user or group: "),
        ("chroot='/nonexistent'", "Cannot chroot(/nonexistent): No such file"),
    ],
)
def test_confine_says_what_is_wrong(settings: str, message: str) -> None:
    done = python(
        "try:\n"
        f"    process.confine(GlobalSettings({settings}))\n"
        "except process.ProcessError as e:\n"
        "    sys.exit(str(e))\n"
    )
    assert done.returncode == 1
    assert done.stderr.startswith(message)


# --- the processes that this one replaces


@pytest.mark.parametrize(("at_once", "expected"), [(True, signal.SIGTERM), (False, signal.SIGUSR1)])
def test_others_are_told(at_once: bool, expected: signal.Signals) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait(10)
    with subprocess.Popen(["sleep", "60"]) as other:
        assert stop_others([gone.pid, other.pid], at_once=at_once) == []
        assert other.wait(10) == -expected


def test_a_process_that_cannot_be_told_does_not_keep_others_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = []

    def kill(pid: int, number: int) -> None:
        if pid == 1:
            raise PermissionError(1, "Operation not permitted")
        told.append((pid, number))

    monkeypatch.setattr(os, "kill", kill)
    assert stop_others([1, 2], at_once=False) == [
        "cannot signal process 1: Operation not permitted"
    ]
    assert told == [(2, signal.SIGUSR1)]


def test_a_pid_file_in_a_folder_that_is_not_there() -> None:
    with pytest.raises(ProcessError, match="Cannot create pidfile /nonexistent/pid: No such"):
        write_pidfile("/nonexistent/pid", 1)

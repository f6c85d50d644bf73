"""Debian packages: install what is missing, never start a service, say why when it cannot be done.

Only the process that installs is root (directly or by sudo); it holds one lock per machine, because
apt's own waiting covers dpkg's lock but not the one of the package lists.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from toolchain import paths, say

COMPILER = ("gcc", "libc6-dev")
#: What CPython needs to build, with every optional module that pip, the tests and a person at the
#: prompt use. The rest (tkinter, gdbm, nis) is left out on purpose.
BUILD = (
    *COMPILER,
    "make",
    "pkgconf",
    "libssl-dev",
    "zlib1g-dev",
    "libffi-dev",
    "libbz2-dev",
    "liblzma-dev",
    "libsqlite3-dev",
    "libreadline-dev",
    "libncurses-dev",
    "uuid-dev",
)
#: What the end-to-end tests run against: clients, a browser, origin servers and the original;
#: varnish brings varnishtest, which runs HAProxy's own regression tests.
TESTS = ("chromium", "curl", "haproxy", "hatop", "nginx", "socat", "varnish", "wrk")

LOCK = Path("/run/lock/mtproxy-apt.lock")
POLICY = Path("/usr/sbin/policy-rc.d")
WAIT_SECONDS = 600
RETRY_SECONDS = 2.0
_NAME = re.compile(r"^[a-z0-9][a-z0-9+.-]+$")
_STALE_LISTS = re.compile(r"Unable to locate package|has no installation candidate|404 +Not Found")
_LOCKED = re.compile(r"Could not get lock|Unable to lock|Unable to acquire the dpkg frontend lock")


def missing(names: Sequence[str]) -> list[str]:
    """Return those of `names` that are not installed. Raises Failure where there is no dpkg."""
    command = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Provides}\n"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise say.Failure(
            f"dpkg does not answer: {error}", "packages can be installed on Debian only"
        ) from error
    have: set[str] = set()
    for line in shown.splitlines():
        status, _, rest = line.partition(" ")
        if status == "installed":
            have.update(re.sub(r"\([^)]*\)|,", " ", rest).split())
    return [name for name in dict.fromkeys(names) if name not in have]


def need(names: Sequence[str]) -> None:
    """Have the packages installed. Raises Failure with what to do when that is not possible."""
    for name in names:
        if not _NAME.match(name):
            raise say.Failure(f"{name!r} is no package name", "say .ci/need PACKAGE...")
    absent = missing(names)
    if not absent:
        return
    say.step(f"Debian packages missing: {' '.join(absent)}")
    if os.geteuid() == 0:
        _install_locked(absent)
    else:
        _install_by_sudo(absent)


def _by_hand(names: Sequence[str]) -> str:
    return f"as root: apt-get install --no-install-recommends {shlex.join(names)}"


def _install_by_sudo(names: Sequence[str]) -> None:
    if shutil.which("sudo") is None:
        raise say.Failure(
            f"not root and no sudo here: cannot install {' '.join(names)}", _by_hand(names)
        )
    command = ["sudo"]
    if not sys.stdin.isatty() or os.environ.get("CI"):
        command.append("-n")  # nobody there who could type a password
    # The whole step runs as root, so that it alone holds the machine's lock.
    command += [sys.executable, "-E", "-s", str(paths.CI / "toolchain"), "need", *names]
    say.note(f"not root: using {' '.join(command[:2])}")
    if subprocess.run(command, check=False).returncode:
        raise say.Failure(f"sudo did not install {' '.join(names)}", _by_hand(names))


def _install_locked(names: Sequence[str]) -> None:
    log = paths.log_file("apt")
    with paths.locked(LOCK, "installing packages"):
        absent = missing(names)  # another run may have been faster
        if not absent:
            return
        with no_services_started(POLICY):
            _install(absent, log)
    still = missing(names)
    if still:
        raise say.Failure(
            f"apt-get was content, but these are not installed: {' '.join(still)}",
            _by_hand(still),
            log,
        )
    say.note(f"installed {' '.join(absent)}")


def _install(names: Sequence[str], log: Path) -> None:
    if not _lists_exist():
        _apt(["update"], log, "reading the package lists", names)
    install = ["install", "-y", "--no-install-recommends", *names]
    try:
        _apt(install, log, f"installing {' '.join(names)}", names)
    except say.Failure:
        if not _STALE_LISTS.search(_end_of(log)):
            raise
        say.note("the package lists are out of date")
        _apt(["update"], log, "reading the package lists", names)
        _apt(install, log, f"installing {' '.join(names)}", names)


def _lists_exist() -> bool:
    return any(Path("/var/lib/apt/lists").glob("*_Packages*"))


def _apt(words: Sequence[str], log: Path, doing: str, names: Sequence[str]) -> None:
    """Run apt-get; when somebody else's run holds one of its locks, try again for a while."""
    env = {
        **os.environ,
        "DEBIAN_FRONTEND": "noninteractive",
        "NEEDRESTART_SUSPEND": "1",
        "LC_ALL": "C",
    }
    options = ["-o", f"DPkg::Lock::Timeout={WAIT_SECONDS}", "-o", "Dpkg::Use-Pty=0"]
    ticker = say.Ticker("another apt is running, waiting")
    while True:
        size = log.stat().st_size
        try:
            say.run(
                ["apt-get", *options, *words], log=log, doing=doing, hint=_by_hand(names), env=env
            )
        except say.Failure:
            text = log.read_bytes()[size:].decode("utf-8", "replace")
            if not _LOCKED.search(text) or ticker.elapsed > WAIT_SECONDS:
                raise
        else:
            ticker.close()
            return
        ticker.tick()
        # apt offers no way to wait for the lock of the package lists.
        time.sleep(RETRY_SECONDS)


def _end_of(log: Path) -> str:
    return "\n".join(say.last_lines(log, 40))


@contextlib.contextmanager
def no_services_started(policy: Path) -> Iterator[None]:
    """Keep packages from starting their services while they are installed.

    Debian's maintainer scripts ask /usr/sbin/policy-rc.d, if there is one, and take 101 for no.
    Ours says no only as long as this process lives, so one that a crash left behind does no harm;
    and a policy of the machine's own (containers have one) is left alone.
    """
    mark = "# written by mtproxy's .ci/need for the time of one installation"
    text = f"#!/bin/sh\n{mark}\nkill -0 {os.getpid()} 2>/dev/null && exit 101\nexit 0\n"
    if policy.exists() and mark not in policy.read_text(encoding="utf-8", errors="replace"):
        yield
        return
    part = policy.with_name(f".{policy.name}.mtproxy")
    part.write_text(text, encoding="utf-8")
    part.chmod(0o755)
    part.replace(policy)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)


def need_for_tests(environ: Mapping[str, str] = os.environ) -> None:
    """Install what the end-to-end tests use; without it they say so and are skipped.

    With MTPROXY_NEED_PACKAGES=1 (set by .ci/run in CI) it is an error instead.
    """
    try:
        need(TESTS)
    except say.Failure as failure:
        if environ.get("MTPROXY_NEED_PACKAGES") == "1":
            raise
        say.note(f"{failure.message}: tests that need them are skipped")
        say.note(failure.hint)

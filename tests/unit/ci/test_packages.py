"""Debian packages: what is missing, how it is asked for, and no service started."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from toolchain import packages
from toolchain.say import Failure

MARK = "written by mtproxy's .ci/need"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first on PATH, for programs that play dpkg, apt and sudo."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("MTPROXY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(packages, "LOCK", tmp_path / "apt.lock")
    monkeypatch.setattr(packages, "POLICY", tmp_path / "policy-rc.d")
    return folder


def script(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def dpkg(folder: Path, text: str) -> None:
    (folder / "status").write_text(text)
    script(folder, "dpkg-query", f"cat {folder}/status")


def test_missing_knows_installed_and_provided_packages(tools: Path) -> None:
    dpkg(
        tools,
        "installed curl \n"
        "config-files wrk \n"
        "installed pkgconf pkg-config (= 1.8.1), pkgconf-64 (= 1)\n"
        "not-installed socat \n",
    )
    names = ["curl", "wrk", "pkg-config", "pkgconf-64", "socat", "nginx", "wrk"]
    assert packages.missing(names) == ["wrk", "socat", "nginx"]


def test_nothing_is_called_when_nothing_is_missing(tools: Path) -> None:
    dpkg(tools, "installed curl \n")
    script(tools, "apt-get", "echo called >&2; exit 1")
    packages.need(["curl"])


def test_a_name_that_is_none_never_reaches_apt(tools: Path) -> None:
    with pytest.raises(Failure, match="is no package name"):
        packages.need(["-o=x"])


def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def test_install_asks_apt_once_with_the_service_policy_in_place(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_root(monkeypatch)
    dpkg(tools, "installed curl \n")
    script(
        tools,
        "apt-get",
        f'case "$*" in *install*)\n'
        f"  cp {tmp_path}/policy-rc.d {tmp_path}/policy-seen\n"
        f'  echo "$* $DEBIAN_FRONTEND" >> {tmp_path}/calls\n'
        f"  echo 'installed wrk ' >> {tools}/status;;\n"
        f"esac",
    )
    packages.need(["curl", "wrk"])
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert call.endswith("install -y --no-install-recommends wrk noninteractive")
    assert MARK in (tmp_path / "policy-seen").read_text()
    assert not (tmp_path / "policy-rc.d").exists()


def test_stale_lists_are_read_anew_and_a_busy_apt_is_waited_for(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_root(monkeypatch)
    monkeypatch.setattr(packages, "RETRY_SECONDS", 0.01)
    dpkg(tools, "")
    script(
        tools,
        "apt-get",
        f'for last; do :; done; case "$*" in *" update") word=update;; *) word=install;; esac\n'
        f"echo $word >> {tmp_path}/calls\n"
        f"n=$(grep -c . {tmp_path}/calls)\n"
        f"updated=$(grep -c update {tmp_path}/calls)\n"
        f'if [ $n = 2 ]; then echo "E: Could not get lock /var/lib/x" >&2; exit 100; fi\n'
        f"if [ $word = install ] && [ $updated -lt 2 ]; then\n"
        f'  echo "E: Unable to locate package wrk"; exit 100; fi\n'
        f"if [ $word = install ]; then echo 'installed wrk ' >> {tools}/status; fi\n",
    )
    monkeypatch.setattr(packages, "_lists_exist", lambda: False)
    packages.need(["wrk"])
    assert (tmp_path / "calls").read_text().split() == [
        *("update", "install"),  # busy
        *("install", "update", "install"),
    ]


def test_a_failing_apt_is_told_with_what_to_do(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_root(monkeypatch)
    dpkg(tools, "")
    script(tools, "apt-get", "echo 'E: disk full'; exit 100")
    with pytest.raises(Failure) as caught:
        packages.need(["wrk"])
    text = caught.value.render()
    assert "E: disk full" in text
    assert "apt-get install --no-install-recommends wrk" in text
    assert "log: " in text


def test_without_root_it_goes_through_sudo_and_never_asks_for_a_password_in_ci(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("CI", "true")
    dpkg(tools, "")
    script(tools, "sudo", f'echo "$*" > {tmp_path}/sudo; exit 1')
    with pytest.raises(Failure, match="sudo did not install wrk") as caught:
        packages.need(["wrk"])
    assert caught.value.hint.startswith("as root: apt-get install")
    said = (tmp_path / "sudo").read_text()
    assert said.startswith("-n ")
    assert said.endswith("/.ci/toolchain need wrk\n")


def test_without_root_and_sudo_it_says_what_to_do(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    dpkg(tools, "")
    monkeypatch.setattr(packages.shutil, "which", lambda _name: None)
    with pytest.raises(Failure, match="no sudo here") as caught:
        packages.need(["wrk", "curl"])
    assert caught.value.hint == "as root: apt-get install --no-install-recommends wrk curl"


def test_the_policy_says_no_while_we_live_and_only_then(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with packages.no_services_started(policy):
        text = policy.read_text()
        assert subprocess.run([policy, "nginx", "start"], check=False).returncode == 101
    assert not policy.exists()
    # One that a killed run left behind: its process is gone.
    gone = subprocess.Popen(["true"])
    gone.wait()
    policy.write_text(text.replace(str(os.getpid()), str(gone.pid)))
    policy.chmod(0o755)
    assert subprocess.run([policy, "nginx", "start"], check=False).returncode == 0
    with packages.no_services_started(policy):
        assert subprocess.run([policy, "nginx", "start"], check=False).returncode == 101
    assert not policy.exists()


def test_a_policy_of_the_machine_is_left_alone(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    with packages.no_services_started(policy):
        assert policy.read_text() == "#!/bin/sh\nexit 101\n"
    assert policy.read_text() == "#!/bin/sh\nexit 101\n"


def test_the_policy_goes_away_after_a_failure(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with pytest.raises(ZeroDivisionError), packages.no_services_started(policy):
        raise ZeroDivisionError
    assert not policy.exists()


def test_tests_go_on_without_packages_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cannot(_names: object) -> None:
        raise Failure("no way", "install it")

    monkeypatch.setattr(packages, "need", cannot)
    packages.need_for_tests({})
    assert "no way: tests that need them are skipped" in capsys.readouterr().err
    with pytest.raises(Failure, match="no way"):
        packages.need_for_tests({"MTPROXY_NEED_PACKAGES": "1"})

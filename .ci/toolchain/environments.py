"""The two environments: `.venv` for the program and its tests, `.tools/lint` for the rest.

`.venv` stands on the free-threaded interpreter and holds what `.ci/requirements-dev.txt` pins
(with digests) and the project itself, editable. `.tools/lint` stands on the distribution's own
Python and holds the lint tools that do not install on 3.13t. Each carries a stamp of all that it
was made from: the same stamp means nothing to do, another one means a new environment.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from toolchain import interpreters, packages, paths, say

DEV = paths.CI / "requirements-dev.txt"
LINT = paths.CI / "requirements-lint.txt"
_STAMP = "mtproxy-stamp"
_PROJECT_STAMP = "mtproxy-project-stamp"

#: What the tests import before they do anything: one of them bringing the GIL back would make every
#: test of threads worthless.
_GIL_CHECK = """
import sys, sysconfig
import execnet, h11, hypothesis, pytest, sortedcontainers, xdist
free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
sys.exit(1 if free_threaded and sys._is_gil_enabled() else 0)
"""


def venv_folder() -> Path:
    """Return the program's environment: `.venv`, or $MTPROXY_VENV relative to the checkout."""
    return paths.ROOT / os.environ.get("MTPROXY_VENV", ".venv")


def venv() -> Path:
    """Make or bring up to date the program's environment; return its folder. Raises Failure."""
    folder = venv_folder()
    interpreter = interpreters.choose()
    with paths.locked(paths.TOOLS / "venv.lock", "making the environment"):
        stamp = _stamp(f"{interpreter.path} {interpreter.title} {_identity(interpreter.path)}", DEV)
        if _read(folder / _STAMP) != stamp or not (folder / "bin" / "python").exists():
            say.step(f"{folder.name}: {interpreter.title} from {interpreter.origin}")
            say.note(str(interpreter.path))
            log = paths.log_file("venv")
            _create([str(interpreter.path), "-m", "venv", str(folder)], folder, log)
            if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
                # librt, which mypy needs, has no wheel for 3.13t: pip compiles it.
                packages.need(packages.COMPILER)
            pip = [str(folder / "bin" / "python"), "-m", "pip"]
            _install(pip, DEV, log)
            _check_gil(folder, log)
            (folder / _STAMP).write_text(stamp, encoding="utf-8")
        _install_project(folder)
    return folder


def _install_project(folder: Path) -> None:
    stamp = _stamp(str(paths.ROOT), paths.ROOT / "pyproject.toml")
    if _read(folder / _PROJECT_STAMP) == stamp and (folder / "bin" / "mtproxy").exists():
        return
    say.step(f"{folder.name}: mtproxy itself, editable")
    pip = [str(folder / "bin" / "python"), "-m", "pip"]
    # What it depends on and what builds it is there already, pinned.
    words = ["install", "--no-deps", "--no-build-isolation", "--editable", str(paths.ROOT)]
    say.run(
        [*pip, *_PIP_OPTIONS, *words],
        log=paths.log_file("venv-project"),
        doing="pip install --editable",
        hint="see the log: most likely pyproject.toml says something that hatchling refuses",
    )
    (folder / _PROJECT_STAMP).write_text(stamp, encoding="utf-8")


def lint(with_pip: Path) -> Path:
    """Make or bring up to date the lint environment; return its folder. Raises Failure.

    `with_pip` is an environment whose pip installs into it: the distribution's Python has none
    without one more package.
    """
    folder = paths.TOOLS / "lint"
    with paths.locked(paths.TOOLS / "lint.lock", "making the lint environment"):
        stamp = _stamp(f"{sys.executable} {sys.version}", LINT)
        if _read(folder / _STAMP) == stamp and (folder / "bin" / "lint-imports").exists():
            return folder
        say.step(f".tools/lint: Python {sys.version.split()[0]} of the distribution")
        log = paths.log_file("lint")
        _create([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder, log)
        pip = [str(with_pip / "bin" / "python"), "-m", "pip"]
        _install([*pip, "--python", str(folder / "bin" / "python")], LINT, log)
        (folder / _STAMP).write_text(stamp, encoding="utf-8")
    return folder


_PIP_OPTIONS = ("--disable-pip-version-check", "--no-input")


def _create(command: list[str], folder: Path, log: Path) -> None:
    if folder.exists():
        if not (folder / "pyvenv.cfg").exists() and any(folder.iterdir()):
            raise say.Failure(
                f"{folder} is in the way and is no virtual environment", "move it elsewhere"
            )
        shutil.rmtree(folder)
    say.run(
        command,
        log=log,
        doing="creating the environment",
        hint="see the log; is the disk full, or the checkout not yours to write?",
    )


def _install(pip: list[str], requirements: Path, log: Path) -> None:
    count = sum(1 for line in requirements.read_text().splitlines() if "==" in line)
    say.run(
        [*pip, *_PIP_OPTIONS, "install", "--require-hashes", "-r", str(requirements)],
        log=log,
        doing=f"pip installs {count} pinned packages",
        hint="see the log; pip needs a package index that it can reach (pip config list)",
        detail=lambda: (say.last_lines(log, 1) or [""])[0].strip()[:60],
    )


def _check_gil(folder: Path, log: Path) -> None:
    done = subprocess.run(
        [folder / "bin" / "python", "-c", _GIL_CHECK], capture_output=True, text=True, check=False
    )
    if done.returncode:
        with log.open("a", encoding="utf-8") as output:
            output.write(done.stderr)
        raise say.Failure(
            "a pinned package does not import, or brings the GIL back",
            f"see the log; the pins are in {DEV.relative_to(paths.ROOT)} (make lock renews them)",
            log,
        )


def _stamp(made_from: str, requirements: Path) -> str:
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    return f"{made_from}\n{requirements.name} {digest}\n"


def _identity(path: Path) -> str:
    """Tell two builds under the same name apart."""
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""

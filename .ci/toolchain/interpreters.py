"""Which python3.13t the project runs on: find one, or have one made.

Order: $MTPROXY_PYTHON; python3.13t on PATH; pyenv's; uv's; the one built earlier into the cache;
one that `uv python install` can download; one built from the distribution's source package.
"""

from __future__ import annotations

import dataclasses
import functools
import glob
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from toolchain import build, paths, say

NAME = "python3.13t"

#: Imports what pip, the environments and the program need; answers what the interpreter is. A
#: virtual environment answers for the interpreter that it was made from.
_PROBE = """
import bz2, ctypes, ensurepip, hashlib, json, lzma, os, select, socket, ssl, sys, sysconfig
import venv, zlib
print(json.dumps({
    "executable": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "version": list(sys.version_info[:3]),
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
}))
"""


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """An interpreter that was run and found usable."""

    path: Path
    version: tuple[int, int, int]
    free_threaded: bool
    #: where it was found, for people
    origin: str

    @property
    def title(self) -> str:
        """Version and kind in the words of this project."""
        number = ".".join(map(str, self.version))
        return f"CPython {number}{'t' if self.free_threaded else ' (with the GIL)'}"


class Unusable(Exception):
    """Why a candidate will not do."""


def inspect(candidate: str | Path, origin: str) -> Interpreter:
    """Run a candidate and return what it is. Raises Unusable with the reason."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(
            [str(candidate), "-Ic", _PROBE],
            capture_output=True,
            text=True,
            timeout=60,
            env=env,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unusable(f"it does not run: {error}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise Unusable(last)
    try:
        answer = json.loads(done.stdout)
        major, minor, micro = answer["version"]
        path, free_threaded = Path(answer["executable"]), bool(answer["free_threaded"])
    except (ValueError, KeyError, TypeError) as error:
        raise Unusable(f"it answers {done.stdout.strip()[:80]!r}") from error
    if (major, minor) != (3, 13):
        raise Unusable(f"it is Python {major}.{minor}, not 3.13")
    return Interpreter(path, (major, minor, micro), free_threaded, origin)


def choose(environ: Mapping[str, str] = os.environ) -> Interpreter:
    """Return the interpreter for this project, making one if there is none. Raises Failure."""
    asked = environ.get("MTPROXY_PYTHON", "").strip()
    if asked:
        return _asked_for(asked)
    found = first_usable(candidates(environ), say.note)
    if found is None:
        found = _from_cache("plain") or _by_uv(environ) or made("plain")
    if found.version < build.SOUND:
        sound = ".".join(map(str, build.SOUND))
        say.note(f"{found.title} ({found.path}) works, but {sound} fixes crashes of the")
        if found.origin.startswith("built"):
            say.note(f"free-threaded build; removing {found.path.parent.parent} builds anew")
        else:
            say.note("free-threaded build; MTPROXY_PYTHON=plain builds a newer one from source")
    return found


def _asked_for(asked: str) -> Interpreter:
    if asked in build.FLAVOURS:
        return made(asked)
    where = asked if os.sep in asked else (shutil.which(asked) or asked)
    try:
        found = inspect(Path(where).expanduser(), "MTPROXY_PYTHON")
    except Unusable as error:
        raise say.Failure(
            f"MTPROXY_PYTHON={asked} will not do: {error}",
            f"point it at a {NAME}, say plain or optimized to have one built, or unset it",
        ) from error
    if not found.free_threaded:
        say.note(
            f"MTPROXY_PYTHON={asked} is a build with the GIL: threads will not run in parallel"
        )
    return found


def first_usable(
    found: Iterable[tuple[Path, str]], tell: Callable[[str], None]
) -> Interpreter | None:
    """Return the first free-threaded 3.13 among (path, origin), telling why others were passed."""
    for path, origin in found:
        try:
            interpreter = inspect(path, origin)
        except Unusable as error:
            tell(f"{path} ({origin}) passed over: {error}")
            continue
        if interpreter.free_threaded:
            return interpreter
        tell(f"{path} ({origin}) passed over: it is a build with the GIL")
    return None


def candidates(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield (path, origin) of what this machine has: PATH, then pyenv, then uv; none is run yet."""
    seen: set[Path] = set()
    for path, origin in _everywhere(environ):
        if path not in seen and os.access(path, os.X_OK) and path.is_file():
            seen.add(path)
            yield path, origin


def _everywhere(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    for folder in environ.get("PATH", "").split(os.pathsep):
        if folder:
            yield Path(folder) / NAME, "PATH"
    for root in _pyenv_roots(environ):
        # 3.13.9t before 3.13.15t would be the order of their names
        versions = glob.glob(f"{glob.escape(str(root))}/versions/3.13*/bin/{NAME}")
        for path in sorted(versions, key=_version_in, reverse=True):
            yield Path(path), "pyenv"
    uv = shutil.which("uv", path=environ.get("PATH", ""))
    if uv is not None:
        done = subprocess.run(
            [uv, "python", "find", "--system", "--no-project", "3.13t"],
            capture_output=True,
            text=True,
            env={**environ, "UV_PYTHON_DOWNLOADS": "never"},
            check=False,
        )
        if done.returncode == 0 and done.stdout.strip():
            yield Path(done.stdout.strip().splitlines()[-1]), "uv"


def _pyenv_roots(environ: Mapping[str, str]) -> list[Path]:
    if environ.get("PYENV_ROOT"):
        return [Path(environ["PYENV_ROOT"])]
    roots = [Path(environ["HOME"]) / ".pyenv"] if environ.get("HOME") else []
    pyenv = shutil.which("pyenv", path=environ.get("PATH", ""))
    if pyenv is not None:
        # .../pyenv/bin/pyenv or .../pyenv/libexec/pyenv; asking it costs a tenth of a second
        roots.append(Path(pyenv).resolve().parent.parent)
    return roots


def _version_in(path: str) -> list[int]:
    name = path.rpartition("/versions/")[2].partition("/")[0]
    return [int(part) for part in name.rstrip("t").split(".") if part.isdigit()]


@functools.cache
def _from_cache(flavour: str) -> Interpreter | None:
    path = build.built(flavour)
    if path is None:
        return None
    return first_usable([(path, f"built earlier, {flavour}")], say.note)


def made(flavour: str) -> Interpreter:
    """Return the cached build of that flavour, building it first if need be. Raises Failure."""
    found = _from_cache(flavour)
    if found is not None:
        return found
    path = build.build(flavour)
    try:
        return inspect(path, f"built now, {flavour}")
    except Unusable as error:
        raise say.Failure(
            f"{path} was built but will not do: {error}",
            f"remove {path.parent.parent} and try again",
        ) from error


def _by_uv(environ: Mapping[str, str]) -> Interpreter | None:
    """Let uv download an interpreter; None where there is no uv or it cannot download."""
    uv = shutil.which("uv", path=environ.get("PATH", ""))
    if uv is None:
        return None
    say.step("python3.13t: none on this machine, asking uv for one")
    try:
        say.run(
            [uv, "python", "install", "3.13t"],
            log=paths.log_file("uv"),
            doing="uv python install 3.13t",
            hint="it is built from source instead",
            timeout=300,
        )
    except say.Failure as failure:
        say.note(f"{failure.message}: {failure.hint}")
        return None
    return first_usable((item for item in candidates(environ) if item[1] == "uv"), say.note)

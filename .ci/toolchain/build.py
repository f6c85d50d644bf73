"""Builds a free-threaded CPython 3.13 from the distribution's source package into the cache.

Two flavours: `plain` (-O3; a few minutes) and `optimized` (PGO and LTO; 20 minutes on two busy
cores, and 8-12 % less CPU per request). A build takes place in a folder of its own and appears
under its final name in one step, with `mtproxy-build.json` telling how it was made. Upstream's
archive is built without Debian's patches: they fit an interpreter of the system, not this one.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from toolchain import aptsource, packages, paths, say

PACKAGE = "python3.13"
#: Newest first: 3.13.15 came to testing long before a stable release had it.
SUITES = ("testing", "trixie")
MARKER = "mtproxy-build.json"
#: The first release without the crashes of the free-threaded build that were met under load.
SOUND = (3, 13, 15)

FLAVOURS = {
    "plain": ("--disable-test-modules",),
    "optimized": ("--enable-optimizations", "--with-lto"),
}
#: Debug information makes the build slower and ten times as large, and helps nobody here.
CFLAGS = "-O3 -g0"
#: Again, behind the -g that configure adds to the flags of an LTO build.
MAKE_FLAGS = ("CFLAGS_NODIST=-g0", "LDFLAGS_NODIST=-g0")
_VERSION = re.compile(r"^3\.13\.\d+")
_PHASES = (
    (b"Building with support for profile generation", "for the profile"),
    (b"./python -m test --pgo", "profiling"),
    (b"Rebuilding with profile guided optimizations", "with the profile"),
)


def built(flavour: str) -> Path | None:
    """Return the python3.13t of the newest finished build of that flavour in the cache, or None."""
    finished = [path.parent for path in paths.cache().glob(f"python-3.13.*t-{flavour}/{MARKER}")]
    finished.sort(key=lambda path: [int(number) for number in re.findall(r"\d+", path.name)])
    return finished[-1] / "bin" / "python3.13t" if finished else None


def build(flavour: str) -> Path:
    """Build that flavour unless another run just did; return its python3.13t. Raises Failure."""
    cache = paths.cache()
    with paths.locked(cache / "build.lock", "building the interpreter"):
        done = built(flavour)
        if done is not None:
            return done
        say.step(
            f"python3.13t ({flavour}): building it once into {cache} "
            f"({'about 20 minutes' if flavour == 'optimized' else 'a few minutes'})"
        )
        packages.need(packages.BUILD)
        archive, version = _source(cache / "source")
        prefix = cache / f"python-{version}t-{flavour}"
        log = paths.log_file(prefix.name)
        _room_for(cache, log)
        for left in cache.glob("build-*.tmp"):  # by a run that was killed: we hold the lock
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="build-", suffix=".tmp", dir=cache) as folder:
            _build(archive, version, flavour, prefix, Path(folder), log)
        return prefix / "bin" / "python3.13t"


def _source(folder: Path) -> tuple[Path, str]:
    """Return upstream's archive and its version, downloaded unless an earlier build did."""
    kept = sorted(folder.glob(f"{PACKAGE}_3.13.*.orig.tar.xz"), key=_numbers)
    if kept and _numbers(kept[-1])[:3] >= list(SOUND):
        say.note(f"source: {kept[-1]} (downloaded earlier)")
        return kept[-1], _version(kept[-1])
    log = paths.log_file("python-source")
    try:
        archive = aptsource.fetch(PACKAGE, SUITES, folder, log)
    except say.Failure as failure:
        if not kept:
            raise
        say.note(f"{failure.message}; going on with {kept[-1]} (downloaded earlier)")
        archive = kept[-1]
    else:
        say.note(f"source: {archive.name}, signature and digest verified by apt")
    return archive, _version(archive)


def _numbers(archive: Path) -> list[int]:
    """Return the numbers of the upstream version in the name of an archive, for comparing."""
    return [int(number) for number in re.findall(r"\d+", archive.name.partition("_")[2])]


def _version(archive: Path) -> str:
    version = archive.name.partition("_")[2]
    match = _VERSION.match(version)
    if match is None:
        raise say.Failure(f"source version {version} is no 3.13", "set MTPROXY_PYTHON")
    return match.group()


def _room_for(cache: Path, log: Path) -> None:
    free = shutil.disk_usage(cache).free
    if free < 1_500_000_000:
        raise say.Failure(
            f"{cache} has {free // 1_000_000} MB left, the build takes 1,500",
            "make room, or set MTPROXY_CACHE to a folder on a larger disk",
            log,
        )


def _build(
    archive: Path, version: str, flavour: str, prefix: Path, folder: Path, log: Path
) -> None:
    source, stage = folder / "source", folder / "stage"
    say.note(f"log: {log}")
    with tarfile.open(archive) as packed:
        if hasattr(tarfile, "data_filter"):  # not in bookworm's 3.11.2; apt verified what is in it
            packed.extractall(source, filter="data")
        else:
            packed.extractall(source)
    (top,) = source.iterdir()
    # Nobody's flags or module paths from outside get into the interpreter.
    dropped = re.compile(r"^(PYTHON.*|C(PP)?FLAGS|LDFLAGS|M(AKE)?FLAGS|DESTDIR|CONFIG_SITE)$")
    env = {name: value for name, value in os.environ.items() if not dropped.match(name)}
    env["LC_ALL"] = "C"
    hint = "see the log; set MTPROXY_PYTHON to a python3.13t that you have to go on without"
    options = ("--disable-gil", "--with-ensurepip=install", *FLAVOURS[flavour])
    jobs = len(os.sched_getaffinity(0))

    def run(words: list[str], doing: str, detail: Callable[[], str] | None = None) -> None:
        say.run(words, log=log, doing=doing, hint=hint, detail=detail, env=env, cwd=top)

    run(
        ["./configure", f"--prefix={prefix}", *options, f"CFLAGS={CFLAGS}"],
        f"configuring CPython {version}t",
    )
    run(
        ["make", f"-j{jobs}", *MAKE_FLAGS],
        f"compiling CPython {version}t ({flavour}, {jobs} jobs)",
        lambda: compiled(log.read_bytes()),
    )
    run(["make", "install", *MAKE_FLAGS, f"DESTDIR={stage}"], f"installing into {prefix}")
    made = stage / prefix.relative_to("/")
    shutil.rmtree(made / "lib" / "python3.13t" / "test", ignore_errors=True)
    _check_modules(made, hint, log)
    marker = {
        "version": version,
        "flavour": flavour,
        "source": archive.name,
        "configure": [*options, f"CFLAGS={CFLAGS}"],
        "make": list(MAKE_FLAGS),
        "compiler": _first_line([env.get("CC", "gcc"), "--version"]),
        "machine": platform.machine(),
    }
    (made / MARKER).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")
    if prefix.exists():  # left by an older, interrupted way of building: it has no marker
        shutil.rmtree(prefix)
    made.rename(prefix)
    say.note(f"built {prefix / 'bin' / 'python3.13t'}")


def compiled(log: bytes) -> str:
    """Return how far a build is, from what make has printed: phase and compiled files."""
    at, phase = max((log.rfind(line), phase) for line, phase in _PHASES)
    if at >= 0 and phase == "profiling":
        tests = re.findall(rb"\[ *(\d+)/(\d+)[^]]*\] ", log[at:])
        done = f" test {tests[-1][0].decode()} of {tests[-1][1].decode()}" if tests else ""
        return phase + done
    if at >= 0:
        return f"{_count(log[at:])} files compiled {phase}{_linking(log)}"
    return f"{_count(log)} files compiled"


def _linking(log: bytes) -> str:
    """With LTO one link takes minutes, in which nothing is printed."""
    last = log.rstrip().rpartition(b"\n")[2]
    return ", linking" if b" -flto" in last and b" -c " not in last else ""


def _count(log: bytes) -> int:
    return len(re.findall(rb"^\S*(?:gcc|cc|clang)\S* .*-c ", log, re.MULTILINE))


def _check_modules(made: Path, hint: str, log: Path) -> None:
    """Refuse a build that lacks a module for want of a library, before anybody relies on it."""
    modules = "bz2, ctypes, curses, hashlib, lzma, readline, sqlite3, ssl, uuid, zlib"
    code = f"import sys, {modules}; sys.exit(sys._is_gil_enabled())"
    python = made / "bin" / "python3.13t"
    done = subprocess.run([python, "-Ic", code], capture_output=True, text=True, check=False)
    if done.returncode:
        with log.open("a", encoding="utf-8") as output:
            output.write(done.stderr)
        raise say.Failure("the built interpreter lacks a module or runs with a GIL", hint, log)


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0]

"""The commands of `.ci/setup`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from toolchain import aptsource, build, environments, interpreters, lock, packages, paths, say


def python(words: Sequence[str]) -> None:
    """`python [plain|optimized]`: find or build the interpreter, print its path."""
    if words:
        if words[0] not in build.FLAVOURS:
            raise say.Failure(
                f"no flavour {words[0]!r}", f"say one of: {', '.join(build.FLAVOURS)}"
            )
        found = interpreters.made(words[0])
    else:
        found = interpreters.choose()
    say.note(f"{found.title}, {found.origin}")
    print(found.path)


def venv(words: Sequence[str]) -> None:
    """`venv`: have .venv up to date (the folder can be set by $MTPROXY_VENV), print its path."""
    _no_more(words)
    print(environments.venv())


def lint(words: Sequence[str]) -> None:
    """`lint`: have .venv and .tools/lint up to date, print the latter's path."""
    _no_more(words)
    print(environments.lint(environments.venv()))


def need(words: Sequence[str]) -> None:
    """`need PACKAGE...`: have these Debian packages installed."""
    if not words:
        raise say.Failure("no package named", "say .ci/need PACKAGE...")
    packages.need(words)


def test_packages(words: Sequence[str]) -> None:
    """`test-packages`: have the Debian packages installed that the end-to-end tests use."""
    _no_more(words)
    packages.need_for_tests()


def source(words: Sequence[str]) -> None:
    """`source PACKAGE FOLDER [SUITE...]`: download a Debian source package, print its archive."""
    if len(words) < 2:
        raise say.Failure("too few words", "say .ci/setup source PACKAGE FOLDER [SUITE...]")
    package, folder, *suites = words
    say.step(f"source package {package}")
    log = paths.log_file(f"source-{package}")
    print(aptsource.fetch(package, suites or None, Path(folder).absolute(), log))


def renew_lock(words: Sequence[str]) -> None:
    """`lock`: pin anew what pyproject.toml asks for."""
    _no_more(words)
    lock.lock(environments.venv())


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "python": python,
    "venv": venv,
    "lint": lint,
    "need": need,
    "test-packages": test_packages,
    "source": source,
    "lock": renew_lock,
}


def _no_more(words: Sequence[str]) -> None:
    if words:
        raise say.Failure(f"unexpected {' '.join(words)!r}", "say .ci/setup help")


def usage() -> str:
    """Return the list of commands."""
    lines = ["usage: .ci/setup COMMAND", ""]
    lines += [f"  {(command.__doc__ or '').replace('`', '')}" for command in COMMANDS.values()]
    lines += [
        "",
        "environment: MTPROXY_PYTHON  an interpreter, or plain or optimized for a cached build",
        "             MTPROXY_CACHE   where interpreters and logs are (~/.cache/mtproxy)",
        "             MTPROXY_VENV    the environment's folder (.venv)",
    ]
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """Run one command; return the exit code."""
    if not words or words[0] in ("help", "-h", "--help"):
        print(usage())
        return 0
    command = COMMANDS.get(words[0])
    try:
        if command is None:
            raise say.Failure(f"no command {words[0]!r}", "say .ci/setup help")
        command(words[1:])
    except say.Failure as failure:
        print(failure.render(), file=sys.stderr)
        return 1
    except OSError as error:
        if not error.filename:
            raise
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        print("  what to do: is the disk full, or is it not yours to write?", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0

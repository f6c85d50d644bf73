"""Where things are: the checkout, the cache outside it, logs and locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from toolchain import say

ROOT = Path(__file__).resolve().parent.parent.parent
CI = ROOT / ".ci"
#: Tools that live beside the program's environment, and the stamps and locks of this checkout.
TOOLS = ROOT / ".tools"


def cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for what outlives a checkout: $MTPROXY_CACHE or ~/.cache/mtproxy."""
    own = environ.get("MTPROXY_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base).absolute() / "mtproxy"


def log_file(name: str) -> Path:
    """Return an empty log file of that name in the cache; the one before is kept as `.old`."""
    path = cache() / "logs" / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.replace(path.with_suffix(".log.old"))
    path.touch()
    return path


@contextlib.contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold an exclusive lock on `path` against other runs, saying so while it has to wait.

    The lock is the kernel's (flock): it ends with the process, so a crash leaves nothing behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _wait_for(descriptor, path, what)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, path: Path, what: str) -> None:
    ticker: say.Ticker | None = None
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if ticker is None:
                holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
                say.note(f"waiting for process {holder or '?'} that holds {path} ({what})")
                ticker = say.Ticker(f"waiting for {path}")
            ticker.tick()
            _pause()
        else:
            if ticker is not None:
                ticker.close()
            return


def _pause() -> None:
    # Nothing tells a waiter that a file lock is free without blocking it silently.
    time.sleep(0.2)

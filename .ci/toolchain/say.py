"""What the scripts tell the person who waits: steps, signs of life, and failures that help.

Everything goes to standard error. `Failure` is the one exception that `main` turns into a message
and exit code 1; it always says what to do next.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

#: Seconds between two signs of life: on a terminal the line is rewritten, elsewhere it is a new
#: line of a log that somebody reads later.
TERMINAL_INTERVAL = 1.0
LOG_INTERVAL = 15.0
#: A command that ends sooner shows no sign of life at all.
QUIET_SECONDS = 3.0
#: How long a command may take to end when it is asked to, before it is made to.
PATIENCE = 5.0


class Failure(Exception):
    """A step that failed: what happened, what to do about it, and where the details are."""

    def __init__(self, message: str, hint: str, log: Path | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.log = log

    def render(self) -> str:
        """Return the lines that are printed for this failure."""
        lines = [f"error: {self.message}"]
        if self.log is not None:
            lines += [f"  | {line}" for line in last_lines(self.log, 15)]
        lines.append(f"  what to do: {self.hint}")
        if self.log is not None:
            lines.append(f"  log: {self.log}")
        return "\n".join(lines)


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last `count` lines of a text file that are not empty; [] if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def step(text: str) -> None:
    """Say which step begins."""
    print(f"==> {text}", file=sys.stderr, flush=True)


def note(text: str) -> None:
    """Say something that belongs to the current step."""
    print(f"    {text}", file=sys.stderr, flush=True)


class Ticker:
    """Shows that a long step is alive; call `tick` as often as you like."""

    def __init__(self, doing: str) -> None:
        self.doing = doing
        self.started = time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.shown_at = self.started
        self.shown = False

    @property
    def elapsed(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self.started

    def tick(self, detail: Callable[[], str] | None = None) -> None:
        """Print a sign of life if the last one is old enough; `detail` is called only then."""
        now = time.monotonic()
        interval = TERMINAL_INTERVAL if self.terminal else LOG_INTERVAL
        if now - self.started < QUIET_SECONDS or now - self.shown_at < interval:
            return
        self.shown_at = now
        text = f"    {self.doing}: {self.elapsed:.0f} s"
        more = detail() if detail is not None else ""
        if more:
            text += f", {more}"
        if self.terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)
        self.shown = True

    def close(self) -> None:
        """Take the rewritten line away again."""
        if self.shown and self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def run(
    command: Sequence[str | Path],
    *,
    log: Path,
    doing: str,
    hint: str,
    detail: Callable[[], str] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float | None = None,
) -> None:
    """Run a command with its output appended to `log`, showing signs of life meanwhile.

    Raises Failure (with `hint` and the end of the log) when it cannot be started, exits with
    anything but 0, or takes longer than `timeout` seconds.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [str(word) for word in command]
    ticker = Ticker(doing)
    with log.open("ab") as output:
        output.write(f"$ {' '.join(words)}\n".encode())
        output.flush()
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd=cwd,
                process_group=0,
            )
        except OSError as error:
            raise Failure(f"{doing}: cannot start {words[0]}: {error}", hint, log) from error
        try:
            while True:
                try:
                    code = process.wait(0.25)
                    break
                except subprocess.TimeoutExpired:
                    ticker.tick(detail)
                    if timeout is not None and ticker.elapsed > timeout:
                        raise Failure(
                            f"{doing}: not done after {timeout:.0f} s, given up", hint, log
                        ) from None
        finally:
            ticker.close()
            if process.poll() is None:
                _end(process)
    if code:
        raise Failure(f"{doing}: {words[0]} exited with code {code}", hint, log)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and all that it started, in its own process group: asked first, then made to.

    make passes no signal on to the commands of its commands.
    """
    for sign in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(process.pid, sign)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            continue
        return
    process.wait()

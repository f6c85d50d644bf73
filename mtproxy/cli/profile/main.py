"""The command line of `mtproxy profile`: choose a sampler, run it, write what it found."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from mtproxy.cli.client import REFUSALS, ClientError, ask, choose_socket, socket_option
from mtproxy.cli.profile import builtin, pyspy, render
from mtproxy.cli.profile.flamegraph import flamegraph
from mtproxy.cli.profile.idle import IdleRule
from mtproxy.cli.profile.sources import Sources
from mtproxy.cli.profile.stacks import Profile

#: format -> end of a file's name
FORMATS = {"flamegraph": "html", "speedscope": "speedscope.json", "raw": "txt", "top": "top.txt"}
SAMPLERS = ("auto", "builtin", "py-spy")
MAX_SECONDS = 3600.0
MAX_RATE = 1000
#: functions of the summary after a file was written
_SUMMARY = 5


@dataclass(frozen=True, slots=True)
class Target:
    """The process to look at, as it describes itself (`profile status`)."""

    pid: int
    start: str
    boot: str
    python: str
    free_threaded: bool
    root: str

    def is_here(self) -> bool:
        """Whether its number means that process on this machine, in this container, too."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[19:20] == [self.start] and boot.strip() == self.boot


def ask_target(address: str, timeout: float) -> Target:
    """Ask the proxy who it is. Raises ClientError."""
    answer = ask(address, "profile status", timeout)
    if answer.startswith(REFUSALS):
        raise ClientError(builtin.explain(answer))
    fields = dict(line.split(": ", 1) for line in answer.splitlines() if ": " in line)
    try:
        return Target(
            int(fields["Pid"]),
            fields["Start"],
            fields["Boot"],
            fields["Python"],
            fields["Free-threaded"] == "1",
            fields["Root"],
        )
    except (KeyError, ValueError):
        raise ClientError(f"unexpected answer to 'profile status': {answer[:200]!r}") from None


class Progress:
    """Says on standard error how far it is: a line that changes, on a terminal only."""

    def __init__(self, seconds: float, out: TextIO) -> None:
        self._seconds = seconds
        self._out = out
        self._live = out.isatty()
        self._last = 0.0

    def __call__(self, elapsed: float, rounds: int) -> None:
        if self._live and elapsed - self._last >= 0.2:
            self._last = elapsed
            counted = f", {rounds} samples" if rounds else ""
            done = min(elapsed, self._seconds)
            self._out.write(f"\r{done:5.1f} of {self._seconds:g} s{counted} (Ctrl-C ends it) ")
            self._out.flush()

    def say(self, text: str) -> None:
        """A whole line, below what changes."""
        if self._live and self._last:
            self._out.write("\r\x1b[K")
            self._last = 0.0
        self._out.write(f"{text}\n")
        self._out.flush()


def profile(argv: Sequence[str], out: TextIO | None = None, err: TextIO | None = None) -> int:
    """`mtproxy profile`. Exit code 0: written, 1: not possible, 2 (argparse): wrong options."""
    options = _parse(argv)
    out, err = out or sys.stdout, err or sys.stderr
    progress = Progress(options.seconds, err)
    try:
        address = choose_socket(options.socket)
        target = ask_target(address, options.timeout)
        found = _record(options, address, target, progress)
        shown = found if options.idle else found.without_idle()
        _write(options, found, shown, out, progress)
    except ClientError as error:
        progress.say(f"mtproxy profile: {error}")
        return 1
    except KeyboardInterrupt:
        progress.say("mtproxy profile: interrupted, nothing written")
        return 1
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mtproxy profile",
        description="Show where the threads of a running proxy spend their time.",
        epilog="Examples: mtproxy profile; mtproxy profile --seconds 30 --format speedscope -o "
        "load.json; mtproxy profile --format top. On a free-threaded Python the proxy takes the "
        "samples itself; on another one py-spy does, where it can. docs/profiling.md tells more.",
    )
    socket_option(parser)
    parser.add_argument(
        "--seconds", type=_seconds, default=10.0, help="how long (default: %(default)g)"
    )
    parser.add_argument(
        "--rate",
        type=_rate,
        default=100,
        metavar="HZ",
        help=f"samples per second, at most {MAX_RATE} (default: %(default)d)",
    )
    parser.add_argument(
        "--format",
        choices=tuple(FORMATS),
        default="flamegraph",
        help="flamegraph: a page for a browser; speedscope: for www.speedscope.app; raw: collapsed "
        "stacks; top: a table (default: %(default)s)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where to write, '-' for standard output (default: a name made of the process and "
        "the time; for top, standard output)",
    )
    parser.add_argument("--idle", action="store_true", help="also show threads that wait for work")
    parser.add_argument(
        "--lines", action="store_true", help="tell the lines of a function from each other"
    )
    parser.add_argument(
        "--sampler",
        choices=SAMPLERS,
        default="auto",
        help="who takes the samples (default: py-spy where it can, else the proxy itself)",
    )
    return parser.parse_args(list(argv))


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"from above 0 to {MAX_SECONDS:g} are possible")
    return value


def _rate(text: str) -> int:
    value = int(text)
    if not 0 < value <= MAX_RATE:
        raise argparse.ArgumentTypeError(f"1 to {MAX_RATE} are possible")
    return value


# --- sampling


def _record(
    options: argparse.Namespace, address: str, target: Target, progress: Progress
) -> Profile:
    sources: Callable[[str], Sources] = partial(Sources, by_line=options.lines)
    if options.sampler != "builtin":
        try:
            program = _py_spy_for(target, asked=options.sampler == "py-spy")
            progress.say(
                f"py-spy {pyspy.version(program)} samples process {target.pid} for "
                f"{options.seconds:g} s"
            )
            return pyspy.record(
                program,
                target.pid,
                target.python,
                options.seconds,
                options.rate,
                sources(target.root),
                _idle_rule(target.root),
                progress,
                idle=options.idle,
            )
        except pyspy.CannotAttach as error:
            if options.sampler == "py-spy":
                raise ClientError(f"py-spy cannot be used: {error}") from None
            progress.say(f"not py-spy: {error}")
    kind = "free-threaded" if target.free_threaded else "with a GIL"
    progress.say(
        f"the built-in sampler of process {target.pid} (Python {target.python}, {kind}) works for "
        f"{options.seconds:g} s"
    )
    if not target.free_threaded:
        progress.say(
            "note: with a GIL it sees threads mostly where they give the GIL away (reads, writes)"
        )
    return builtin.record(
        address, options.seconds, options.rate, sources, progress, idle=options.idle
    )


def _py_spy_for(target: Target, *, asked: bool) -> str:
    """The py-spy that can read the process. Raises CannotAttach."""
    if target.free_threaded and not asked:
        raise pyspy.CannotAttach("it cannot read a free-threaded interpreter")
    if not target.is_here():
        raise pyspy.CannotAttach("the process is not on this machine, or in another container")
    program = pyspy.find()
    if program is None:
        raise pyspy.CannotAttach("it is not installed (pip install py-spy)")
    pyspy.probe(program, target.pid)
    return program


def _idle_rule(root: str) -> IdleRule:
    """Where the threads of that proxy wait, read from its source, which is on this machine."""
    from mtproxy.sched.polllines import function_in, poll_lines

    file = f"{root}/mtproxy/sched/loop.py"
    code = function_in(file, "run_loop")
    lines = [] if code is None else poll_lines(code)
    return IdleRule(((file, line) for line in lines), [f"{root}/mtproxy/sched/fallback.py"])


# --- writing


def default_name(pid: int, form: str) -> str:
    """A file name that tells the process and the time."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return f"mtproxy-profile-{pid}-{stamp}.{FORMATS[form]}"


def _write(
    options: argparse.Namespace, found: Profile, shown: Profile, out: TextIO, progress: Progress
) -> None:
    """`found` has everything, `shown` what was asked for."""
    title = f"mtproxy {found.pid}, {time.strftime('%Y-%m-%d %H:%M:%S')}"
    match options.format:
        case "raw":
            text = render.raw(shown)
        case "speedscope":
            text = render.speedscope(shown, title)
        case "top":
            text = render.top(shown, found)
        case _:
            text = flamegraph(shown, title)
    if not any(True for _ in shown.stacks()):
        progress.say("no thread did anything: there is nothing to show (--idle shows the waiting)")
    to_stdout = options.output == "-" or (options.output is None and options.format == "top")
    if to_stdout:
        try:
            out.write(text)
            out.flush()
        except BrokenPipeError:
            # its reader has seen enough; the flush at the end of the program must not complain
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        return
    name = options.output or default_name(found.pid, options.format)
    try:
        Path(name).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ClientError(f"cannot write {name}: {error.strerror}") from None
    if options.format != "top":
        progress.say(render.top(shown, found, _SUMMARY).rstrip())
    hint = {"speedscope": " (open it on www.speedscope.app)", "flamegraph": " (for a browser)"}
    progress.say(f"written: {os.path.relpath(name)}{hint.get(options.format, '')}")

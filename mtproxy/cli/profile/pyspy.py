"""py-spy as the sampler: it reads the memory of the proxy from outside, so the proxy does nothing
for it. It knows no free-threaded build (0.4.3), and needs the right to trace the process.

py-spy writes speedscope's format, which is read here, so that its results look like those of the
built-in sampler. Which threads are idle it finds out itself, from the kernel.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mtproxy.cli.client import ClientError
from mtproxy.cli.profile.idle import IdleRule
from mtproxy.cli.profile.sources import Sources
from mtproxy.cli.profile.stacks import Profile, Sample, thread_order

#: how long py-spy may take to look at a process once, and to write its result, in seconds
_PROBE_SECONDS = 20.0
_WRITING_SECONDS = 60.0

_THREAD_NAME = re.compile(r'(?:Thread )?(?:0x[0-9A-Fa-f]+|\d+)? ?"?([^"]*?)"?')


class CannotAttach(Exception):
    """py-spy is of no use here; the text says why."""


def find() -> str | None:
    """The program: beside this Python (its environment), or in the PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def version(program: str) -> str:
    """Such as "0.4.3"."""
    try:
        found = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "?"
    return found.stdout.split()[-1] if found.stdout.split() else "?"


def probe(program: str, pid: int) -> None:
    """See whether py-spy can read that process, without stopping it. Raises CannotAttach."""
    try:
        found = subprocess.run(
            [program, "dump", "--nonblocking", "--pid", str(pid)],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotAttach(str(error)) from None
    if found.returncode != 0:
        raise CannotAttach(_complaint(found.stderr))


def _complaint(text: str) -> str:
    """The first line of what py-spy said."""
    for line in text.splitlines():
        if line.strip():
            return line.strip().removeprefix("Error: ")
    return "it failed without a word"


def record(
    program: str,
    pid: int,
    python: str,
    seconds: float,
    rate: int,
    sources: Sources,
    is_idle: IdleRule,
    progress: Callable[[float, int], None],
    *,
    idle: bool,
) -> Profile:
    """Run `py-spy record`. Raises CannotAttach when it does not begin, ClientError later on."""
    with tempfile.TemporaryDirectory(prefix="mtproxy-profile-") as folder:
        output = Path(folder) / "speedscope.json"
        command = [program, "record", "--pid", str(pid), "--format", "speedscope"]
        if idle:
            command.append("--idle")
        # whole seconds are all that py-spy takes
        duration = max(1, round(seconds))
        command += ["--duration", str(duration), "--rate", str(rate), "--output", str(output)]
        begin = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            said = _wait(process, begin + duration, progress, begin)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        if process.returncode != 0 or not output.exists():
            raise CannotAttach(_complaint(said))
        profile = read(output.read_text(), sources, is_idle, pid, python)
        profile.seconds, profile.rounds = duration, duration * rate
        return profile


def _wait(
    process: subprocess.Popen[bytes],
    end: float,
    progress: Callable[[float, int], None],
    begin: float,
) -> str:
    """Until it ends; what it said. Ctrl-C reaches py-spy too, which then writes what it has."""
    interrupted = False
    while True:
        try:
            said, _ = process.communicate(timeout=0.2)
        except subprocess.TimeoutExpired:
            now = time.monotonic()
            if now > end + _WRITING_SECONDS:
                raise ClientError("py-spy does not come to an end") from None
            progress(now - begin, 0)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
        else:
            return said.decode("utf-8", "replace")


def read(text: str, sources: Sources, is_idle: IdleRule, pid: int, python: str) -> Profile:
    """The Profile that a speedscope file of py-spy's describes. Raises ClientError."""
    try:
        content = json.loads(text)
        told = [
            (one.get("file") or "", one.get("line") or 0, one["name"])
            for one in content["shared"]["frames"]
        ]
        frames = [sources.frame(*one) for one in told]
        profile = Profile("py-spy", pid, python)
        for one in content["profiles"]:
            name = _thread_name(one["name"])
            thread = profile.thread("mtproxy/1" if name == "MainThread" else name)
            at = 0.0
            for stack, weight in zip(one["samples"], one["weights"], strict=True):
                idle = is_idle([told[i] for i in reversed(stack)])
                thread.samples.append(Sample(at, tuple(frames[i] for i in stack), idle))
                at += weight
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ClientError(f"py-spy wrote something unexpected: {error!r}") from None
    profile.threads.sort(key=lambda thread: thread_order(thread.name))
    return profile


def _thread_name(text: str) -> str:
    found = _THREAD_NAME.fullmatch(text)
    return found[1] if found is not None and found[1] else text

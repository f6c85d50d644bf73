"""What a result was measured on: processor, kernel, interpreter, versions of the tools."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from mtproxy.testing.program import find_tool


def _first_line(*command: str) -> str:
    path = find_tool(command[0])
    if path is None:
        return "absent"
    done = subprocess.run(
        [path, *command[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if lines else f"exit code {done.returncode}"


def cpu_model() -> str:
    """The processor's name as the kernel tells it."""
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def interpreter_build() -> str:
    """How the running interpreter was built: "PGO+LTO", "PGO", "LTO" or "plain"."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    words = []
    if "--enable-optimizations" in arguments:
        words.append("PGO")
    if re.search(r"--with-lto(?!=no)", arguments):
        words.append("LTO")
    return "+".join(words) or "plain"


def describe() -> dict[str, object]:
    """Everything that a reader of a result needs to judge it."""
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "python_build": interpreter_build(),
        "free_threaded": free_threaded,
        "gil_enabled": sys._is_gil_enabled(),
        "haproxy": _first_line("haproxy", "-v"),
        "nginx": _first_line("nginx", "-v"),
        "wrk": _first_line("wrk", "-v").partition(" Copyright")[0],
        "load_before": round(os.getloadavg()[0], 2),
    }


def lines(machine: dict[str, object]) -> list[str]:
    """The description for people."""
    gil = "with GIL" if machine["gil_enabled"] else "free-threaded"
    text = [
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}",
        f"CPython {machine['python']} {gil}, {machine['python_build']} build",
        f"{machine['haproxy']}",
        f"{machine['nginx']}; {machine['wrk']}",
    ]
    load = float(str(machine["load_before"]))
    if load > 0.5:
        text.append(f"the machine was busy before the first round: load {load}")
    return text

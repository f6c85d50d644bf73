"""`make lock`: pins what pyproject.toml asks for, with digests, for every platform at once.

uv does the resolving (its `pip compile`); it is installed for this one step into `.tools/uv`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from toolchain import environments, paths, say

_HEADER = """\
# Pinned by `make lock` from pyproject.toml ({what}); do not edit by hand.
"""


def lock(with_pip: Path) -> None:
    """Write both requirements files anew. Raises Failure."""
    tool = paths.TOOLS / "uv"
    log = paths.log_file("lock")
    if not (tool / "bin" / "uv").exists():
        say.step(".tools/uv: the resolver")
        shutil.rmtree(tool, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tool], check=True)
        say.run(
            [str(with_pip / "bin" / "python"), "-m", "pip"]
            + ["--python", str(tool / "bin" / "python"), "install", "uv"],
            log=log,
            doing="pip install uv",
            hint="see the log",
        )
    with (paths.ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    groups = project["dependency-groups"]
    runtime = list(project["project"]["dependencies"])
    for extra in project["project"]["optional-dependencies"].values():
        runtime += extra  # the tests try everything
    _compile(tool, [*runtime, *groups["dev"]], "3.13", environments.DEV, "runtime and dev", log)
    _compile(tool, groups["lint"], "3.11", environments.LINT, "lint", log)


def _compile(
    tool: Path, wanted: list[str], python: str, target: Path, what: str, log: Path
) -> None:
    say.step(f"{target.relative_to(paths.ROOT)}")
    source = paths.TOOLS / f"{target.stem}.in"
    output = paths.TOOLS / target.name
    source.write_text("\n".join(wanted) + "\n", encoding="utf-8")
    output.unlink(missing_ok=True)
    say.run(
        [str(tool / "bin" / "uv"), "pip", "compile", str(source), "--output-file", str(output)]
        + ["--universal", "--python-version", python, "--generate-hashes", "--no-header"]
        + ["--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--no-config"],
        log=log,
        doing="resolving",
        hint="see the log; the wishes are in pyproject.toml",
    )
    text = _HEADER.format(what=what) + output.read_text(encoding="utf-8")
    target.write_text(text, encoding="utf-8")
    say.note(f"{sum(1 for line in text.splitlines() if '==' in line)} packages")

"""Source packages of the distribution, fetched without touching the machine's apt set-up.

The list of sources, the downloaded indexes and the cache are private to one call. apt verifies
what it downloads: the archive's signature on the index, the index's digest on the files. Works as
any user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from toolchain import aptsources, say

_STRICT = (
    "Acquire::AllowInsecureRepositories=false",
    "Acquire::AllowWeakRepositories=false",
    "Acquire::AllowDowngradeToInsecureRepositories=false",
    "APT::Get::AllowUnauthenticated=false",
    # A release that is missing on a mirror must not pass as a warning.
    "APT::Update::Error-Mode=any",
    # The private folder may lie in a home that apt's own user cannot enter.
    "APT::Sandbox::User=root",
    "Acquire::Retries=2",
    "Acquire::Languages=none",
)


def machine_entries() -> list[aptsources.Entry]:
    """Return the package sources of this machine, from where its apt reads them."""
    files = {"LIST": "/etc/apt/sources.list", "PARTS": "/etc/apt/sources.list.d"}
    try:
        shown = subprocess.run(
            ["apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f"]
            + ["PARTS", "Dir::Etc::sourceparts/d"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise say.Failure(
            f"this machine's apt does not answer: {error}",
            "this needs Debian (bookworm or trixie); elsewhere set MTPROXY_PYTHON to a python3.13t",
        ) from error
    for line in shown.splitlines():
        name, _, value = line.partition("=")
        files[name] = value.strip("'\"")
    return aptsources.read_machine(Path(files["LIST"]), Path(files["PARTS"]))


def fetch(package: str, suites: Sequence[str] | None, destination: Path, log: Path) -> Path:
    """Download the newest source package among `suites` and return its upstream archive.

    `suites` None means the machine's own release. The files stay packed and are put into
    `destination`. Raises Failure when no archive of the machine has the package.
    """
    entries = machine_entries()
    wanted = list(suites) if suites else aptsources.plain_suites(entries)
    # All suites at once give the newest version. An archive that misses one of them has its chance
    # with each alone, in the order of preference.
    choices = [wanted] if len(wanted) == 1 else [wanted, *([suite] for suite in wanted)]
    keyring = aptsources.archive_keyring()
    failures: list[say.Failure] = []
    for choice in choices:
        for stanza in aptsources.derive(entries, choice, keyring):
            try:
                return _fetch_from(stanza, package, destination, log)
            except say.Failure as failure:
                failures.append(failure)
                errors = [line for line in say.last_lines(log, 8) if line.startswith("E: ")]
                say.note(
                    f"suites {' '.join(choice)}: {errors[0][3:] if errors else failure.message}"
                )
    if not failures:
        raise say.Failure(
            f"no package source of this machine can give the source of {package}",
            "the machine's apt sources need an entry with component main of a Debian archive",
            log,
        )
    raise say.Failure(
        f"the source package {package} could not be had from suites {' '.join(wanted)}",
        _hint(log),
        log,
    )


def _hint(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace")
    if "NO_PUBKEY" in text or "Missing key" in text:
        # The release was signed by a key that this machine's keyring is too old to know. The
        # package comes from the machine's own release, which it can verify: no key is fetched.
        return "as root: apt-get update && apt-get install debian-archive-keyring, then try again"
    if "Temporary failure resolving" in text or "Could not connect" in text:
        return "the archive cannot be reached: see to the network (or apt's proxy), then try again"
    return "see the log; or set MTPROXY_PYTHON to a python3.13t that you have"


def _fetch_from(stanza: str, package: str, destination: Path, log: Path) -> Path:
    with tempfile.TemporaryDirectory(prefix="mtproxy-apt-") as name:
        private = Path(name)
        for folder in ("parts", "lists/partial", "cache/archives/partial", "download"):
            (private / folder).mkdir(parents=True)
        (private / "parts" / "private.sources").write_text(stanza, encoding="utf-8")
        options = [
            f"Dir::Etc::sourcelist={os.devnull}",
            f"Dir::Etc::sourceparts={private / 'parts'}",
            f"Dir::State::lists={private / 'lists'}",
            f"Dir::Cache={private / 'cache'}",
            *_STRICT,
        ]
        apt = ["apt-get", *(word for option in options for word in ("-o", option))]
        with log.open("a", encoding="utf-8") as output:
            output.write(f"private source list:\n{stanza}\n")
        env = {**os.environ, "LC_ALL": "C"}
        hint = "see the log"
        say.run([*apt, "update"], log=log, doing="reading the source index", hint=hint, env=env)
        say.run(
            [*apt, "source", "--download-only", package],
            log=log,
            doing=f"downloading the source of {package}",
            hint=hint,
            env=env,
            cwd=private / "download",
        )
        return _take(private / "download", package, destination, log)


def _take(download: Path, package: str, destination: Path, log: Path) -> Path:
    """Move the files to `destination`, the orig archive last: where it is, everything is."""
    origs = [path for path in download.glob("*.orig.tar.*") if not path.name.endswith(".asc")]
    if len(origs) != 1:
        raise say.Failure(
            f"the source package {package} holds {len(origs)} upstream archives, not one",
            "see the log",
            log,
        )
    destination.mkdir(parents=True, exist_ok=True)
    for path in [*(other for other in download.iterdir() if other != origs[0]), origs[0]]:
        shutil.copy(path, destination / f".{path.name}.part")
        (destination / f".{path.name}.part").replace(destination / path.name)
    return destination / origs[0].name

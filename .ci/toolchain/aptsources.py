"""A private list of source packages, derived from the package sources that the machine has.

Pure functions over text: one-line `.list` files and deb822 `.sources` files in, deb822 stanzas of
type deb-src out. No host name is known here: the archive, the mirror and the options that reach it
are the machine's own; only the suite is another one. See sources.list(5).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

#: Options of an entry that say how the archive is reached and how old it may be; they are kept.
#: `Trusted` is not: what is built here is verified by signature, whatever the machine allows.
KEPT_OPTIONS = ("By-Hash", "Check-Date", "Check-Valid-Until", "Date-Max-Future", "InRelease-Path")

#: The whole keyring of the package debian-archive-keyring, as trixie and as bookworm name it.
ARCHIVE_KEYRINGS = (
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
)

_ONE_LINE = re.compile(r"^(deb|deb-src)\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)((?:\s+\S+)*)\s*$")
#: A plain suite or codename: no `bookworm-security`, no `bookworm/updates`, no exact path.
_PLAIN_SUITE = re.compile(r"^[a-z][a-z0-9.]*$")
_DEBIAN_KEY = re.compile(r"/debian-archive-[^/]*$")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One enabled entry of the machine's package sources."""

    types: tuple[str, ...]
    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    #: option name in deb822 spelling (`Signed-By`) -> value as written
    options: Mapping[str, str]


def parse_one_line(text: str) -> list[Entry]:
    """Return the entries of a `.list` file; comments and lines that are no entry are left out."""
    entries = []
    for line in text.splitlines():
        match = _ONE_LINE.match(line.partition("#")[0].strip())
        if match is None:
            continue
        kind, options, uri, suite, components = match.groups()
        entries.append(
            Entry(
                types=(kind,),
                uris=(uri,),
                suites=(suite,),
                components=tuple(components.split()),
                options=_one_line_options(options or ""),
            )
        )
    return entries


def _one_line_options(text: str) -> dict[str, str]:
    options = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if equals:
            canonical = "-".join(part.capitalize() for part in name.split("-"))
            options[canonical] = value.replace(",", " ")
    return options


def parse_deb822(text: str) -> list[Entry]:
    """Return the entries of a `.sources` file; stanzas with `Enabled: no` are left out."""
    entries = []
    for stanza in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n")):
        fields = _fields(stanza)
        if "types" not in fields or fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        known = ("types", "uris", "suites", "components", "enabled")
        entries.append(
            Entry(
                types=tuple(fields["types"].split()),
                uris=tuple(fields.get("uris", "").split()),
                suites=tuple(fields.get("suites", "").split()),
                components=tuple(fields.get("components", "").split()),
                options={
                    "-".join(part.capitalize() for part in name.split("-")): value
                    for name, value in fields.items()
                    if name not in known
                },
            )
        )
    return entries


def _fields(stanza: str) -> dict[str, str]:
    """Return field name in lower case -> value; continuation lines keep their line breaks."""
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.split("\n"):
        if line.startswith("#") or not line.strip():
            continue
        if line[0] in " \t":
            if name:
                fields[name] += "\n" + line.rstrip()
        else:
            head, colon, value = line.partition(":")
            if colon:
                name = head.strip().lower()
                fields[name] = value.strip()
    return fields


def plain_suites(entries: Iterable[Entry]) -> list[str]:
    """Return the suites of the machine's own distribution (`bookworm`), without duplicates."""
    return list(dict.fromkeys(suite for entry in entries for suite in _distribution_suites(entry)))


def _distribution_suites(entry: Entry) -> list[str]:
    if "main" not in entry.components:
        return []
    return [suite for suite in entry.suites if _PLAIN_SUITE.match(suite)]


def derive(
    entries: Iterable[Entry], suites: Sequence[str], keyring: str | None = None
) -> list[str]:
    """Return one deb-src stanza per archive of the machine, the likeliest Debian archive first.

    `keyring` is the whole Debian keyring of this machine if it has one: an entry signed by a part
    of it (one release's key) gets the whole, because `suites` are other releases'. Entries of
    other keys keep theirs. Security, updates and backports archives and archives without a `main`
    component are left out. The caller tries the stanzas in turn: an archive of somebody else that
    merely looks like a distribution does not have these suites.
    """
    ranked: dict[str, tuple[int, str]] = {}
    for entry in entries:
        if not _distribution_suites(entry):
            continue
        signed_by = entry.options.get("Signed-By", "")
        debian_key = bool(_DEBIAN_KEY.search(signed_by))
        for uri in entry.uris:
            if uri.startswith("cdrom:"):
                continue
            rank = 0 if debian_key else 1 if uri.rstrip("/").endswith("/debian") else 2
            key = keyring if keyring and (debian_key or not signed_by) else signed_by
            stanza = _stanza(uri, suites, key, entry.options)
            if uri not in ranked or rank < ranked[uri][0]:
                ranked[uri] = (rank, stanza)
    return [stanza for _, stanza in sorted(ranked.values(), key=lambda item: item[0])]


def _stanza(uri: str, suites: Sequence[str], key: str, options: Mapping[str, str]) -> str:
    lines = ["Types: deb-src", f"URIs: {uri}", f"Suites: {' '.join(suites)}", "Components: main"]
    lines += [f"{name}: {options[name]}" for name in KEPT_OPTIONS if name in options]
    if key:
        lines.append(f"Signed-By: {key}")
    return "\n".join(lines) + "\n"


def read_machine(main_list: Path, parts: Path) -> list[Entry]:
    """Return the entries of the machine: `main_list` and the files in the folder `parts`.

    A file that cannot be read is left out: apt itself reads them as another user would.
    """
    files = [main_list, *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]
    entries = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        entries += parse_deb822(text) if path.suffix == ".sources" else parse_one_line(text)
    return entries


def archive_keyring(candidates: Sequence[str] = ARCHIVE_KEYRINGS) -> str | None:
    """Return the whole Debian keyring of this machine, or None."""
    return next((path for path in candidates if Path(path).is_file()), None)

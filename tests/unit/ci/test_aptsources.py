"""The private source list: what it takes from the machine's own, in both formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain import aptsources
from toolchain.aptsources import Entry, derive, parse_deb822, parse_one_line

WHOLE = "/usr/share/keyrings/debian-archive-keyring.pgp"

BOOKWORM_SOURCES = """\
Types: deb
# a comment in the middle
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""

TRIXIE_LIST = """\
# See sources.list(5)
deb http://mirror.example/debian trixie main contrib  # the base
deb-src http://mirror.example/debian trixie main

deb http://mirror.example/debian-security trixie-security main
deb http://mirror.example/debian trixie-updates main
#deb http://old.example/debian trixie main
"""


def stanza_fields(stanza: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in stanza.splitlines())


def test_deb822_gives_one_stanza_for_the_base_archive_alone() -> None:
    stanzas = derive(parse_deb822(BOOKWORM_SOURCES), ["testing", "trixie"], WHOLE)
    assert stanzas == [
        "Types: deb-src\n"
        "URIs: http://mirror.example/debian\n"
        "Suites: testing trixie\n"
        "Components: main\n"
        f"Signed-By: {WHOLE}\n"
    ]


def test_one_line_gives_the_same() -> None:
    assert derive(parse_one_line(TRIXIE_LIST), ["testing", "trixie"], WHOLE) == derive(
        parse_deb822(BOOKWORM_SOURCES), ["testing", "trixie"], WHOLE
    )


def test_one_line_entries_are_read_whole() -> None:
    options = "[ arch=amd64,arm64 signed-by=/etc/k.gpg check-valid-until=no ]"
    line = f"deb {options} mirror+file:/etc/m.list sid main x"
    assert parse_one_line(line) == [
        Entry(
            types=("deb",),
            uris=("mirror+file:/etc/m.list",),
            suites=("sid",),
            components=("main", "x"),
            options={
                "Arch": "amd64 arm64",
                "Signed-By": "/etc/k.gpg",
                "Check-Valid-Until": "no",
            },
        )
    ]


def test_the_way_to_the_archive_is_kept_and_trust_is_not() -> None:
    text = (
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: trixie\nComponents: main\n"
        "Check-Valid-Until: no\nBy-Hash: force\nTrusted: yes\nArchitectures: amd64\n"
    )
    (stanza,) = derive(parse_deb822(text), ["testing"], None)
    fields = stanza_fields(stanza)
    assert fields["Check-Valid-Until"] == "no"
    assert fields["By-Hash"] == "force"
    assert fields.keys().isdisjoint({"Trusted", "Architectures", "Signed-By"})


def test_a_release_key_becomes_the_whole_keyring_but_another_key_stays() -> None:
    def signed_by(key: str) -> str:
        text = f"deb [signed-by={key}] http://mirror.example/debian bookworm main"
        (stanza,) = derive(parse_one_line(text), ["testing"], WHOLE)
        return stanza_fields(stanza)["Signed-By"]

    assert signed_by("/usr/share/keyrings/debian-archive-bookworm-stable.gpg") == WHOLE
    assert signed_by("/etc/apt/keyrings/company.gpg") == "/etc/apt/keyrings/company.gpg"


def test_an_entry_without_a_key_gets_the_keyring_if_there_is_one() -> None:
    entries = parse_one_line("deb http://mirror.example/debian bookworm main")
    assert f"Signed-By: {WHOLE}\n" in derive(entries, ["testing"], WHOLE)[0]
    assert "Signed-By" not in derive(entries, ["testing"], None)[0]


def test_a_key_block_keeps_its_lines() -> None:
    text = (
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: trixie\nComponents: main\n"
        "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEY\n"
        " -----END PGP PUBLIC KEY BLOCK-----\n"
    )
    (stanza,) = derive(parse_deb822(text), ["testing"], WHOLE)
    assert stanza.endswith(
        "Signed-By: \n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEY\n"
        " -----END PGP PUBLIC KEY BLOCK-----\n"
    )


def test_debian_archives_come_before_those_that_only_look_alike() -> None:
    text = (
        "deb [signed-by=/etc/apt/keyrings/tool.gpg] https://tool.example/apt bookworm main\n"
        "deb http://second.example/debian/ bookworm main\n"
        "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://first.example/x"
        " bookworm main\n"
    )
    stanzas = derive(parse_one_line(text), ["testing"], WHOLE)
    assert [stanza_fields(stanza)["URIs"] for stanza in stanzas] == [
        "http://first.example/x",
        "http://second.example/debian/",
        "https://tool.example/apt",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "deb http://mirror.example/debian-security bookworm-security main",
        "deb http://mirror.example/debian bookworm-backports main",
        "deb http://mirror.example/debian bookworm/updates main",
        "deb https://containers.example/linux/debian bookworm stable",
        "deb https://node.example/node_20.x ./",
        "deb cdrom:[Debian 12]/ bookworm main",
        "deb cdrom:/x bookworm main",
        "# deb http://mirror.example/debian bookworm main",
        "nonsense",
    ],
)
def test_what_is_no_base_archive_is_left_out(line: str) -> None:
    assert derive(parse_one_line(line), ["testing"], WHOLE) == []


@pytest.mark.parametrize("enabled", ["no", "false", "No"])
def test_a_disabled_stanza_is_left_out(enabled: str) -> None:
    first = BOOKWORM_SOURCES.partition("\n\n")[0]
    assert parse_deb822(f"Enabled: {enabled}\n{first}") == []


def test_the_machine_is_read_from_the_main_list_and_both_kinds_of_parts(tmp_path: Path) -> None:
    main_list = tmp_path / "sources.list"
    main_list.write_text("deb http://a.example/debian trixie main\n")
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (parts / "b.list").write_text("deb http://b.example/debian trixie main\n")
    (parts / "c.sources").write_text(BOOKWORM_SOURCES)
    (parts / "d.list.disabled").write_text("deb http://d.example/debian trixie main\n")
    entries = aptsources.read_machine(main_list, parts)
    assert [entry.uris[0] for entry in entries] == [
        "http://a.example/debian",
        "http://b.example/debian",
        "http://mirror.example/debian",
        "http://mirror.example/debian-security",
    ]
    assert aptsources.plain_suites(entries) == ["trixie", "bookworm"]


def test_no_main_list_is_no_error(tmp_path: Path) -> None:
    assert aptsources.read_machine(tmp_path / "none", tmp_path / "nowhere") == []


def test_the_keyring_is_the_first_that_exists(tmp_path: Path) -> None:
    second = tmp_path / "second.gpg"
    second.touch()
    assert aptsources.archive_keyring([str(tmp_path / "first.pgp"), str(second)]) == str(second)
    assert aptsources.archive_keyring([str(tmp_path / "first.pgp")]) is None

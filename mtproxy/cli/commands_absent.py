"""Runtime commands about things that are not here: certificates, caches, peers. Exports COMMANDS.

Monitoring asks for them whatever the configuration has: what lists them answers as HAProxy does
where none is configured. What would change them is refused, see `cli.known`.
"""

from __future__ import annotations

from mtproxy.cli.runtime import Answer, CliError, CliSession, Command, Handler, Level


def _empty(heading: str, refusal: str | None) -> Handler:
    """An empty list; `refusal` is what is said of an entry that is asked for."""

    def show(_cli: CliSession, args: list[str]) -> Answer:
        if args and refusal is not None:
            raise CliError(refusal)
        return heading

    return show


#: what is listed, its level, usage, heading, and what is said of a single one; all 2.6's
_LISTS = (
    ("ssl cert", Level.USER, "[<file>]", "# filename\n", "Can't display the certificate: Not found"
     " or the certificate is a bundle!"),
    ("ssl ca-file", Level.USER, "[<file>]", "# filename\n", "Can't display the CA file : Not"
     " found!"),
    ("ssl crl-file", Level.USER, "[<file>]", "# filename\n", "Can't display the CRL file : Not"
     " found!"),
    ("ssl crt-list", Level.ADMIN, "[-n] [<list>]", "", "didn't find the specified filename"),
    ("ssl ocsp-response", Level.USER, "[<id>]", "", "Certificate ID does not match any"
     " certificate."),
    ("ssl providers", Level.USER, "", "Loaded providers : \n", None),
    ("tls-keys", Level.USER, "[<id>|*]", "# id (file)\n", "'show tls-keys' unable to locate"
     " referenced filename"),
    ("cache", Level.ADMIN, "", "", None),
    ("peers", Level.USER, "[<section>]", "", "No such peers"),
)  # fmt: skip

_WHAT = {"cache": "caches", "peers": "peers", "tls-keys": "keys of TLS tickets"}

COMMANDS: tuple[Command, ...] = tuple(
    Command(
        ("show", *name.split()),
        f"show {name} {usage}".rstrip(),
        f"{_WHAT.get(name) or name.removeprefix('ssl ') + ' of TLS'}: there are none here",
        level,
        _empty(heading, refusal),
    )
    for name, level, usage, heading, refusal in _LISTS
)

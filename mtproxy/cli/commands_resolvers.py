"""`show resolvers`: what the name servers were asked and said. On the thread of its session."""

from __future__ import annotations

from collections.abc import Iterator

from mtproxy.cli.runtime import Answer, CliError, CliSession, Command, Level
from mtproxy.proxy.dns.section import SectionShared


def _show_resolvers(cli: CliSession, args: list[str]) -> Answer:
    sections = cli.runtime.resolvers
    if args:
        wanted = sections.get(args[0])
        if wanted is None:
            raise CliError("Can't find that resolvers section")
        return _section(wanted)
    if not sections:
        return "No resolvers found\n"
    return (text for one in sections.values() for text in _section(one))


def _section(shared: SectionShared) -> Iterator[str]:
    yield f"Resolvers section {shared.settings.name}\n"
    for position, nameserver in enumerate(shared.settings.nameservers):
        lines = [f" nameserver {nameserver.name}:\n"]
        for name, value in shared.totals(position).items():
            lines.append(f"  {name + ':':<12} {value}\n")
        yield "".join(lines)


COMMANDS: tuple[Command, ...] = (
    Command(
        ("show", "resolvers"),
        "show resolvers [<id>]",
        "counters of the name servers of resolvers sections",
        Level.USER,
        _show_resolvers,
    ),
)

"""Sections that are no proxies as lines of haproxy.cfg, for `explain`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from mtproxy.base.location import Location
from mtproxy.base.ruleset import StoredMessage
from mtproxy.base.server_settings import ResolversSettings
from mtproxy.base.settings import Settings, UserSettings
from mtproxy.config.dump import address_text
from mtproxy.config.quoting import duration, line, text

_HOLDS = ("nx", "obsolete", "other", "refused", "timeout", "valid")
_RESOLVERS_KNOWN = frozenset({
    "name", "nameservers", "retries", "timeout_retry", "timeout_resolve", "payload_size",
    "implicit", *(f"hold_{kind}" for kind in _HOLDS),
})  # fmt: skip


def section_lines(settings: Settings) -> Iterator[str]:
    """Resolvers, userlists and http-errors sections."""
    for resolvers in settings.resolvers.values():
        if not resolvers.implicit:
            yield from ("", f"resolvers {resolvers.name}", *_resolvers(resolvers))
    for name, users in settings.userlists.items():
        yield from ("", f"userlist {name}", *_users(users))
    for name, messages in settings.http_errors.items():
        yield from ("", f"http-errors {name}", *_messages(messages))


def environment_lines(environment: Mapping[str, str], before: Mapping[str, str]) -> Iterator[str]:
    """What the configuration changes of the environment that it finds (`before`)."""
    for name in before:
        if name not in environment:
            yield line("unsetenv", name)
    for name, value in environment.items():
        if name not in _OWN_VARIABLES and before.get(name) != value:
            # an empty word would end the statement
            shown = line("setenv", name, value)
            yield shown if value else f" #{shown}"


#: set by the program itself
_OWN_VARIABLES = frozenset({"HAPROXY_LOCALPEER", "HAPROXY_CFGFILES"})


def _resolvers(resolvers: ResolversSettings) -> Iterator[str]:
    for server in resolvers.nameservers:
        # the family is that of the literal address
        where = address_text(server.address).partition("@")[2]
        yield line("nameserver", server.name, f"tcp@{where}" if server.stream else where)
    yield line("resolve_retries", resolvers.retries)
    yield line("timeout", "retry", duration(resolvers.timeout_retry))
    yield line("accepted_payload_size", resolvers.payload_size)
    yield line("timeout", "resolve", duration(resolvers.timeout_resolve))
    for kind in _HOLDS:
        yield line("hold", kind, duration(getattr(resolvers, f"hold_{kind}")))
    for item in fields(resolvers):
        value = getattr(resolvers, item.name)
        if item.name not in _RESOLVERS_KNOWN and not isinstance(value, Location):
            yield f" # {item.name} = {value!r}"


def _users(users: Mapping[str, UserSettings]) -> Iterator[str]:
    for group in sorted({group for user in users.values() for group in user.groups}):
        yield line("group", group)
    for name, user in users.items():
        words = ["user", name]
        if user.password is not None:
            kind = "insecure-password" if user.insecure else "password"
            words += [kind, text(user.password)]
        if user.groups:
            words += ["groups", ",".join(user.groups)]
        yield line(*words)


def _messages(messages: Mapping[int, StoredMessage]) -> Iterator[str]:
    for status, stored in messages.items():
        words = line("errorfile", status, stored.path)
        yield words if stored.path else f" # errorfile {status} = {stored!r}"

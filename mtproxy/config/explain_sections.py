"""Sections that are no proxies as lines of haproxy.cfg, for `explain`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from mtproxy.base.ruleset import StoredMessage
from mtproxy.base.settings import Location, ResolversSettings, Settings, UserSettings
from mtproxy.config.dump import address_text
from mtproxy.config.quoting import duration, line, text

_RESOLVERS_KNOWN = frozenset({
    "name", "nameservers", "retries", "timeout_retry", "payload_size", "hold_valid",
})  # fmt: skip


def section_lines(settings: Settings) -> Iterator[str]:
    """Resolvers, userlists and http-errors sections."""
    for resolvers in settings.resolvers.values():
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
        yield line("nameserver", server.name, address_text(server.address))
    yield line("resolve_retries", resolvers.retries)
    yield line("timeout", "retry", duration(resolvers.timeout_retry))
    yield line("accepted_payload_size", resolvers.payload_size)
    yield line("hold", "valid", duration(resolvers.hold_valid))
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

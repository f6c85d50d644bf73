"""`userlist` sections: users, their passwords and groups (manual 3.4).

Exports `KEYWORDS`. Groups may be named where they are declared or at the user, and before they
exist; `freeze` puts both together. Main thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mtproxy.base.crypt import hash_password
from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.base.settings import UserSettings
from mtproxy.config.drafts import UserDraft, UserlistDraft
from mtproxy.config.model import IN_USERLIST, Args, Keyword, Statement, check_name

if TYPE_CHECKING:
    from mtproxy.config.context import Context

_USER_OPTIONS: Final = ("password", "insecure-password", "groups")


def open_section(ctx: Context, st: Statement) -> None:
    """A `userlist` section begins. A second one of a name is ignored, as in HAProxy."""
    name = st.arg(1)
    ctx.current_userlist = draft = UserlistDraft(name, st.location)
    if not name:
        raise ConfigError("'userlist' expects a name as argument")
    check_name(name, "userlist")
    st.at_most(1)
    if name in ctx.userlists:
        ctx.warn(st.location, f"ignoring duplicated userlist '{name}'")
        return
    ctx.userlists[name] = draft


def _group(ctx: Context, st: Statement) -> None:
    draft = ctx.userlist
    name = st.required(1, "a name")
    check_name(name, "group")
    if name in draft.groups:
        ctx.warn(st.location, f"ignoring duplicated group '{name}' in userlist '{draft.name}'.")
        return
    users: tuple[str, ...] = ()
    args = Args(st.words, 2)
    while args.more():
        args.name = word = args.next()
        if word != "users":
            raise ConfigError("'group' only supports 'users' option.", word=word)
        users = _names(args.value("a list of users"))
    draft.groups[name] = (users, st.location)


def _user(ctx: Context, st: Statement) -> None:
    draft = ctx.userlist
    name = st.required(1, "a name")
    if name in draft.users:
        ctx.warn(st.location, f"ignoring duplicated user '{name}' in userlist '{draft.name}'.")
        return
    draft.users[name] = user = UserDraft(name, st.location)
    args = Args(st.words, 2)
    while args.more():
        args.name = word = args.next()
        if word == "groups":
            user.groups = _names(args.value("a list of groups"))
        elif word in ("password", "insecure-password"):
            user.password = args.value("a password")
            user.insecure = word == "insecure-password"
            if not user.insecure and hash_password(b"", user.password.encode()) is None:
                ctx.warn(
                    st.location,
                    f"the encrypted password used for user '{name}' is not supported by crypt(3):"
                    " it matches nothing",
                )
        else:
            raise ConfigError(
                "'user' only supports 'password', 'insecure-password' and 'groups' options.",
                word=word,
                suggestion=nearest(word, _USER_OPTIONS),
            )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def freeze(ctx: Context) -> dict[str, dict[str, UserSettings]]:
    """All lists by name, their users by name; alerts for users and groups that do not exist."""
    return {name: _freeze(ctx, draft) for name, draft in ctx.userlists.items()}


def _freeze(ctx: Context, draft: UserlistDraft) -> dict[str, UserSettings]:
    groups: dict[str, set[str]] = {name: set() for name in draft.users}
    for user in draft.users.values():
        for group in user.groups:
            if group in draft.groups:
                groups[user.name].add(group)
                continue
            ctx.diagnostics.alert(
                f"userlist '{draft.name}': no such group '{group}' specified in user '{user.name}'",
                user.location,
                word=group,
                suggestion=nearest(group, draft.groups),
            )
    for name, (users, location) in draft.groups.items():
        for one in users:
            if one in groups:
                groups[one].add(name)
                continue
            ctx.diagnostics.alert(
                f"userlist '{draft.name}': no such user '{one}' specified in group '{name}'",
                location,
                word=one,
                suggestion=nearest(one, draft.users),
            )
    return {
        name: UserSettings(
            None if user.password is None else user.password.encode("utf-8", "surrogateescape"),
            user.insecure,
            tuple(sorted(groups[name])),
        )
        for name, user in draft.users.items()
    }


KEYWORDS: Final[tuple[Keyword, ...]] = (
    Keyword("group", IN_USERLIST, _group),
    Keyword("user", IN_USERLIST, _user),
)

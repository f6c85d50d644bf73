"""The one place that names the keyword tables, and the look-ups in them.

A keyword may have two words: `find` looks for "option httplog" before "option". Built once, when
the module is first used, from constant tables; read-only afterwards.
"""

from __future__ import annotations

from mtproxy.config import (
    keywords_auth,
    keywords_balance,
    keywords_bind,
    keywords_capture,
    keywords_checks,
    keywords_errors,
    keywords_external,
    keywords_global,
    keywords_log,
    keywords_logforward,
    keywords_options,
    keywords_persistence,
    keywords_proxy,
    keywords_resolvers,
    keywords_ring,
    keywords_rules,
    keywords_server,
    keywords_source,
    keywords_stats,
    keywords_sticktable,
    keywords_tune,
    keywords_variables,
    known,
)
from mtproxy.config.model import (
    GLOBAL,
    HTTP_ERRORS,
    IN_HTTP_ERRORS,
    IN_LOG_FORWARD,
    IN_RESOLVERS,
    IN_RING,
    IN_USERLIST,
    LOG_FORWARD,
    PROXY,
    RESOLVERS,
    RING,
    USERLIST,
    Keyword,
    Support,
)

TABLES: tuple[tuple[Keyword, ...], ...] = (
    keywords_global.KEYWORDS,
    keywords_tune.KEYWORDS,
    keywords_log.KEYWORDS,
    keywords_logforward.KEYWORDS,
    keywords_capture.KEYWORDS,
    keywords_checks.KEYWORDS,
    keywords_external.KEYWORDS,
    keywords_bind.KEYWORDS,
    keywords_proxy.KEYWORDS,
    keywords_balance.KEYWORDS,
    keywords_options.KEYWORDS,
    keywords_persistence.KEYWORDS,
    keywords_server.KEYWORDS,
    keywords_source.KEYWORDS,
    keywords_ring.KEYWORDS,
    keywords_resolvers.KEYWORDS,
    keywords_rules.KEYWORDS,
    keywords_variables.KEYWORDS,
    keywords_errors.KEYWORDS,
    keywords_auth.KEYWORDS,
    keywords_stats.KEYWORDS,
    keywords_sticktable.KEYWORDS,
    known.KEYWORDS,
)

ALL: tuple[Keyword, ...] = tuple(keyword for table in TABLES for keyword in table)


def _by_room(room: frozenset[str]) -> dict[str, Keyword]:
    found: dict[str, Keyword] = {}
    for keyword in ALL:
        if keyword.sections & room:
            assert keyword.name not in found, f"{keyword.name} is in two tables"
            found[keyword.name] = keyword
    return found


#: name -> keyword, of all proxy sections and of every other kind
_PROXY = _by_room(PROXY)
_OTHERS = {
    GLOBAL: _by_room(frozenset({GLOBAL})),
    RING: _by_room(IN_RING),
    LOG_FORWARD: _by_room(IN_LOG_FORWARD),
    RESOLVERS: _by_room(IN_RESOLVERS),
    HTTP_ERRORS: _by_room(IN_HTTP_ERRORS),
    USERLIST: _by_room(IN_USERLIST),
}


def _room(section: str) -> dict[str, Keyword]:
    return _OTHERS.get(section, _PROXY)


def find(section: str, words: tuple[str, ...]) -> Keyword | None:
    """The keyword that begins a statement in `section`; its longest name wins."""
    room = _room(section)
    if len(words) > 1:
        both = room.get(f"{words[0]} {words[1]}")
        if both is not None:
            return both
    return room.get(words[0])


def _today(section: str) -> list[str]:
    """What may be written in `section`, without old grammar."""
    return [name for name, one in _room(section).items() if one.support is not Support.REMOVED]


def family(section: str, first: str) -> list[str]:
    """The second words that `first` may have today ("option", "timeout", "stats")."""
    prefix = f"{first} "
    return [name.removeprefix(prefix) for name in _today(section) if name.startswith(prefix)]


def first_words(section: str) -> set[str]:
    """Every word that may begin a statement in `section` today."""
    return {name.partition(" ")[0] for name in _today(section)}


def elsewhere(section: str, words: tuple[str, ...]) -> Keyword | None:
    """The keyword of this name in the other kind of section, for a better message."""
    return find("listen" if section == GLOBAL else GLOBAL, words)

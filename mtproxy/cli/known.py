"""Names of runtime commands that HAProxy knows and this program does not, so that they are told
from typing errors.

From the management guide (9.3) and HAProxy 2.6's `help`, with a few of later versions. Immutable.
"""

from __future__ import annotations

from collections.abc import Sequence

_NAMES = """
    abort ssl; add ssl; commit ssl; debug dev; del ssl;
    disable dynamic-cookie; dump stats-file;
    dump ssl; enable dynamic-cookie;
    httpclient; mcli-debug-mode; new ssl; reload; set
    anon; set dynamic-cookie-key; set ssl;
    show anon; show dev; show proc; show quic;
    show trace;
    trace; update ssl
"""

#: the beginnings of those commands
HAPROXY_COMMANDS = frozenset(tuple(name.split()) for name in _NAMES.split(";"))


def known_name(words: Sequence[str]) -> str | None:
    """The command of HAProxy's that `words` begin with, if it is one that is missing here."""
    for length in (2, 1):
        name = tuple(words[:length])
        if len(name) == length and name in HAPROXY_COMMANDS:
            return " ".join(name)
    return None

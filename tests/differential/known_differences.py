"""Where mtproxy differs from HAProxy 2.6 on purpose, or for now: case (family/name) -> reason.

A case that stands here and does not differ any more fails the test: take it out.
"""

from __future__ import annotations

from typing import Final

DIFFERENCES: Final[dict[str, str]] = {}

#: families that are not judged yet, because what they are about is being built
PENDING: Final[frozenset[str]] = frozenset(
    {
        "acls", "actions", "bodies", "cookies", "errors_at_load", "fetches_http", "fetches_other",
        "log_format", "maps", "numbers", "replies", "stick_tables", "strings", "tcp_rules",
        "variables",
    }
)  # fmt: skip

"""Error files and keywords of the statistics page; see the package."""

from __future__ import annotations

from typing import Final

INDEX: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "errorfile": {
        "errorfile 503": (),
        "errorfile 400": (),
        "errorfile 403": (),
        "errorfile 408": (),
        "errorfile 500": (),
        "errorfile 502": (),
        "errorfile 504": (),
    },
    "stats": {
        "stats enable": (),
        "stats uri": (),
        "stats refresh": (),
        "stats auth": (),
        "stats realm": (),
        "stats hide-version": (),
        "stats show-node": (),
        "stats admin": (),
        "stats show-legends": (),
    },
}
WRITTEN: Final[dict[tuple[str, str], str]] = {}

"""State of frontends, backends, servers and queues (manual 7.3.2)."""

from __future__ import annotations

from mtproxy.rules.tables import Fetch

FETCHES: tuple[Fetch, ...] = ()

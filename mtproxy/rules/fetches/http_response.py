"""Status line and what else a response tells (manual 7.3.6)."""

from __future__ import annotations

from mtproxy.rules.tables import Fetch

FETCHES: tuple[Fetch, ...] = ()

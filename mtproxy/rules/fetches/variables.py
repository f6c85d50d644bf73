"""Variables as samples (manual 7.3.2: var; 2.8)."""

from __future__ import annotations

from mtproxy.rules.tables import Fetch

FETCHES: tuple[Fetch, ...] = ()

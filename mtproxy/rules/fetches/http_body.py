"""Request and response bodies (manual 7.3.6: req.body family)."""

from __future__ import annotations

from mtproxy.rules.tables import Fetch

FETCHES: tuple[Fetch, ...] = ()

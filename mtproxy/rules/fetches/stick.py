"""Counters of stick tables (manual 7.3.3: sc_*, src_*)."""

from __future__ import annotations

from mtproxy.rules.tables import Fetch

FETCHES: tuple[Fetch, ...] = ()

"""Captured headers, and the captured request line (manual 7.3.6: capture.*)."""

from __future__ import annotations

from mtproxy.rules.tables import Fetch

FETCHES: tuple[Fetch, ...] = ()

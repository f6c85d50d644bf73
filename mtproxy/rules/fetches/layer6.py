"""Bytes before HTTP: payload, length, RDP cookies (manual 7.3.5)."""

from __future__ import annotations

from mtproxy.rules.tables import Fetch

FETCHES: tuple[Fetch, ...] = ()

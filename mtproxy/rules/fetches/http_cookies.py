"""Cookies of request and response (manual 7.3.6: cook family)."""

from __future__ import annotations

from mtproxy.rules.tables import Fetch

FETCHES: tuple[Fetch, ...] = ()

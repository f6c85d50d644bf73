"""Credentials of a request (manual 7.3.6: http_auth family)."""

from __future__ import annotations

from mtproxy.rules.tables import Fetch

FETCHES: tuple[Fetch, ...] = ()

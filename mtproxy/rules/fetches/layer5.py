"""Sessions: what TLS and the PROXY protocol would tell; TLS fetches are refused (manual 7.3.4)."""

from __future__ import annotations

from mtproxy.rules.tables import Fetch

FETCHES: tuple[Fetch, ...] = ()

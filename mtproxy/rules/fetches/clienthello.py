"""What a TLS ClientHello says, read from raw bytes (manual 7.3.5: req.ssl_*)."""

from __future__ import annotations

from mtproxy.rules.tables import Fetch

FETCHES: tuple[Fetch, ...] = ()

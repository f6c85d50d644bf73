"""How the stream is treated: set-log-level, set-timeout, set-retries, ... (manual 4.2)."""

from __future__ import annotations

from mtproxy.rules.tables import Action

ACTIONS: tuple[Action, ...] = ()

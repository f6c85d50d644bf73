"""Changes of addresses and sockets: set-src, set-dst, set-tos, set-mark, set-nice (manual 4.2)."""

from __future__ import annotations

from mtproxy.rules.tables import Action

ACTIONS: tuple[Action, ...] = ()

"""set-var, set-var-fmt, unset-var (manual 4.2)."""

from __future__ import annotations

from mtproxy.rules.tables import Action

ACTIONS: tuple[Action, ...] = ()

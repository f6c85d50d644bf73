"""Where a rule set ends: allow, accept, reject, silent-drop, strict-mode (manual 4.2)."""

from __future__ import annotations

from mtproxy.rules.tables import Action

ACTIONS: tuple[Action, ...] = ()

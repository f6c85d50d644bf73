"""Changes of the request line: set-method, set-path, ..., replace-path, normalize-uri."""

from __future__ import annotations

from mtproxy.rules.tables import Action

ACTIONS: tuple[Action, ...] = ()

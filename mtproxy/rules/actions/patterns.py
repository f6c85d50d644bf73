"""Changes of ACLs and maps: add-acl, del-acl, set-map, del-map (manual 4.2)."""

from __future__ import annotations

from mtproxy.rules.tables import Action

ACTIONS: tuple[Action, ...] = ()

"""Redirections (manual 4.2: redirect, http-request redirect)."""

from __future__ import annotations

from mtproxy.rules.tables import Action

ACTIONS: tuple[Action, ...] = ()

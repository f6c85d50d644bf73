"""Stick tables: track-sc*, sc-inc-gpc*, sc-set-gpt* (manual 4.2)."""

from __future__ import annotations

from mtproxy.rules.tables import Action

ACTIONS: tuple[Action, ...] = ()

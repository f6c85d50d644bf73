"""Converters that read or set variables (manual 7.3.1: set-var, unset-var)."""

from __future__ import annotations

from mtproxy.rules.tables import Converter

CONVERTERS: tuple[Converter, ...] = ()

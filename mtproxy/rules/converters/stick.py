"""Look-ups in stick tables (manual 7.3.1: table_*, in_table)."""

from __future__ import annotations

from mtproxy.rules.tables import Converter

CONVERTERS: tuple[Converter, ...] = ()

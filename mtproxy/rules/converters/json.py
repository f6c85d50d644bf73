"""JSON (manual 7.3.1: json, json_query)."""

from __future__ import annotations

from mtproxy.rules.tables import Converter

CONVERTERS: tuple[Converter, ...] = ()

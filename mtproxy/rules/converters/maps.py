"""Look-ups in map files (manual 7.3.1: map_*)."""

from __future__ import annotations

from mtproxy.rules.tables import Converter

CONVERTERS: tuple[Converter, ...] = ()

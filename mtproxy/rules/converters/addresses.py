"""IP addresses (manual 7.3.1: ipmask, ...)."""

from __future__ import annotations

from mtproxy.rules.tables import Converter

CONVERTERS: tuple[Converter, ...] = ()

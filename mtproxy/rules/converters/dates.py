"""Dates (manual 7.3.1: http_date, ltime, utime, ...)."""

from __future__ import annotations

from mtproxy.rules.tables import Converter

CONVERTERS: tuple[Converter, ...] = ()

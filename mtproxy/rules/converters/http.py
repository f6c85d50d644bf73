"""Parts of HTTP values (manual 7.3.1: url_dec, language, ...)."""

from __future__ import annotations

from mtproxy.rules.tables import Converter

CONVERTERS: tuple[Converter, ...] = ()

"""Messages of other protocols: MQTT, FIX, protocol buffers (manual 7.3.1)."""

from __future__ import annotations

from mtproxy.rules.tables import Converter

CONVERTERS: tuple[Converter, ...] = ()

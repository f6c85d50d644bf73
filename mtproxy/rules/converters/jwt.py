"""JSON Web Tokens (manual 7.3.1: jwt_*)."""

from __future__ import annotations

from mtproxy.rules.tables import Converter

CONVERTERS: tuple[Converter, ...] = ()

"""The JSON schema of what `show info json` and `show stat json` print. Pure; any thread."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

from mtproxy.stats.fields import NATURES, ORIGINS, SCOPES
from mtproxy.stats.render import ObjectType

#: types of values, and what JSON makes of them
_NUMBERS: Final = {
    "s32": (-(1 << 31), (1 << 31) - 1),
    "s64": (-(1 << 53) + 1, (1 << 53) - 1),
    "u32": (0, (1 << 32) - 1),
    "u64": (0, (1 << 53) - 1),
}


def _object(title: str, **properties: object) -> dict[str, Any]:
    return {
        "title": title,
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/definitions/{name}"}


def _value() -> dict[str, Any]:
    alternatives: list[dict[str, Any]] = [
        _object("flt", type={"enum": ["flt"]}, value={"type": "number"}),
        _object("str", type={"enum": ["str"]}, value={"type": "string"}),
    ]
    for name, (low, high) in _NUMBERS.items():
        value = {"type": "integer", "minimum": low, "maximum": high}
        alternatives.append(_object(name, type={"enum": [name]}, value=value))
    return {"oneOf": alternatives}


def _schema() -> dict[str, Any]:
    common = {name: _ref(name) for name in ("field", "processNum", "tags")}
    info = _object("InfoItem", **common, value=_ref("typedValue"))
    stat = _object(
        "StatItem",
        objType={"enum": [kind.word for kind in ObjectType]},
        proxyId={"type": "integer", "minimum": 0},
        id={"type": "integer", "minimum": 0},
        **common,
        value=_ref("typedValue"),
    )
    rows = {"title": "Stat", "type": "array", "items": {"type": "array", "items": stat}}
    return {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "oneOf": [{"title": "Info", "type": "array", "items": info}, rows],
        "definitions": {
            "field": _object(
                "field", pos={"type": "integer", "minimum": 0}, name={"type": "string"}
            ),
            "processNum": {"type": "integer", "minimum": 1},
            "tags": _object(
                "tags",
                origin={"enum": sorted(ORIGINS.values())},
                nature={"enum": sorted({*NATURES.values(), "Gauge"})},
                scope={"enum": sorted(SCOPES.values())},
            ),
            "typedValue": _value(),
        },
    }


@cache
def text() -> str:
    """The schema on one line, with its line feed."""
    return json.dumps(_schema(), separators=(",", ":")) + "\n"

"""The schema of `show info json` and `show stat json`, as `show schema json` tells it. Immutable.

The same document as HAProxy 2.6's: clients that validate against it need no change.
"""

from __future__ import annotations

from typing import Any


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/definitions/{name}"}


def _typed(word: str, value: dict[str, Any]) -> dict[str, Any]:
    kind = {"type": "string", "enum": [word]}
    return {"properties": {"type": kind, "value": value}, "required": ["type", "value"]}


def _integer(low: int, high: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high}


_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_EXACT = (1 << 53) - 1

_VALUES = {
    "s32Value": _typed("s32", _integer(-(1 << 31), (1 << 31) - 1)),
    "s64Value": _typed("s64", _integer(-_EXACT, _EXACT)),
    "u32Value": _typed("u32", _integer(0, (1 << 32) - 1)),
    "u64Value": _typed("u64", _integer(0, _EXACT)),
    "strValue": _typed("str", {"type": "string"}),
}

_ORIGINS = ["Metric", "Status", "Key", "Config", "Product", "Unknown"]
_NATURES = [
    "Gauge", "Limit", "Min", "Max", "Rate", "Counter", "Duration", "Age", "Time", "Name", "Output",
    "Avg", "Unknown",
]  # fmt: skip
_SCOPES = ["Cluster", "Process", "Service", "System", "Unknown"]

_INFO = {
    "title": "Info",
    "type": "array",
    "items": {
        "title": "InfoItem",
        "type": "object",
        "properties": {
            "field": _ref("field"),
            "processNum": _ref("processNum"),
            "tags": _ref("tags"),
            "value": _ref("typedValue"),
        },
        "required": ["field", "processNum", "tags", "value"],
    },
}
_STAT = {
    "title": "Stat",
    "type": "array",
    "items": {
        "title": "InfoItem",
        "type": "object",
        "properties": {
            "objType": {"enum": ["Frontend", "Backend", "Listener", "Server", "Unknown"]},
            "proxyId": _COUNT,
            "id": _COUNT,
            "field": _ref("field"),
            "processNum": _ref("processNum"),
            "tags": _ref("tags"),
            "typedValue": _ref("typedValue"),
        },
        "required": ["objType", "proxyId", "id", "field", "processNum", "tags", "value"],
    },
}
_ERROR = {
    "title": "Error",
    "type": "object",
    "properties": {"errorStr": {"type": "string"}},
    "required": ["errorStr"],
}

SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "oneOf": [_INFO, _STAT, _ERROR],
    "definitions": {
        "field": {
            "type": "object",
            "pos": _COUNT,
            "name": {"type": "string"},
            "required": ["pos", "name"],
        },
        "processNum": {"type": "integer", "minimum": 1},
        "tags": {
            "type": "object",
            "origin": {"type": "string", "enum": _ORIGINS},
            "nature": {"type": "string", "enum": _NATURES},
            "scope": {"type": "string", "enum": _SCOPES},
            "required": ["origin", "nature", "scope"],
        },
        "typedValue": {
            "type": "object",
            "oneOf": [_ref(f"typedValue/definitions/{name}") for name in _VALUES],
            "definitions": {
                **_VALUES,
                "unknownValue": {
                    "properties": {
                        "type": _COUNT,
                        "value": {"type": "string", "enum": ["unknown"]},
                    },
                    "required": ["type", "value"],
                },
            },
        },
    },
}

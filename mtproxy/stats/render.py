"""Rows of fields as CSV, typed text or JSON (management guide 9.1, 9.2). Pure; any thread."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache

from mtproxy.stats.fields import (
    BACKEND_TAGS,
    CORE,
    CSV_HEADER,
    FIELDS,
    MODULES,
    NATURES,
    ORIGINS,
    SCOPES,
    Field,
)

type Value = int | float | str


class ObjectType(Enum):
    """Kind of a row: its letter in the typed output, its word in JSON, its number in the `type`
    column.
    """

    FRONTEND = ("F", "Frontend", 0)
    BACKEND = ("B", "Backend", 1)
    SERVER = ("S", "Server", 2)
    LISTENER = ("L", "Listener", 3)

    def __init__(self, letter: str, word: str, number: int) -> None:
        self.letter = letter
        self.word = word
        self.number = number


@dataclass(frozen=True, slots=True)
class Row:
    """One line of `show stat`; a field without value is not in `values`."""

    kind: ObjectType
    proxy_id: int
    id: int
    values: dict[str, Value]


def csv_cell(value: Value | None) -> str:
    """A value as a CSV cell: quoted only where it has to be."""
    if value is None:
        return ""
    text = str(value)
    if any(c in text for c in '",\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


#: the columns in their order; None: the one that separates those of modules
_CSV_NAMES: tuple[str | None, ...] = (
    *(field.name for field in CORE),
    None,
    *(field.name for field in MODULES),
)


def csv_line(row: Row) -> str:
    """One row, every cell followed by a comma, without newline."""
    get = row.values.get
    cells = [
        "-" if name is None else str(value) if type(value := get(name)) is int else csv_cell(value)
        for name in _CSV_NAMES
    ]
    cells.append("")
    return ",".join(cells)


def render_csv(rows: Iterable[Row]) -> Iterator[str]:
    """The header line, then one line per row."""
    yield CSV_HEADER + "\n"
    for row in rows:
        yield csv_line(row) + "\n"


def render_typed(rows: Iterable[Row], *, describe: bool = False) -> Iterator[str]:
    """One line per field that has a value."""
    for row in rows:
        lines = []
        for position, field in enumerate(FIELDS):
            value = row.values.get(field.name)
            if value is None:
                continue
            tags = _tags(field, row)
            text = f":{json.dumps(field.description)}" if describe else ""
            lines.append(
                f"{row.kind.letter}.{row.proxy_id}.{row.id}.{position}.{field.name}.1:"
                f"{tags}:{field.type}:{value}{text}\n"
            )
        yield "".join(lines)


def render_json(rows: Iterable[Row]) -> Iterator[str]:
    """An array of rows, each an array of fields, on one line."""
    separator = "["
    for row in rows:
        get = row.values.get
        head = f'{{"objType":"{row.kind.word}","proxyId":{row.proxy_id},"id":{row.id},'
        items = [
            f"{head}{known}{value if type(value) is int else json.dumps(value)}}}}}"
            for name, known in _json_fields(row.kind)
            if (value := get(name)) is not None
        ]
        yield f"{separator}[{','.join(items)}]"
        separator = ","
    yield "]\n" if separator == "," else "[]\n"


@cache
def _json_fields(kind: ObjectType) -> list[tuple[str, str]]:
    """For each field, what stands before its value, apart from the numbers of the row."""
    backend = kind is ObjectType.BACKEND
    fields = []
    for position, field in enumerate(FIELDS):
        tags = BACKEND_TAGS.get(field.name, field.tags) if backend else field.tags
        text = json.dumps(json_field(position, field, tags, 0), separators=(",", ":"))
        fields.append((field.name, text.removeprefix("{").removesuffix("0}}")))
    return fields


def _tags(field: Field, row: Row) -> str:
    if row.kind is ObjectType.BACKEND:
        return BACKEND_TAGS.get(field.name, field.tags)
    return field.tags


def json_field(position: int, field: Field, tags: str, value: Value) -> dict[str, object]:
    """The part of a JSON item that `show stat` and `show info` have in common."""
    return {
        "field": {"pos": position, "name": field.name},
        "processNum": 1,
        "tags": {
            "origin": ORIGINS[tags[0]],
            "nature": NATURES[tags[1]],
            "scope": SCOPES[tags[2]],
        },
        "value": {"type": field.type, "value": value},
    }

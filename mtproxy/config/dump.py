"""The configuration as it was understood, as text in one stable form (golden tests).

Only what differs from the default is shown; places in files are not. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.location import Location
from mtproxy.base.log_settings import SampleSettings
from mtproxy.base.ruleset import AclLine, Condition, Expression, Format, ReplySpec, Rule
from mtproxy.base.settings import Settings

_INDENT = "    "
#: records of the rule language that say how they were written
_TEXTS = (AclLine, Condition, Expression, Format, Rule)
#: records that are one value
_WRITTEN = (Address, SampleSettings, *_TEXTS)


def dump(settings: Settings) -> str:
    """Sections in order, one value a line, with a final line feed."""
    lines = ["global"]
    lines += _members(settings.global_, skip=())
    for proxy in settings.proxies:
        lines.append(f"{proxy.kind} {proxy.name}")
        lines += _members(proxy, skip=("kind", "name"))
    for ring in settings.rings:
        lines.append(f"ring {ring.name}")
        lines += _members(ring, skip=("name",))
    return "\n".join(lines) + "\n"


def address_text(address: Address) -> str:
    """`ipv4@127.0.0.1:80`, `unix@/path`, `fd@3`: independent of how it was written."""
    kind = address.kind.value
    if address.kind is AddressKind.FD:
        return f"{kind}@{address.fd}"
    if address.kind in (AddressKind.UNIX, AddressKind.ABNS):
        return f"{kind}@{address.host}"
    host = f"[{address.host}]" if ":" in address.host else address.host
    if address.port_offset is not None:
        return f"{kind}@{host}:{address.port_offset:+d}"
    return f"{kind}@{host}:{address.port}"


def _default(item: Field[object]) -> object:
    if item.default is not MISSING:
        return item.default
    if item.default_factory is not MISSING:
        return item.default_factory()
    return MISSING


def _members(record: object, skip: tuple[str, ...], depth: int = 1) -> Iterator[str]:
    assert is_dataclass(record)
    for item in fields(record):
        value = getattr(record, item.name)
        if item.name in skip or not item.repr or isinstance(value, Location):
            continue
        if value == _default(item):
            continue
        yield from _entry(item.name.rstrip("_"), value, depth)


def _entry(name: str, value: object, depth: int) -> Iterator[str]:
    indent = _INDENT * depth
    if isinstance(value, tuple):
        for element in value:
            yield from _entry(name, element, depth)
    elif is_dataclass(value) and not isinstance(value, _WRITTEN):
        yield f"{indent}{name}"
        yield from _members(value, (), depth + 1)
    elif isinstance(value, dict):
        for key, element in sorted(value.items()):
            for one in element if isinstance(element, tuple) else (element,):
                yield f"{indent}{name}[{key}] = {_plain(one)}"
    elif name == "mode" and isinstance(value, int):
        yield f"{indent}{name} = {value:o}"
    else:
        yield f"{indent}{name} = {_plain(value)}"


def _plain(value: object) -> str:
    if isinstance(value, Address):
        return address_text(value)
    if isinstance(value, SampleSettings):
        ranges = ",".join(f"{a}-{b}" if a < b else str(a) for a, b in value.ranges)
        return f"{ranges}:{value.size}"
    if isinstance(value, _TEXTS):
        return ascii(value.text)[1:-1]
    if isinstance(value, ReplySpec) and value.words:
        return ascii(" ".join(value.words))[1:-1]
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (frozenset, set)):
        return " ".join(str(element) for element in sorted(value))
    if isinstance(value, bytes):
        return _one_line(value.decode("latin-1"))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _one_line(str(value))


def _one_line(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]

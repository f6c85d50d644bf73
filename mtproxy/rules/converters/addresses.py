"""Converters of addresses (manual 7.3.1: ipmask)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtproxy.rules.tables import ArgKind, Converter, optional, required
from mtproxy.rules.types import Ip4, Ip6, Type

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View


def _ipmask(args: tuple[Any, ...], _build: Build) -> Convert:
    """IPv4 addresses in IPv6 clothing take the mask of IPv4; without mask6, IPv6 gives nothing."""
    mask4, mask6 = args

    def ipmask(value: Any, _view: View) -> Ip4 | Ip6 | None:
        if type(value) is Ip4:
            return Ip4(value & mask4)
        if value >> 32 == 0xFFFF:
            return Ip4(value & mask4)
        return None if mask6 is None else Ip6(value & mask6)

    return ipmask


CONVERTERS: tuple[Converter, ...] = (
    Converter(
        "ipmask",
        Type.ADDR,
        Type.IPV4,
        _ipmask,
        (*required(ArgKind.MASK4), *optional(ArgKind.MASK6)),
    ),
)

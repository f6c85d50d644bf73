"""The tables of `registry`, for modules that the families themselves import.

A family may use the whole language (an action takes expressions), and the language looks up
families: so it asks here, when it is used, and not while modules are imported. Any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtproxy.rules.tables import Action, Converter, Fetch


def fetches() -> dict[str, Fetch]:
    """All fetches by name."""
    from mtproxy.rules import registry

    return registry.FETCHES


def converters() -> dict[str, Converter]:
    """All converters by name."""
    from mtproxy.rules import registry

    return registry.CONVERTERS


def actions() -> dict[str, Action]:
    """All actions by name."""
    from mtproxy.rules import registry

    return registry.ACTIONS

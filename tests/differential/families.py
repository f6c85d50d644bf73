"""All cases by family: each module of `cases` is one."""

from __future__ import annotations

import importlib
import pkgutil

from tests.differential import cases as _cases
from tests.differential.case import Case

#: families of configurations that are only loaded
LOAD_ONLY = ("errors_at_load", "names_at_load")


def names() -> list[str]:
    """The families, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(_cases.__path__))


def family(name: str) -> list[Case]:
    """Its cases. Raises ValueError where two have one name."""
    found: list[Case] = list(importlib.import_module(f"tests.differential.cases.{name}").CASES)
    seen = [case.name for case in found]
    twice = {name for name in seen if seen.count(name) > 1}
    if twice:
        raise ValueError(f"{name}: several cases are called {sorted(twice)}")
    return found

"""The nearest known word to a mistyped one, for diagnostics. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

#: below this similarity (0..1) a suggestion would be a guess
_CUTOFF = 0.65


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The word of `known` that `word` most probably stands for, or None."""
    if not word:
        return None
    return _nearest(word.lower(), frozenset(known))


@lru_cache(maxsize=256)
def _nearest(word: str, known: frozenset[str]) -> str | None:
    """The work: a millisecond or two, hence kept for files that repeat one mistake."""
    from difflib import get_close_matches  # costs 10 ms that a right configuration need not pay

    found = get_close_matches(word, sorted(known), n=1, cutoff=_CUTOFF)
    return found[0] if found else None

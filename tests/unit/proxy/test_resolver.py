"""The resolver without a loop: what it does before anything is asked."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mtproxy.base.server_settings import ResolversSettings
from mtproxy.proxy import resolver
from mtproxy.proxy.resolver import Resolver


def test_questions_do_not_run_out_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all numbers taken, a new one would be looked for without an end."""
    monkeypatch.setattr(resolver, "_OPEN", 0)
    context: Any = SimpleNamespace(now=0, normal=deque())
    ours = Resolver(ResolversSettings("r"), context)
    with pytest.raises(StopIteration) as ended:
        ours.lookup("a.test", cast(Any, None)).send(None)
    assert ended.value.value is None

"""The resolver without a loop: what it does before anything is asked."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mtproxy.base.settings import ResolversSettings
from mtproxy.proxy import resolver
from mtproxy.proxy.resolver import Resolver
from mtproxy.testing.proxies import FakeContext


def test_questions_do_not_run_out_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all numbers taken, a new one would be looked for without an end."""
    monkeypatch.setattr(resolver, "_OPEN", 0)
    ours = Resolver(ResolversSettings("r"), cast(Any, FakeContext()))
    with pytest.raises(StopIteration) as ended:
        ours.lookup("a.test", cast(Any, None)).send(None)
    assert ended.value.value is None

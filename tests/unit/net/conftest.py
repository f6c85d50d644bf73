"""For tests of what one thread does with sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mtproxy.sched.context import ThreadContext
from mtproxy.testing.pools import clean_context


@pytest.fixture
def ctx() -> Iterator[ThreadContext]:
    with clean_context() as ctx:
        yield ctx

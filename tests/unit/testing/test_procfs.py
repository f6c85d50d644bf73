"""What /proc says of this very process."""

from __future__ import annotations

import os
import time

import pytest

from mtproxy.testing import procfs


def test_thread_seconds_are_those_of_the_processors_clock() -> None:
    ran, waited = procfs.thread_seconds(os.getpid())
    begin = time.process_time()
    while time.process_time() - begin < 0.05:
        pass
    later, waited_later = procfs.thread_seconds(os.getpid())
    assert 0.04 < later - ran < 5
    assert waited_later >= waited >= 0


def test_nobodys_threads() -> None:
    with pytest.raises(ProcessLookupError):
        procfs.thread_seconds(2**22 + 1)

"""For all tests: how hypothesis runs, and what the tests run on."""

from __future__ import annotations

import os
import signal
import sys
import sysconfig

from hypothesis import settings

# A shared machine stalls now and then: how long one example takes says nothing. In CI hypothesis
# tries the same examples every time (its own profile "ci"), so that a change is judged by itself.
settings.register_profile(
    "mtproxy",
    parent=settings.get_profile("ci" if os.environ.get("CI") else "default"),
    deadline=None,
)
settings.load_profile("mtproxy")

# A shell starts what runs in its background with SIGINT ignored, and so would we start programs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    """Say whether threads run in parallel here: most tests of threads mean little with the GIL."""
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "threads: a build with the GIL"
    return f"threads: free-threaded build, GIL {'ON' if sys._is_gil_enabled() else 'off'}"

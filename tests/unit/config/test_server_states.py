"""`track` and its faults, `init-state`: what a configuration may say of a server's state."""

from __future__ import annotations

import pytest

from tests.unit.config.conftest import *  # noqa: F403

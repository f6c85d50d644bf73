"""Whole configurations in the styles of public repositories, each with a scenario; see `stage`."""

from __future__ import annotations

from tests.differential.whole import (
    files_failover,
    files_http,
    files_operations,
    files_sites,
    files_tcp,
)
from tests.differential.whole.stage import Whole

ALL: dict[str, Whole] = {
    whole.name: whole
    for whole in (
        *files_failover.ALL,
        *files_http.ALL,
        *files_operations.ALL,
        *files_sites.ALL,
        *files_tcp.ALL,
    )
}

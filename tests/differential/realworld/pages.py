"""Error files and keywords of the statistics page; see the package."""

from __future__ import annotations

from typing import Final

INDEX: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "errorfile": {
        "errorfile 503": ("e2e/test_public_configurations.py::test_error_files",),
        "errorfile 400": (
            "e2e/test_public_configurations.py::test_error_files",
            "cases/replies/bad request, own page",
            "e2e/test_http_refusals.py::test_error_files_of_what_was_no_request",
        ),
        "errorfile 403": ("e2e/test_public_configurations.py::test_error_files",),
        "errorfile 408": (
            "e2e/test_public_configurations.py::test_error_files",
            "cases/replies/request time-out, own page",
            "e2e/test_http_refusals.py::test_error_files_of_what_was_no_request",
        ),
        "errorfile 500": ("e2e/test_public_configurations.py::test_error_files",),
        "errorfile 502": ("e2e/test_public_configurations.py::test_error_files",),
        "errorfile 504": ("e2e/test_public_configurations.py::test_error_files",),
    },
    "stats": {
        "stats enable": (
            "cases/stats/default uri",
            "e2e/test_public_configurations.py::test_what_the_page_tells",
        ),
        "stats uri": ("cases/stats/a prefix", "cases/stats/absolute targets"),
        "stats refresh": ("cases/stats/refresh",),
        "stats auth": ("cases/stats/accounts", "whole/the page in a listen section"),
        "stats realm": ("cases/stats/a realm", "whole/the page in a listen section"),
        "stats hide-version": ("e2e/test_public_configurations.py::test_what_the_page_tells",),
        "stats show-node": ("e2e/test_public_configurations.py::test_what_the_page_tells",),
        "stats admin": (
            "cases/stats/one of two admin rules",
            "e2e/test_stats_page.py::test_forms_change_servers_as_in_haproxy",
            "whole/the page in a listen section",
        ),
        "stats show-legends": ("e2e/test_public_configurations.py::test_what_the_page_tells",),
    },
}
WRITTEN: Final[dict[tuple[str, str], str]] = {
    # one test has all statuses
    ("errorfile", f"errorfile {status}"): "errorfile"
    for status in (400, 403, 408, 500, 502, 503, 504)
}

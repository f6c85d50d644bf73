"""Sections, keywords of the global section, and targets of logs; see the package."""

from __future__ import annotations

from typing import Final

INDEX: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "section": {
        "defaults": (
            "e2e/test_public_configurations.py::test_what_defaults_give_and_sections_change",
        ),
        "global": ("e2e/test_logs.py::test_global_log",),
        "backend": (
            "e2e/test_public_configurations.py::test_use_backend_and_default_backend",
            "e2e/test_http_connections.py::test_two_frontends_share_a_backend",
        ),
        "frontend": ("e2e/test_http_connections.py::test_two_frontends_share_a_backend",),
        "listen": ("e2e/test_public_configurations.py::test_listen_is_both_sides",),
        "resolvers": (
            "e2e/test_public_configurations.py::test_what_is_looked_up_in_a_jail",
            "e2e/test_server_names.py::test_a_name_comes_changes_and_goes",
        ),
        "cache": ("refused/cache",),
        "http-errors": ("cases/replies/deny errorfiles",),
        "peers": ("refused/peers",),
        "program": ("refused/program",),
        "userlist": ("cases/actions/auth of a user",),
    },
    "global": {
        "log": (
            "e2e/test_logs.py::test_global_log",
            "e2e/test_public_configurations.py::test_levels_of_a_target",
        ),
        "maxconn": ("e2e/test_public_configurations.py::test_maxconn_of_the_process",),
        "daemon": ("e2e/test_process_limits.py::test_daemon",),
        "user": (
            "e2e/test_public_configurations.py::test_user_and_group",
            "e2e/test_public_configurations.py::test_a_user_that_does_not_exist",
        ),
        "group": ("e2e/test_public_configurations.py::test_user_and_group",),
        "stats socket": (
            "e2e/test_public_configurations.py::test_stats_socket",
            "e2e/test_socket_options.py::test_severity_of_a_runtime_socket",
        ),
        "chroot": (
            "e2e/test_public_configurations.py::test_debians_jail",
            "e2e/test_public_configurations.py::test_what_is_looked_up_in_a_jail",
            "e2e/test_process_limits.py::test_chroot",
        ),
        "ssl-default-bind-ciphers": (
            "e2e/test_public_configurations.py::test_defaults_of_tls_that_nobody_uses",
        ),
        "pidfile": ("e2e/test_process_limits.py::test_daemon",),
        "ssl-default-bind-options": (
            "e2e/test_public_configurations.py::test_defaults_of_tls_that_nobody_uses",
        ),
        "tune.ssl.default-dh-param": (
            "e2e/test_public_configurations.py::test_defaults_of_tls_that_nobody_uses",
        ),
        "stats timeout": ("e2e/test_public_configurations.py::test_stats_timeout",),
        "crt-base": ("e2e/test_public_configurations.py::test_defaults_of_tls_that_nobody_uses",),
        "ca-base": ("e2e/test_public_configurations.py::test_defaults_of_tls_that_nobody_uses",),
        "ssl-default-bind-ciphersuites": (
            "e2e/test_public_configurations.py::test_defaults_of_tls_that_nobody_uses",
        ),
        "nbthread": ("e2e/test_process_limits.py::test_nbthread",),
        "lua-load": ("refused/lua-load",),
        "master-worker": ("refused/master-worker",),
        "tune.bufsize": ("e2e/test_http_headers.py::test_tune_bufsize",),
        "cpu-map": ("e2e/test_process_limits.py::test_cpu_map",),
    },
    "log": {
        "log global": ("e2e/test_logs.py::test_global_log",),
        "log 127.0.0.1": (
            "e2e/test_logs.py::test_httplog",
            "e2e/test_logs.py::test_two_targets",
            "e2e/test_public_configurations.py::test_levels_of_a_target",
        ),
        "log stdout": ("e2e/test_logs.py::test_log_to_stdout",),
        "log stdout format raw": ("e2e/test_public_configurations.py::test_docker_logs",),
        "log /dev/log": ("e2e/test_public_configurations.py::test_debians_jail",),
    },
}
WRITTEN: Final[dict[tuple[str, str], str]] = {}

"""Words of `server` lines, algorithms of `balance`, and more options; see the package."""

from __future__ import annotations

from typing import Final

INDEX: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "server": {
        "check": (
            "e2e/test_servers.py::test_check_up",
            "e2e/test_servers.py::test_check_down_and_up_again",
        ),
        "inter": (
            "e2e/test_public_configurations.py::test_inter",
            "e2e/test_servers.py::test_check_down_and_up_again",
        ),
        "fall": ("e2e/test_check_scripts.py::test_the_states_of_a_server",),
        "rise": ("e2e/test_check_scripts.py::test_the_states_of_a_server",),
        "maxconn": ("e2e/test_queues.py::test_one_at_a_time_in_order", "cases/queueing/two places"),
        "weight": ("e2e/test_servers.py::test_weights",),
        "backup": (
            "e2e/test_servers.py::test_backup_is_idle_while_an_active_server_lives",
            "cases/options/allbackups",
        ),
        "cookie": ("cases/cookies/insert: c1", "whole/blue and green"),
        "init-addr": (
            "e2e/test_server_names.py::test_a_name_comes_changes_and_goes",
            "whole/servers by name",
        ),
        "port": ("e2e/test_servers.py::test_check_on_another_port",),
        "resolvers": (
            "e2e/test_server_names.py::test_a_name_comes_changes_and_goes",
            "whole/servers by name",
        ),
        "on-marked-down": (
            "e2e/test_session_limits.py::test_on_marked_down",
            "whole/redis and its master",
        ),
        "ssl": ("refused/server ssl", "refused/default-server ssl"),
        "verify": ("refused/server verify",),
        "send-proxy-v2": (
            "e2e/test_proxy_protocol.py::test_sending_a_header",
            "whole/a chain of proxies",
        ),
        "resolve-prefer": (
            "e2e/test_server_names.py::test_the_preferred_family_and_the_other_one",
        ),
        "send-proxy": (
            "e2e/test_proxy_protocol.py::test_sending_a_header",
            "whole/a chain of proxies",
        ),
    },
    "balance": {
        "roundrobin": ("e2e/test_servers.py::test_roundrobin", "e2e/test_servers.py::test_weights"),
        "leastconn": (
            "e2e/test_servers.py::test_leastconn",
            "e2e/test_servers.py::test_leastconn_with_weights",
        ),
        "source": (
            "e2e/test_public_configurations.py::test_balance_source",
            "cases/servers/balance source",
            "whole/web sockets beside pages",
        ),
    },
    "option": {
        "tcplog": ("e2e/test_logs.py::test_tcplog", "cases/options/tcplog"),
        "httpclose": (
            "e2e/test_http_connections.py::test_httpclose",
            "cases/options/httpclose in the frontend: plain",
        ),
        "tcp-check": ("e2e/test_check_scripts.py::test_reports", "whole/redis and its master"),
        "tcpka": ("e2e/test_socket_options.py::test_keepalive_towards_clients",),
        "log-health-checks": ("e2e/test_server_messages.py::test_each_check_on_request",),
        "abortonclose": (
            "endings/http/head, left with abortonclose",
            "endings/http/connect, left with abortonclose",
        ),
        "ssl-hello-chk": ("e2e/test_check_scripts.py::test_reports", "whole/tls by name"),
        "mysql-check": ("e2e/test_check_scripts.py::test_reports", "whole/mysql with a backup"),
    },
}
WRITTEN: Final[dict[tuple[str, str], str]] = {}

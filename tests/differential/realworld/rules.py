"""Actions of rules, fetches and converters; see the package."""

from __future__ import annotations

from typing import Final

INDEX: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "http-request": {
        "set-header": (
            "cases/actions/request set-header",
            "cases/actions/request set-header with a format",
        ),
        "deny": (
            "cases/actions/request deny by condition",
            "cases/actions/request deny deny_status",
        ),
        "redirect": (
            "cases/actions/request redirect location",
            "cases/actions/request redirect scheme",
            "cases/actions/request redirect prefix",
        ),
        "add-header": ("cases/actions/request add-header",),
        "set-var": ("cases/actions/request set-var", "cases/actions/request set-var conditionally"),
        "track-sc0": (
            "cases/stick_tables/http-request sc0_http_req_rate",
            "cases/stick_tables/rate limit",
        ),
        "return": ("cases/replies/return string", "cases/replies/return file"),
        "silent-drop": ("cases/actions/request silent-drop",),
        "use-service": (
            "cases/stats/the exporter",
            "e2e/test_stats_page.py::test_the_exporter_has_haproxys_names_in_haproxys_order",
        ),
        "replace-path": ("cases/actions/request replace-path",),
        "send-spoe-group": ("refused/send-spoe-group",),
        "cache-use": ("refused/cache-use",),
    },
    "http-response": {
        "set-header": ("cases/actions/response set-header",),
        "deny": ("cases/actions/response deny", "cases/actions/response deny status"),
        "redirect": ("cases/actions/response redirect",),
        "cache-store": ("refused/cache-store",),
        "silent-drop": ("cases/actions/response silent-drop",),
    },
    "tcp-request": {
        "inspect-delay": (
            "cases/tcp_rules/content payload missing",
            "e2e/test_tcp_rules.py::test_the_delay_decides",
            "whole/tls by name",
        ),
        "content accept": ("cases/tcp_rules/content accept", "cases/tcp_rules/content payload sub"),
        "connection reject": (
            "cases/tcp_rules/connection reject",
            "cases/tcp_rules/connection reject by source",
        ),
        "content track-sc0": ("cases/stick_tables/tcp-request content sc0_conn_cnt",),
    },
    "fetch": {
        "path": ("cases/acls/{ path_beg /images }",),
        "req.hdr": ("cases/acls/{ req.hdr(x-list,1) one }",),
        "ssl_fc": ("cases/fetches_other/ssl_fc",),
        "src": ("cases/acls/{ src 127.0.0.0/8 }",),
        "var": ("cases/acls/{ var(txn.none) -m found }", "cases/actions/request set-var"),
        "method": ("cases/acls/{ method POST GET }",),
        "dst_port": ("cases/fetches_other/dst_port",),
        "req.ssl_hello_type": (
            "cases/tcp_rules/tls req.ssl_hello_type",
            "cases/tcp_rules/no tls req.ssl_hello_type",
        ),
        "req.payload": ("cases/tcp_rules/content payload", "cases/tcp_rules/content payload bin"),
        "req.ssl_sni": ("cases/tcp_rules/tls req.ssl_sni", "cases/tcp_rules/tls routing"),
        "sc_http_req_rate": ("cases/stick_tables/rate limit", "whole/limits by stick tables"),
    },
    "converter": {
        "lower": ("cases/acls/{ hdr(host),lower -m beg www1.dc }",),
        "map_str": ("cases/maps/map_str(@DIR@/str.map) of /a/b",),
        "regsub": (
            "cases/strings/str(a1b2c3),regsub([0-9],X)",
            "cases/strings/str(a1b2c3),regsub([0-9],X,g)",
        ),
        "word": (
            "cases/strings/str(w1_w2_w3___w4),word(1,_)",
            "cases/strings/str(w1_w2_w3___w4),word(-1,_)",
        ),
    },
}
WRITTEN: Final[dict[tuple[str, str], str]] = {}

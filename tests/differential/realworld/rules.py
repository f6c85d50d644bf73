"""Actions of rules, fetches and converters; see the package."""

from __future__ import annotations

from typing import Final

INDEX: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "http-request": {
        "set-header": (),
        "deny": (),
        "redirect": (),
        "add-header": (),
        "set-var": (),
        "track-sc0": (),
        "return": (),
        "silent-drop": (),
        "use-service": (),
        "replace-path": (),
        "send-spoe-group": (),
        "cache-use": (),
    },
    "http-response": {
        "set-header": (),
        "deny": (),
        "redirect": (),
        "cache-store": (),
        "silent-drop": (),
    },
    "tcp-request": {
        "inspect-delay": (),
        "content accept": (),
        "connection reject": (),
        "content track-sc0": (),
    },
    "fetch": {
        "path": (),
        "req.hdr": (),
        "ssl_fc": (),
        "src": (),
        "var": (),
        "method": (),
        "dst_port": (),
        "req.ssl_hello_type": (),
        "req.payload": (),
        "req.ssl_sni": (),
        "sc_http_req_rate": (),
    },
    "converter": {"lower": (), "map_str": (), "regsub": (), "word": ()},
}
WRITTEN: Final[dict[tuple[str, str], str]] = {}

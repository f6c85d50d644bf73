"""A log record with every attribute of `log.record.LogRecord`, for tests of formats and loggers."""

from __future__ import annotations

from types import SimpleNamespace

_DEFAULTS: dict[str, object] = {
    "client_ip": "127.0.0.1",
    "client_port": 44768,
    "dst_ip": "127.0.0.1",
    "dst_port": 8101,
    "accept_ms": 1_796_047_030_424,
    "frontend": "fe",
    "backend": "be",
    "server": "s1",
    "backend_src_ip": "127.0.0.1",
    "backend_src_port": 57848,
    "server_ip": "127.0.0.1",
    "server_port": 8191,
    "t_h": 0,
    "t_i": 0,
    "t_R": 0,
    "t_w": 0,
    "t_c": 0,
    "t_r": 53,
    "t_a": 53,
    "t_t": 53,
    "t_q": 0,
    "status": 200,
    "bytes_read": 127,
    "bytes_uploaded": 87,
    "null": False,
    "term_state": "----",
    "act_conn": 1,
    "fe_conn": 1,
    "be_conn": 0,
    "srv_conn": 0,
    "retries": 0,
    "redispatched": False,
    "srv_queue": 0,
    "backend_queue": 0,
    "request_line": b"GET /slow?x=1 HTTP/1.1",
    "captured_request_headers": (),
    "captured_response_headers": (),
    "request_cookie": None,
    "response_cookie": None,
    "unique_id": None,
    "request_count": 5,
    "tls_version": None,
    "tls_cipher": None,
}

#: what differs when the request was refused before a server was chosen
BADREQ: dict[str, object] = {
    "backend": "fe",
    "server": "<NOSRV>",
    "backend_src_ip": None,
    "server_ip": None,
    "t_R": -1,
    "t_w": -1,
    "t_c": -1,
    "t_r": -1,
    "t_a": 0,
    "t_t": 0,
    "t_q": -1,
    "status": 400,
    "bytes_read": 0,
    "bytes_uploaded": 0,
    "term_state": "PR--",
    "request_line": None,
}


class FakeRecord(SimpleNamespace):
    """`FakeRecord(status=503)`: a usual transaction but for what is given. Unknown names fail."""

    def __init__(self, **changes: object) -> None:
        unknown = changes.keys() - _DEFAULTS.keys()
        if unknown:
            raise TypeError(f"LogRecord has no attribute {sorted(unknown)}")
        super().__init__(**(_DEFAULTS | changes))

"""A private nginx as origin: own configuration, own directory, own port, own pid; nothing shared
with an nginx that the machine runs as a service.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Self

from mtproxy.testing.program import find_tool
from mtproxy.testing.server import free_port
from mtproxy.testing.waiting import wait_until
from mtproxy.testing.wire import open_socket

_CONFIG = """\
daemon off;
worker_processes {workers};
pid {directory}/pid;
error_log stderr crit;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    default_type text/plain;
    client_body_temp_path {directory}/t1;
    proxy_temp_path {directory}/t2;
    fastcgi_temp_path {directory}/t3;
    uwsgi_temp_path {directory}/t4;
    scgi_temp_path {directory}/t5;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root {directory}/root;
        location = /small {{ return 200 "{small}"; }}
        location = /unlike {{ add_header X-Id $request_id; return 200 "{small}"; }}
    }}
}}
"""

#: the body of GET /small: 34 bytes
SMALL_BODY = b"the quick brown fox says hello 34\n"


class Nginx:
    """Serves GET /small (34 bytes, from memory), GET /unlike (the same, with a header that is
    different each time) and the files of `root`. A context manager.
    """

    def __init__(self, *, workers: int = 1) -> None:
        self._workers = workers
        self._dir = tempfile.TemporaryDirectory(prefix="mtn", dir="/tmp")
        self.root = Path(self._dir.name) / "root"
        self.root.mkdir()
        # Under root, workers run as nobody: they must be able to enter the directory.
        Path(self._dir.name).chmod(0o755)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def add_file(self, name: str, size: int) -> None:
        """A file of `size` zero bytes (sparse), at /`name`."""
        with (self.root / name).open("wb") as file:
            file.truncate(size)

    def __enter__(self) -> Self:
        path = find_tool("nginx")
        if path is None:
            raise FileNotFoundError("nginx is not installed: run .ci/need nginx")
        self.port = free_port()
        config = Path(self._dir.name) / "nginx.conf"
        small = SMALL_BODY.decode().replace("\n", "\\n")
        config.write_text(
            _CONFIG.format(
                workers=self._workers, directory=self._dir.name, port=self.port, small=small
            )
        )
        log = Path(self._dir.name) / "stderr"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [path, "-c", str(config), "-p", self._dir.name],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

        def answers() -> bool:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"nginx did not start:\n{log.read_text()}")
            try:
                open_socket(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                return False
            return True

        wait_until(answers, "nginx")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()  # a fast shutdown of the master and its workers
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)
        self._dir.cleanup()

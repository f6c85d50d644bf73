"""A UDP syslog sink as a process of its own, so that its CPU time is nobody else's.

`python -m perf.sink` prints its port, drops what it gets, and prints the number of messages when
SIGTERM ends it.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from typing import Self


class Sink:
    """The running sink. `messages` is known after the `with` block."""

    def __init__(self) -> None:
        self.port = 0
        self.messages = 0
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "perf.sink"], stdout=subprocess.PIPE, text=True
        )
        output = self._process.stdout
        assert output is not None
        self.port = int(output.readline())
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        output = self._process.communicate(timeout=10)[0]
        self.messages = int(output or 0)


def main() -> None:
    """The process."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    count = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.bind(("127.0.0.1", 0))
        print(sock.getsockname()[1], flush=True)
        buffer = bytearray(2048)
        receive = sock.recv_into
        try:
            while True:
                receive(buffer)
                count += 1
        except KeyboardInterrupt:
            print(count, flush=True)


if __name__ == "__main__":
    main()

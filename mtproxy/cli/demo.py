"""`mtproxy demo`: two small origin servers and the proxy in front of them, to be tried with curl.

The origin servers are threads of this process; the proxy is a child process running a configuration
that is written to a temporary directory. Ctrl-C, SIGTERM or a closed terminal (SIGHUP) stops
everything and removes the directory. The proxy never outlives this process, however it ends: see
`end_with_parent`.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import itertools
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from mtproxy.cli.client import ClientError, ask
from mtproxy.config.cpumap import MAX_THREADS

DEFAULT_PORT = 8080
#: how long the proxy may take to start and to stop, in seconds
START_LIMIT = 15.0
STOP_LIMIT = 5.0
#: what the child process runs, with the words of the command line
_CHILD = """\
import sys
from mtproxy.__main__ import main
from mtproxy.cli.demo import end_with_parent
end_with_parent()
sys.exit(main())
"""

CONFIG = """\
# Written by `mtproxy demo`.
global
    stats socket {runtime} level admin
{log}{threads}
defaults
    mode http
    timeout connect 2s
    timeout client 30s
    timeout server 30s
    option httplog
    log global

frontend demo
    bind 127.0.0.1:{port}
    default_backend origins

backend origins
    balance roundrobin
    server one 127.0.0.1:{first} check inter 1s
    server two 127.0.0.1:{second} check inter 1s
"""


class Origin:
    """A small HTTP/1.1 server on a port of its own that says who it is."""

    def __init__(self, name: str) -> None:
        self.name = name
        count = itertools.count(1)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            server_version = f"demo-origin-{name}"

            def answer(self) -> None:
                length = self.headers.get("content-length", "0")
                received = len(self.rfile.read(int(length))) if length.isdigit() else 0
                text = (
                    f"Hello from origin {name}, which answers its request number {next(count)}.\n"
                    f"You asked for {self.path}"
                    + (f" and sent {received} bytes.\n" if received else ".\n")
                )
                body = text.encode("utf-8", "replace")
                self.send_response(200)
                self.send_header("content-type", "text/plain; charset=utf-8")
                self.send_header("content-length", str(len(body)))
                self.send_header("x-origin", name)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def __getattr__(self, name: str) -> object:
                # http.server asks for do_GET, do_POST and so on
                if name.startswith("do_"):
                    return self.answer
                raise AttributeError(name)

            def log_message(self, *_args: object) -> None:
                """The proxy keeps the log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name=f"origin {name}")
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def demo(argv: Sequence[str]) -> int:
    """Run the demonstration until it is interrupted. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="mtproxy demo",
        description="Start two small origin servers and the proxy in front of them.",
    )
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help="port of the proxy (default: %(default)s)"
    )
    parser.add_argument(
        "--threads",
        type=_threads,
        metavar="N",
        help=f"threads of the proxy, 1 to {MAX_THREADS} (default: one per CPU)",
    )
    parser.add_argument("--quiet", action="store_true", help="do not print a line per request")
    options = parser.parse_args(list(argv))
    problem = _port_problem(options.port)
    if problem:
        _complain(problem)
        return 1
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="mtproxy-demo-") as directory:
        origins = [Origin("one"), Origin("two")]
        try:
            return _run(Path(directory), origins, options, stop)
        finally:
            for origin in origins:
                origin.close()


def end_with_parent() -> None:
    """For the child process: end when the parent does, however that ends.

    Standard input is a pipe that nobody writes to. It ends when the last process that holds its
    other end does, and that is the parent alone.
    """
    threading.Thread(target=_end_with_input, name="end with the parent", daemon=True).start()


def _end_with_input() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    os.kill(os.getpid(), signal.SIGKILL)


def _threads(text: str) -> int:
    """A number of threads, for argparse."""
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= MAX_THREADS):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {MAX_THREADS}")
    return int(text)


def _say(text: str) -> bool:
    """Print to standard output. False: nobody reads it any more (`| head`, a closed terminal)."""
    try:
        print(text, flush=True)
    except OSError:
        # What is buffered would fail again at exit.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return False
    return True


def _nobody_reads() -> bool:
    """Whether standard output is a pipe or terminal whose other end is gone."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors and the end are always told
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _complain(text: str) -> None:
    """Print to standard error, which may be as gone as standard output."""
    with contextlib.suppress(OSError):
        print(f"mtproxy demo: {text}", file=sys.stderr, flush=True)


def _port_problem(port: int) -> str | None:
    """Why the proxy cannot listen on `port`, with what to do about it; None if it can."""
    if not 0 < port < 65536:
        return f"{port} is no port: choose one from 1 to 65535 with --port"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return (
                    f"port {port} of 127.0.0.1 is taken by another program. "
                    f"Choose another one: {_command_with_port(_free_port())}"
                )
            if error.errno == errno.EACCES:
                return f"no permission to listen on port {port}: choose one above 1023 with --port"
            return f"cannot listen on port {port}: {error.strerror}"
    return None


def _command_with_port(port: int) -> str:
    """The command that starts the demonstration on another port, as the user started it."""
    if os.environ.get("MAKELEVEL"):
        return f'make run ARGS="--port {port}"'
    return f"{_own_command()} demo --port {port}"


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _run(
    directory: Path, origins: Sequence[Origin], options: argparse.Namespace, stop: threading.Event
) -> int:
    runtime = directory / "runtime.sock"
    config = directory / "demo.cfg"
    config.write_text(
        CONFIG.format(
            runtime=runtime,
            log="" if options.quiet else "    log stdout format raw local0\n",
            threads=f"    nbthread {options.threads}\n" if options.threads else "",
            port=options.port,
            first=origins[0].port,
            second=origins[1].port,
        )
    )
    # A process group of its own: Ctrl-C reaches this process alone, which stops the proxy.
    proxy = subprocess.Popen(
        [sys.executable, "-c", _CHILD, "-db", "-f", str(config)],
        stdin=subprocess.PIPE,
        process_group=0,
    )
    try:
        if not _wait_until_ready(proxy, str(runtime), stop):
            if stop.is_set():
                return 0
            _complain("the proxy did not start; its messages are above")
            return 1
        if not _say(_welcome(options, origins, runtime, config)):
            return 0
        while not stop.wait(0.2):
            code = proxy.poll()
            if code is not None:
                _complain(f"the proxy ended with exit code {code}")
                return 1
            if _nobody_reads():
                return 0
        _say("\nmtproxy demo: stopping")
        return 0
    finally:
        _stop(proxy)


def _wait_until_ready(proxy: subprocess.Popen[bytes], runtime: str, stop: threading.Event) -> bool:
    """Wait until the runtime socket answers. False: it never will, or took too long."""
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline and proxy.poll() is None and not stop.is_set():
        try:
            ask(runtime, "show version", timeout=1.0)
        except ClientError:
            stop.wait(0.02)
        else:
            return True
    return False


def _stop(proxy: subprocess.Popen[bytes]) -> None:
    if proxy.poll() is None:
        proxy.terminate()
        try:
            proxy.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            proxy.kill()
    proxy.wait()
    assert proxy.stdin is not None
    proxy.stdin.close()


def _welcome(
    options: argparse.Namespace, origins: Sequence[Origin], runtime: Path, config: Path
) -> str:
    command, port = _own_command(), options.port
    lines = [
        "mtproxy demo: two origin servers and the proxy in front of them",
        "",
        f"  proxy          http://127.0.0.1:{port}/",
        *(f"  origin {o.name:<7} http://127.0.0.1:{o.port}/" for o in origins),
        f"  configuration  {config}",
        "",
        "Try this in another terminal:",
        "",
        f"  curl -i http://127.0.0.1:{port}/hello",
        f'  {command} ctl -S {runtime} "show info"',
        f'  {command} ctl -S {runtime} "show stat"',
        f"  {command} locks -S {runtime} --watch",
        "",
        "Ctrl-C stops it.",
    ]
    if not options.quiet:
        lines.append("Below is a line for every request (--quiet: none).")
    return "\n".join(lines)


def _own_command() -> str:
    """How this program was called, for the lines to copy."""
    called = Path(sys.argv[0])
    if called.name == "mtproxy":
        return os.path.relpath(called) if called.is_absolute() else str(called)
    return f"{sys.executable} -m mtproxy"

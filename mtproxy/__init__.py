"""mtproxy: a reverse proxy that runs haproxy.cfg on every core of free-threaded CPython."""

__version__ = "0.1.0"

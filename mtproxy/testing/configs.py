"""Configuration texts that many end-to-end tests share.

Their timeouts are longer than any pause of a busy machine (see `testing.waiting`): a test that
wants one of them to strike says so.
"""

from __future__ import annotations

DEFAULTS = """
defaults
    mode {mode}
    timeout connect 40s
    timeout client 120s
    timeout server 120s
"""

HTTP = DEFAULTS.format(mode="http")
TCP = DEFAULTS.format(mode="tcp")


def section(lines: str) -> str:
    """The lines of a section, indented."""
    return "".join(f"\n    {line.strip()}" for line in lines.strip().splitlines())


def http(port: int, *, fe: str = "", be: str = "", server: str = "", head: str = HTTP) -> str:
    """A frontend `fe` on listener "fe" and a backend `be` with one server `s1` on `port`; `fe` and
    `be` are more lines of the sections, `server` more words of the server line.
    """
    return f"""{head}
frontend fe
    bind "fd@${{fe}}"{section(fe)}
    default_backend be
backend be{section(be)}
    server s1 127.0.0.1:{port} {server}
"""


def tcp(port: int, *, fe: str = "", be: str = "", server: str = "", head: str = TCP) -> str:
    """The same in TCP mode."""
    return http(port, fe=fe, be=be, server=server, head=head)

"""What this program refuses on purpose, and the words of the message; see the package.

Small whole configurations are made by the functions at the top; `test_realworld` loads them.
"""

from __future__ import annotations

# fmt: off
GLOBAL = "global\n    daemon\n"
HEAD = GLOBAL + "defaults\n    mode http\n    timeout connect 5s\n    timeout client 50s\n    timeout server 50s\n"


def front(*lines: str) -> str:
    return HEAD + "frontend f\n    bind 127.0.0.1:18080\n    default_backend b\n" + "".join(f"    {line}\n" for line in lines) + "backend b\n    server s1 127.0.0.1:1\n"


def back(*lines: str, mode: str = "http") -> str:
    text = HEAD.replace("mode http", f"mode {mode}") + "frontend f\n    bind 127.0.0.1:18080\n    default_backend b\nbackend b\n"
    return text + "".join(f"    {line}\n" for line in lines)


def global_section(*lines: str) -> str:
    return "global\n" + "".join(f"    {line}\n" for line in lines) + back("server s1 127.0.0.1:1").removeprefix(GLOBAL)


def defaults(*lines: str) -> str:
    text = back("server s1 127.0.0.1:1")
    return text.replace("    mode http\n", "    mode http\n" + "".join(f"    {line}\n" for line in lines), 1)



#: refused by mtproxy with these words in the message; True: HAProxy loads it
REFUSED = {
    "peers": (HEAD + "peers p\n    peer a 127.0.0.1:1\n", "peers", None),
    "cache": (front() + "cache c\n    total-max-size 4\n", "cache", True),
    "cache-use": (front("http-request cache-use c"), "cache", None),
    "filter spoe": (front("filter spoe engine e config /dev/null"), "filter", None),
    "program": (front().replace("global\n", "global\n    master-worker\n", 1) + "program p\n    command true\n", "program", None),
    "lua-load": (global_section("lua-load /tmp/none.lua"), "lua", None),
    "compression": (front("compression algo gzip"), "compression", True),
    "reqrep": (front("reqrep ^a b"), "http-request", False),
    "reqadd": (front("reqadd X:\\ y"), "http-request", False),
    "rspadd": (front("rspadd X:\\ y"), "http-response", False),
    "reqidel": (front("reqidel ^X"), "http-request", False),
    "contimeout": (defaults("contimeout 5000"), "timeout connect", False),
    "clitimeout": (defaults("clitimeout 5000"), "timeout client", False),
    "srvtimeout": (defaults("srvtimeout 5000"), "timeout server", False),
    "nbproc": (global_section("nbproc 2"), "nbthread", False),
    "option forceclose": (defaults("option forceclose"), "httpclose", False),
    "an address on the line of listen": (HEAD + "listen l 127.0.0.1:8080\n    server s1 127.0.0.1:1\n", "bind", False),
    "block": (front("block if TRUE"), "http-request deny", False),
    "no final line feed": (back("server s1 127.0.0.1:1").rstrip("\n"), "line", False),
}
# fmt: on

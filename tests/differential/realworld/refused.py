"""What this program refuses on purpose, and the words of the message; see the package.

Small whole configurations are made by the functions at the top; `test_realworld` loads them.
"""

from __future__ import annotations

from dataclasses import dataclass

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


#: what a configuration that needs something is told about it
LATER = "known but not supported by mtproxy yet"
GONE = "not supported any more"
_GLOBAL_LINE, _DEFAULTS_LINE, _SECTION_LINE, _FRONT_LINE, _BACK_LINE = 2, 5, 8, 11, 12
_PEM = "ssl crt /etc/ssl/site.pem"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A configuration that is refused: in which line, and what the message says of it."""

    text: str
    line: int
    words: tuple[str, ...]
    #: whether HAProxy loads it; None: that depends on files
    loads: bool | None = None
    #: what all that is not supported yet is said to be, or old grammar
    status: str = LATER


def _in_front(line: str, *words: str, loads: bool | None = None) -> Refusal:
    return Refusal(front(line), _FRONT_LINE, words, loads)


def _on_server(line: str, *words: str, loads: bool | None = None) -> Refusal:
    return Refusal(back(line), _BACK_LINE, words, loads)


def _in_global(line: str, *words: str, loads: bool | None = None) -> Refusal:
    return Refusal(global_section(line), _GLOBAL_LINE, words, loads)


def _old_front(line: str, *words: str) -> Refusal:
    return Refusal(front(line), _FRONT_LINE, words, False, GONE)


def _old_defaults(line: str, *words: str) -> Refusal:
    return Refusal(defaults(line), _DEFAULTS_LINE, words, False, GONE)


REFUSED: dict[str, Refusal] = {
    # -- TLS
    "bind ssl": _in_front(f"bind :18443 {_PEM}", "bind :18443", "'ssl', 'crt'", "(TLS)"),
    "bind crt": _in_front("bind :18443 crt /etc/ssl/site.pem", "'crt'", "(TLS)"),
    "bind alpn": _in_front(f"bind :18443 {_PEM} alpn h2,http/1.1", "'alpn'", "(TLS)"),
    "bind ca-file": _in_front(f"bind :18443 {_PEM} ca-file /etc/ssl/ca.pem", "'ca-file'", "(TLS)"),
    "bind verify": _in_front(f"bind :18443 {_PEM} verify required", "'verify'", "(TLS)"),
    "bind ssl-min-ver": _in_front(f"bind :18443 {_PEM} ssl-min-ver TLSv1.2", "'ssl-min-ver'", "(TLS)"),
    "bind crt-list": _in_front("bind :18443 ssl crt-list /etc/ssl/list", "'crt-list'", "(TLS)"),
    "server ssl": _on_server("server s1 127.0.0.1:1 ssl verify none", "server b/s1", "'ssl', 'verify'", "(TLS)", loads=True),
    "server verify": _on_server("server s1 127.0.0.1:1 ssl verify none", "'verify'", "(TLS)", loads=True),
    "server check-ssl": _on_server("server s1 127.0.0.1:1 check check-ssl", "'check-ssl'", "(TLS)"),
    "default-server ssl": Refusal(back("default-server ssl verify none", "server s1 127.0.0.1:1"), _BACK_LINE, ("default-server b", "'ssl', 'verify'", "(TLS)"), True),
    "ssl_c_used": _in_front("http-request deny unless { ssl_c_used }", "fetch 'ssl_c_used'", "(TLS)", loads=True),
    "ssl_fc_sni": _in_front("use_backend b if { ssl_fc_sni x }", "fetch 'ssl_fc_sni'", "(TLS)", loads=True),
    # -- HTTP/2
    "bind proto h2": _in_front("bind :18443 proto h2", "'proto h2'", loads=True),
    "server proto h2": _on_server("server s1 127.0.0.1:1 proto h2", "server b/s1", "'proto h2'", loads=True),
    # -- peers
    "peers": Refusal(HEAD + "peers p\n    peer a 127.0.0.1:1\n", _SECTION_LINE, ("section 'peers'", "(peers)")),
    "table peers": Refusal(back("stick-table type ip size 1m peers p", "server s1 127.0.0.1:1"), _BACK_LINE, ("'stick-table'", "'peers'")),
    # -- the cache
    "cache": Refusal(front() + "cache c\n    total-max-size 4\n", 13, ("section 'cache'", "(the HTTP cache)"), True),
    "cache-use": _in_front("http-request cache-use c", "'http-request cache-use'", "(the cache)"),
    "cache-store": _on_server("http-response cache-store c", "'http-response cache-store'", "(the cache)"),
    "filter cache": _in_front("filter cache c", "'filter cache'", "(the HTTP cache)"),
    # -- SPOE
    "filter spoe": _in_front("filter spoe engine e config /dev/null", "'filter spoe'", "(SPOE)"),
    "send-spoe-group": _in_front("http-request send-spoe-group e g", "'http-request send-spoe-group'", "(SPOE)"),
    # -- compression
    "compression": _in_front("compression algo gzip", "'compression'", "(compression)", loads=True),
    "filter compression": _in_front("filter compression", "'filter compression'", "(compression)", loads=True),
    # -- Lua
    "lua-load": _in_global("lua-load /tmp/none.lua", "'lua-load'", "(Lua)"),
    "lua service": _in_front("http-request use-service lua.x", "'http-request use-service'", "Lua"),
    "lua action": _in_front("http-request lua.x", "'lua.x'", "Lua"),
    "lua fetch": _in_front("http-request set-header x %[lua.x]", "'lua.x'", "Lua"),
    # -- the master process
    "master-worker": _in_global("master-worker", "'master-worker'", "(the master process)", loads=True),
    "program": Refusal(front() + "program p\n    command true\n", 13, ("section 'program'", "(programs of the master process)")),
    # -- old grammar
    "an address on the line of listen": Refusal(HEAD + "listen l 127.0.0.1:8080\n    server s1 127.0.0.1:1\n", _SECTION_LINE, ("'127.0.0.1:8080'", "'bind'"), False, "cannot handle"),
    "reqrep": _old_front("reqrep ^a b", "'reqrep'", "'http-request replace-header', 'replace-path'"),
    "reqadd": _old_front("reqadd X:\\ y", "'reqadd'", "'http-request add-header'"),
    "reqidel": _old_front("reqidel ^X", "'reqidel'", "'http-request del-header'"),
    "rspadd": _old_front("rspadd X:\\ y", "'rspadd'", "'http-response add-header'"),
    "block": _old_front("block if TRUE", "'block'", "'http-request deny'"),
    "contimeout": _old_defaults("contimeout 5000", "'contimeout'", "'timeout connect'"),
    "clitimeout": _old_defaults("clitimeout 5000", "'clitimeout'", "'timeout client'"),
    "srvtimeout": _old_defaults("srvtimeout 5000", "'srvtimeout'", "'timeout server'"),
    "timeout contimeout": _old_defaults("timeout contimeout 5s", "'timeout contimeout'", "'timeout connect'"),
    "redispatch": _old_defaults("redispatch", "'redispatch'", "'option redispatch'"),
    "monitor-net": _old_defaults("monitor-net 10.0.0.0/8", "'monitor-net'", "'http-request return status 200"),
    "option forceclose": _old_defaults("option forceclose", "'option forceclose'", "'option httpclose'"),
    "option http_proxy": _old_defaults("option http_proxy", "'option http_proxy'", "'http-request do-resolve'"),
    "nbproc": Refusal(global_section("nbproc 2"), _GLOBAL_LINE, ("'nbproc'", "'nbthread'"), False, GONE),
    "no final line feed": Refusal(back("server s1 127.0.0.1:1").rstrip("\n"), _BACK_LINE, ("line feed", "truncated"), False, "missing"),
}
# fmt: on

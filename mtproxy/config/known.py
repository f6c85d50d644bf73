"""What HAProxy knows and mtproxy does not support: each gives an error that says so.

Exports `KEYWORDS`, `SECTIONS_LATER` (whole sections) and `SECTIONS_REMOVED`. Old keywords name what
takes their place. Facts from the manual's keyword index and from `haproxy -dKall`.
"""

from __future__ import annotations

from mtproxy.config.model import (
    BACK_ONLY,
    IN_GLOBAL,
    PROXY,
    PROXY_ONLY,
    Keyword,
    Support,
)

#: section -> the feature that it belongs to
SECTIONS_LATER: dict[str, str] = {
    "acme": "ACME",
    "cache": "the HTTP cache",
    "crt-store": "TLS",
    "fcgi-app": "FastCGI",
    "healthcheck": "health check sections",
    "log-profile": "log profiles",
    "mailers": "e-mail alerts",
    "peers": "peers",
    "program": "programs of the master process",
    "traces": "traces",
}

_GLOBAL_LATER: dict[str, str] = {
    "51degrees-allow-unmatched": "device detection",
    "51degrees-cache-size": "device detection",
    "51degrees-data-file": "device detection",
    "51degrees-difference": "device detection",
    "51degrees-drift": "device detection",
    "51degrees-property-name-list": "device detection",
    "51degrees-property-separator": "device detection",
    "51degrees-use-performance-graph": "device detection",
    "51degrees-use-predictive-graph": "device detection",
    "anonkey": "anonymised dumps",
    "busy-polling": "busy polling",
    "cluster-secret": "QUIC",
    "cpu-affinity": "CPU policies",
    "cpu-policy": "CPU policies",
    "cpu-set": "CPU policies",
    "deviceatlas-json-file": "device detection",
    "deviceatlas-log-level": "device detection",
    "deviceatlas-properties-cookie": "device detection",
    "deviceatlas-separator": "device detection",
    "dns-accept-family": "DNS resolvers",
    "force-cfg-parser-pause": "debugging of the parser",
    "h1-accept-payload-with-any-method": "relaxed HTTP parsing",
    "h1-do-not-close-on-insecure-transfer-encoding": "relaxed HTTP parsing",
    "h2-workaround-bogus-websocket-clients": "HTTP/2",
    "http-err-codes": "custom error classes",
    "http-fail-codes": "custom failure classes",
    "httpclient.resolvers.disabled": "the HTTP client",
    "httpclient.resolvers.id": "the HTTP client",
    "httpclient.resolvers.prefer": "the HTTP client",
    "httpclient.retries": "the HTTP client",
    "httpclient.ssl.ca-file": "the HTTP client",
    "httpclient.ssl.verify": "the HTTP client",
    "httpclient.timeout.connect": "the HTTP client",
    "jwt.decrypt_alg_list": "JSON web tokens",
    "lua-load": "Lua",
    "lua-load-per-thread": "Lua",
    "lua-prepend-path": "Lua",
    "master-worker": "the master process",
    "mworker-max-reloads": "the master process",
    "nbtgroups": "thread groups",
    "ocsp-update.disable": "TLS",
    "ocsp-update.httpproxy": "TLS",
    "ocsp-update.maxdelay": "TLS",
    "ocsp-update.mindelay": "TLS",
    "ocsp-update.mode": "TLS",
    "prealloc-fd": "descriptor tables",
    "setcap": "capabilities",
    "shm-stats-file": "shared statistics",
    "shm-stats-file-max-objects": "shared statistics",
    "ssl-engine": "TLS",
    "ssl-propquery": "TLS",
    "ssl-provider": "TLS",
    "ssl-provider-path": "TLS",
    "ssl-security-level": "TLS",
    "stats-file": "statistics files",
    "thread-group": "thread groups",
    "thread-hard-limit": "thread limits",
    "trace": "traces",
    "tune.fail-alloc": "simulated allocation failures",
    "warn-blocked-traffic-after": "warnings about blocked traffic",
    "wurfl-cache-size": "device detection",
    "wurfl-data-file": "device detection",
    "wurfl-information-list": "device detection",
    "wurfl-information-list-separator": "device detection",
    "wurfl-patch-file": "device detection",
}

_PROXY_LATER: tuple[tuple[frozenset[str], str, str], ...] = (
    (BACK_ONLY, "be-unpublished", "backend publication"),
    (PROXY, "compression", "compression"),
    (PROXY, "email-alert", "e-mail alerts"),
    (PROXY_ONLY, "filter", "filters"),
    (PROXY_ONLY, "filter bwlim-in", "bandwidth limits"),
    (PROXY_ONLY, "filter bwlim-out", "bandwidth limits"),
    (PROXY_ONLY, "filter cache", "the HTTP cache"),
    (PROXY_ONLY, "filter compression", "compression"),
    (PROXY_ONLY, "filter fcgi-app", "FastCGI"),
    (PROXY_ONLY, "filter opentracing", "OpenTracing"),
    (PROXY_ONLY, "filter spoe", "SPOE"),
    (PROXY_ONLY, "filter trace", "traces"),
    (PROXY, "filter-sequence", "filters"),
    (BACK_ONLY, "force-be-switch", "rules"),
    (PROXY, "guid", "GUIDs"),
    (PROXY, "quic-initial", "QUIC"),
    (BACK_ONLY, "use-fcgi-app", "FastCGI"),
)

_REPLACE = "'http-request replace-header', 'replace-path' or 'replace-uri'"
#: the rules about headers of old: names, what takes their place today
_HEADERS: tuple[tuple[str, str], ...] = (
    ("reqadd", "'http-request add-header'"),
    ("reqallow reqiallow reqpass reqipass", "'http-request allow'"),
    ("reqdel reqidel", "'http-request del-header'"),
    ("reqdeny reqideny", "'http-request deny'"),
    ("reqrep reqirep", _REPLACE),
    ("reqsetbe reqisetbe", "'use_backend'"),
    ("reqtarpit reqitarpit", "'http-request tarpit'"),
    ("rspadd", "'http-response add-header'"),
    ("rspdel rspidel", "'http-response del-header'"),
    ("rspdeny rspideny", "'http-response deny'"),
    ("rsprep rspirep", "'http-response replace-header'"),
)

#: keywords of old grammar: sections, name, what takes their place today
_REMOVED: tuple[tuple[frozenset[str], str, str], ...] = (
    (IN_GLOBAL, "nbproc", "threads use all CPUs; see 'nbthread'"),
    (IN_GLOBAL, "tune.chksize", "health checks use 'tune.bufsize'"),
    (IN_GLOBAL, "stats bind-process", "there is one process"),
    (IN_GLOBAL, "maxreqrate", "use 'maxconn'"),
    (PROXY, "appsession", "use 'cookie' or 'stick on'"),
    (PROXY, "block", "use 'http-request deny'"),
    (PROXY, "clitimeout", "use 'timeout client'"),
    (PROXY, "contimeout", "use 'timeout connect'"),
    (PROXY, "timeout clitimeout", "use 'timeout client'"),
    (PROXY, "timeout contimeout", "use 'timeout connect'"),
    (PROXY, "timeout srvtimeout", "use 'timeout server'"),
    (PROXY, "redisp", "use 'option redispatch'"),
    (PROXY, "redispatch", "use 'option redispatch'"),
    (PROXY, "monitor-net", "use 'http-request return status 200 if { src ADDRESS }'"),
    (PROXY, "grace", "use 'hard-stop-after' in the global section"),
    (PROXY, "srvtimeout", "use 'timeout server'"),
    (PROXY, "cliexp", "use 'http-request replace-header'"),
    (PROXY, "srvexp", "use 'http-response replace-header'"),
    *((PROXY, name, f"use {instead}") for names, instead in _HEADERS for name in names.split()),
)

KEYWORDS: tuple[Keyword, ...] = (
    *(
        Keyword(name, IN_GLOBAL, None, Support.LATER, feature, negatable=True)
        for name, feature in _GLOBAL_LATER.items()
    ),
    *(
        Keyword(name, sections, None, Support.LATER, feature)
        for sections, name, feature in _PROXY_LATER
    ),
    *(
        Keyword(name, sections, None, Support.REMOVED, instead)
        for sections, name, instead in _REMOVED
    ),
)

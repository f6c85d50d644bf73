"""Names of servers, resolvers sections, templates and `bind` words: only the verdicts are compared."""

from __future__ import annotations

# fmt: off
from tests.differential.case import Case

_RESOLVERS = [
    "nameserver a 127.0.0.1:53", "nameserver a 127.0.0.1:53\n nameserver a 127.0.0.1:54", "nameserver", "nameserver a", "nameserver a tcp@127.0.0.1:53", "nameserver a udp@127.0.0.1:53",
    "nameserver a tcp4@127.0.0.1:53", "nameserver a udp6@[::1]:53", "nameserver a [::1]:53", "nameserver a 127.0.0.1:0x", "nameserver a 127.0.0.1:1-2", "nameserver a% 127.0.0.1:53",
    "hold valid 1s", "hold nx 1s", "hold refused 1s", "hold timeout 1s", "hold other 1s", "hold obsolete 1s", "hold none 1s", "hold valid", "hold", "hold valid x",
    "timeout resolve 1s", "timeout retry 1s", "timeout none 1s", "timeout resolve", "timeout", "timeout resolve x", "resolve_retries 3", "resolve_retries", "accepted_payload_size 512",
    "accepted_payload_size 65536", "accepted_payload_size 5", "accepted_payload_size", "accepted_payload_size 4096", "resolution_pool_size 5", "parse-resolv-conf", "nothing",
]
_SERVERS = [
    "server a 127.0.0.1:80 resolvers r@N@", "server a 127.0.0.1:80 resolvers none", "server a localhost:80 resolvers r@N@", "server a localhost:80 resolvers none", "server a localhost:80 resolvers",
    "server a no.invalid:80", "server a no.invalid:80 resolvers r@N@", "server a no.invalid:80 init-addr none", "server a no.invalid:80 init-addr last", "server a no.invalid:80 init-addr libc",
    "server a no.invalid:80 init-addr libc,none", "server a no.invalid:80 init-addr 127.0.0.1", "server a no.invalid:80 init-addr none,libc", "server a no.invalid:80 init-addr nothing", "server a no.invalid:80 init-addr last,libc,none,127.0.0.1",
    "server a _http._tcp.no.invalid", "server a _http._tcp.no.invalid resolvers r@N@", "server a _http._tcp.no.invalid:80 resolvers r@N@", "server a _http._tcp.no.invalid resolvers r@N@ check", "server a _http._tcp.no.invalid init-addr none",
    "server a 127.0.0.1:80 resolve-prefer ipv4", "server a 127.0.0.1:80 resolve-prefer ipv6", "server a 127.0.0.1:80 resolve-prefer ip", "server a 127.0.0.1:80 resolve-prefer", "server a 127.0.0.1:80 resolve-opts allow-dup-ip",
    "server a 127.0.0.1:80 resolve-opts allow-dup-ip,ignore-weight,prevent-dup-ip", "server a 127.0.0.1:80 resolve-opts nothing", "server a 127.0.0.1:80 resolve-net 10.0.0.0/8", "server a 127.0.0.1:80 resolve-net 10.0.0.0/8,::1/128",
    "server a 127.0.0.1:80 resolve-net 10.0.0.0/33", "server a 127.0.0.1:80 resolve-net x", "server a 127.0.0.1:80 resolve-net 1.0.0.0/8,2.0.0.0/8,3.0.0.0/8,4.0.0.0/8,5.0.0.0/8", "server a 127.0.0.1:80 resolve-net 1.0.0.0/8,2.0.0.0/8,3.0.0.0/8,4.0.0.0/8,5.0.0.0/8,6.0.0.0/8",
    "default-server resolvers r@N@ init-addr none\nserver a no.invalid:80", "default-server init-addr none\nserver a no.invalid:80", "default-server resolve-prefer ipv4 resolve-opts allow-dup-ip\nserver a 127.0.0.1:80",
    "server-template a 3 127.0.0.1:80", "server-template a 1-3 127.0.0.1:80", "server-template a 3-1 127.0.0.1:80", "server-template a 3", "server-template a", "server-template", "server-template a x 127.0.0.1:80", "server-template a -3 127.0.0.1:80",
    "server-template a 2 127.0.0.1:80 check weight 5", "server-template a 2 no.invalid:80 resolvers r@N@ check", "server-template a 2 _http._tcp.no.invalid resolvers r@N@ init-addr none check", "server-template a 2 127.0.0.1:80 nothing",
    "server-template a 2 127.0.0.1:80\nserver-template b 2 127.0.0.1:80", "server-template a 2 no.invalid:80", "server-template a 0-2 127.0.0.1:80", "server-template a 5-5 127.0.0.1:80", "server-template a% 2 127.0.0.1:80",
]
_BINDS = [
    "backlog 10", "maxconn 5", "name x", "id 5", "defer-accept", "interface lo", "v4v6", "v6only", "tfo", "mss 1000", "mss x", "mss 70000", "accept-proxy", "tcp-ut 1s", "tcp-ut x", "transparent",
    "nice 5", "nice 2000", "nice", "thread all", "thread odd", "thread even", "thread 1", "thread 1-2", "thread 1-", "thread 0", "thread 65", "thread x", "thread 1/1", "thread 2/1", "thread", "thread 1,2",
    "process 1", "process all", "process odd", "process 2", "process 1/1", "process 1/odd", "process", "shards 1", "shards 2", "shards 0", "shards 65", "shards x", "shards by-thread", "shards", "namespace none", "nothing",
    "accept-netscaler-cip", "accept-netscaler-cip x", "level admin", "severity-output number", "expose-fd listeners", "expose-fd x", "proto h1", "proto none", "proto x",
]


def _name(kind: str, text: str) -> str:
    return f"{kind}: " + text.replace("\n", "; ")


CASES = [
    *(Case(_name("resolvers", text), sections=f"resolvers r@N@\n {text}\n") for text in _RESOLVERS),
    *(Case(_name("server", text), back=text, sections="resolvers r@N@\n nameserver a 127.0.0.1:53\n") for text in _SERVERS),
    *(Case(_name("bind", text), front=f"bind 127.0.0.1:@N@ {text}".replace(":@N@", ":8@N@")) for text in _BINDS),
    *(Case(_name("switch", text), front=text) for text in (
        "tcp-request content switch-mode http", "tcp-request content switch-mode tcp", "tcp-request content switch-mode", "tcp-request content switch-mode http proto h1", "tcp-request content switch-mode http proto",
        "tcp-request content switch-mode http proto x", "tcp-request content switch-mode http if HTTP", "tcp-request connection switch-mode http", "http-request switch-mode http",
    )),
    *(Case(_name("switch in a backend", text), back=text) for text in ("tcp-request content switch-mode http", "tcp-request content switch-mode http if HTTP")),
]

"""What a stream reads of the configuration, worked out once at load: ticks instead of options.

`FrontConf` and `BackConf` are immutable after their making; each thread has its own. All times are
milliseconds; "none" is FOREVER, which added to a tick never comes.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Self

from mtproxy.base.clock import NEVER
from mtproxy.base.settings import GlobalSettings, ProxySettings
from mtproxy.net.sockets import buffer_options, keepalive_options
from mtproxy.proxy.balance.keys import NEED_VIEW
from mtproxy.stream.headadjust import CaseAdjuster

if TYPE_CHECKING:
    from mtproxy.stream.persistence import Persistence, RdpPersistence

#: a timeout that never expires, still a number that can be added to a tick
FOREVER = 1 << 61
assert FOREVER < NEVER

DEFAULT_BUFSIZE = 16384
DEFAULT_MAXREWRITE = 1024


def own(value: int) -> int:
    """The same number as an object of the calling thread.

    Numbers of the configuration are objects of the main thread; every look at one by another thread
    changes its reference count by an atomic operation, which threads then queue for.
    """
    return int(str(value))


def _ms(*values: int | None) -> int:
    """The first timeout that is set; 0 counts as not set, as in HAProxy."""
    for value in values:
        if value:
            return own(value)
    return FOREVER


def _restriction(proxy: ProxySettings) -> str:
    """What `option http-restrict-req-hdr-names` does: "", "delete" or "reject"."""
    for one in ("delete", "reject"):
        if f"http-restrict-req-hdr-names {one}" in proxy.options:
            return one
    return ""


class _Conf:
    """What both sides can do."""

    __slots__ = ()

    def changed(self, name: str, value: int) -> Self:
        """A copy with one value changed, for a single stream."""
        other = copy.copy(self)
        setattr(other, name, value)
        return other


def _cookie_letters(proxy: ProxySettings) -> str:
    cookie = proxy.cookie
    counts = cookie is not None and bool(cookie.mode or cookie.preserve)
    return "NN" if counts and proxy.kind != "frontend" else "--"


class FrontConf(_Conf):
    """The client side of a stream."""

    __slots__ = (
        "abortonclose",
        "adjust",
        "buffer_request",
        "bufsize",
        "client",
        "client_fin",
        "contstats",
        "cookie_letters",
        "forwardfor",
        "http",
        "http_request",
        "httpclose",
        "idle_close",
        "ignore_probes",
        "independent",
        "keep_alive",
        "log_at_connect",
        "logasap",
        "max_head",
        "monitor_uri",
        "nolinger",
        "notes_source",
        "originalto",
        "restrict",
        "server_close",
        "socket_options",
        "splice",
        "splice_request",
        "splice_response",
        "tarpit",
    )

    def __init__(self, proxy: ProxySettings, global_: GlobalSettings) -> None:
        t = proxy.timeouts
        #: as for a backend, while the proxy of a `listen` section is the only one
        self.cookie_letters = _cookie_letters(proxy)
        # a frontend has no `timeout connect` to fall back to: it answers at once
        fallback = None if proxy.kind == "frontend" else t.connect
        self.tarpit = own(t.tarpit or fallback or 0)
        self.client = _ms(t.client)
        self.client_fin = _ms(t.client_fin, t.client)
        self.http_request = _ms(t.http_request, t.client)
        self.keep_alive = _ms(t.http_keep_alive, t.http_request, t.client)
        self.bufsize = own(int(global_.tune.get("tune.bufsize", DEFAULT_BUFSIZE)))
        self.max_head = self.bufsize - int(global_.tune.get("tune.maxrewrite", DEFAULT_MAXREWRITE))
        options = proxy.options
        self.httpclose = "httpclose" in options
        self.abortonclose = "abortonclose" in options
        self.buffer_request = "http-buffer-request" in options
        self.nolinger = "nolinger" in options
        #: spelling of names for clients that need it
        self.adjust: CaseAdjuster | None = None
        if "h1-case-adjust-bogus-client" in options and global_.h1_case:
            self.adjust = CaseAdjuster(global_.h1_case)
        #: a connection that brings nothing is none that counts
        self.ignore_probes = "http-ignore-probes" in options
        #: what is written is no sign of life of who is read from
        self.independent = "independent-streams" in options
        #: bytes are counted while they flow
        self.contstats = "contstats" in options
        #: at a soft stop idle connections get one more answer
        self.idle_close = "idle-close-on-response" in options
        #: connections to servers serve one request only
        self.server_close = bool(options & {"httpclose", "http-server-close"})
        self.restrict = _restriction(proxy)
        #: what every accepted connection is set to
        self.socket_options = buffer_options(
            int(global_.tune.get("tune.rcvbuf.client", 0)),
            int(global_.tune.get("tune.sndbuf.client", 0)),
        )
        if "clitcpka" in options:
            self.socket_options += keepalive_options(
                proxy.clitcpka_cnt, proxy.clitcpka_idle, proxy.clitcpka_intvl
            )
        #: bulk data may be moved inside the kernel (-dS turns it off)
        self.splice = "nosplice" not in global_.disabled_features
        #: splice bodies from their first byte on; see stream.pump
        self.splice_request = "splice-request" in options
        self.splice_response = "splice-response" in options
        self.logasap = "logasap" in options
        #: a TCP session is logged when its server has taken the connection: the usual line without
        #: an option for logs, "Connect from ...", has nothing to wait for (manual 8.2.1)
        self.log_at_connect = proxy.mode == "tcp" and (self.logasap or not proxy.log_format)
        #: the log shows the address of the server connection, which may be closed by then
        self.notes_source = any(
            getattr(piece, "name", "") in ("bi", "bp")
            for fmt in proxy.rules.formats.values()
            for piece in fmt.pieces
        )
        self.forwardfor = proxy.forwardfor
        self.originalto = proxy.originalto
        self.monitor_uri = proxy.monitor_uri


#: words of `retry-on` that make up for an idle connection which ends when it is used
_REUSE_IS_SAFE = frozenset({"conn-failure", "empty-response", "response-timeout"})


class BackConf(_Conf):
    """The server side of a stream."""

    __slots__ = (
        "abortonclose",
        "adjust",
        "buffer_request",
        "checkcache",
        "close_server",
        "connect",
        "cookie_letters",
        "forwardfor",
        "http",
        "http_request",
        "independent",
        "kept_queue",
        "leaves_queue",
        "name_header",
        "needs_view",
        "originalto",
        "persistence",
        "prefer_last",
        "pretend_keepalive",
        "queue",
        "rdp",
        "redirects",
        "redispatch",
        "restrict",
        "retries",
        "retries_connections",
        "retry_on",
        "reuse_first",
        "reuse_never",
        "reuse_private",
        "reuse_unproven",
        "server",
        "server_fin",
        "socket_options",
        "splice_request",
        "splice_response",
        "tarpit",
        "tunnel",
    )

    def __init__(self, proxy: ProxySettings, global_: GlobalSettings) -> None:
        #: what the log says of cookies as long as nobody has looked for one
        self.cookie_letters = _cookie_letters(proxy)
        t = proxy.timeouts
        self.server = _ms(t.server)
        self.server_fin = _ms(t.server_fin, t.server)
        self.connect = _ms(t.connect)
        #: how long a request waits for a slot of a server
        self.queue = _ms(t.queue, t.connect)
        #: how long `option http-buffer-request` waits for the body
        self.http_request = _ms(t.http_request, t.client)
        self.tunnel = _ms(t.tunnel) if t.tunnel else 0
        self.tarpit = own(t.tarpit or t.connect or 0)
        options = proxy.options
        #: the server connection serves one request only
        self.close_server = bool(options & {"httpclose", "http-server-close"})
        self.abortonclose = "abortonclose" in options
        self.buffer_request = "http-buffer-request" in options
        #: spelling of names for servers that need it
        self.adjust: CaseAdjuster | None = None
        if "h1-case-adjust-bogus-server" in options and global_.h1_case:
            self.adjust = CaseAdjuster(global_.h1_case)
        #: a response that caches might keep must not set cookies
        self.checkcache = "checkcache" in options
        self.independent = "independent-streams" in options
        #: a server that closes is not told so
        self.pretend_keepalive = "http-pretend-keepalive" in options
        #: a client goes on with the server whose connection it alone has
        self.prefer_last = "prefer-last-server" in options
        #: ... as long as fewer wait for that server (`max-keep-alive-queue`); 0: however many
        self.kept_queue = own(proxy.max_kept_queue)
        self.restrict = _restriction(proxy)
        #: 0: never, N: every N-th retry, -N: counted from the last one (-1), see stream.connect
        self.redispatch = proxy.redispatch
        #: who waits for a server that goes down is balanced anew
        self.leaves_queue = bool(proxy.redispatch) and "persist" not in options
        self.retries = proxy.retries
        self.retries_connections = "conn-failure" in proxy.retry_on
        #: why a request is sent again, in the words of `retry-on`; empty: never
        self.retry_on = proxy.retry_on - {"conn-failure", "0rtt-rejected"}
        reuse = proxy.http_reuse
        #: a server connection serves one client only
        self.reuse_never = reuse == "never" or proxy.direct is not None
        #: ... or those to some servers do, as they begin with a PROXY header about the client
        self.reuse_private = self.reuse_never or any(
            server.send_proxy is not None for server in proxy.servers
        )
        #: a client's first request may use an idle connection ("aggressive", "always") ...
        self.reuse_first = reuse in ("aggressive", "always")
        #: ... even one that was never reused before; a request that is sent again when that fails
        #: may take any, whatever the mode
        self.reuse_unproven = reuse == "always" or proxy.retry_on >= _REUSE_IS_SAFE
        self.reuse_first = self.reuse_first or self.reuse_unproven
        #: what every connection to a server is set to
        self.socket_options = buffer_options(
            int(global_.tune.get("tune.rcvbuf.server", 0)),
            int(global_.tune.get("tune.sndbuf.server", 0)),
        )
        if "srvtcpka" in options:
            self.socket_options += keepalive_options(
                proxy.srvtcpka_cnt, proxy.srvtcpka_idle, proxy.srvtcpka_intvl
            )
        self.splice_request = "splice-request" in options
        self.splice_response = "splice-response" in options
        self.forwardfor = proxy.forwardfor
        self.originalto = proxy.originalto
        #: what chooses a server before the algorithm does; set by boot where there is anything
        self.persistence: Persistence | None = None
        #: tells the server its name; None: none does
        self.name_header = proxy.name_header or None
        #: a server that some requests are sent away from
        self.redirects = any(server.redir for server in proxy.servers)
        #: the same of RDP in mode tcp
        self.rdp: RdpPersistence | None = None
        #: the algorithm, or what comes before it, looks at what rules look at
        self.needs_view = proxy.balance in NEED_VIEW or proxy.rdp_cookie is not None
        self.http = proxy.mode == "http"

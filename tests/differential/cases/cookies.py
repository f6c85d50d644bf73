"""Cookie persistence: the backend's keyword `cookie` (manual 4.2)."""

from __future__ import annotations

# fmt: off
from tests.differential.case import Case, answer, request, rules

_SERVERS = "server s1 @ORIGIN@ cookie c1\nserver s2 @ORIGIN@ cookie c2\nserver s3 @ORIGIN@\n"
_REQUESTS = {
    "none": (), "c1": ("cookie: SRV=c1",), "c2": ("cookie: SRV=c2",), "unknown": ("cookie: SRV=zz",), "beside others": ("cookie: a=1; SRV=c2; b=2",),
    "twice": ("cookie: SRV=c2; SRV=c1",), "empty": ("cookie: SRV=",), "two headers": ("cookie: a=1", "cookie: SRV=c2"), "prefixed": ("cookie: SRV=c2~orig",),
    "first of some": ("cookie: SRV=c1; z=1",), "other case": ("cookie: srv=c2",), "an open quote": ('cookie: SRV="c2;a=1',), "a quoted separator": ('cookie: a="x;SRV=c1"; SRV=c2',), "beside an empty header": ("cookie: ", "cookie: SRV=c2"),
}
_KINDS = {
    "insert": "cookie SRV insert", "insert indirect": "cookie SRV insert indirect", "insert indirect nocache": "cookie SRV insert indirect nocache",
    "insert postonly": "cookie SRV insert postonly", "insert preserve": "cookie SRV insert preserve", "insert httponly secure": "cookie SRV insert httponly secure",
    "insert domain": "cookie SRV insert domain .example.com", "insert two domains": "cookie SRV insert domain .a.com domain .b.com",
    "insert attr": "cookie SRV insert attr \"SameSite=Strict\"", "prefix": "cookie SRV prefix", "prefix nocache": "cookie SRV prefix nocache", "rewrite": "cookie SRV rewrite",
    "none": "cookie SRV", "insert maxidle": "cookie SRV insert maxidle 1h", "insert maxlife": "cookie SRV insert maxlife 2h",
    "insert both": "cookie SRV insert indirect maxidle 1h maxlife 2h nocache",
}
_HIDE = (r"(?<=SRV=c[12]\|)[A-Za-z0-9+/|]+",)


def _case(kind: str, line: str, what: str, headers: tuple[str, ...], reply: bytes) -> Case:
    return rules(
        f"{kind}: {what}", "option httplog\ncapture cookie SRV len 20", request("/", *headers), hide=_HIDE, answers=(reply,),
        back=f"{line}\n{_SERVERS}http-response set-header x-srv %[srv_name]",
    )


CASES = [
    *(_case(kind, line, what, headers, answer()) for kind, line in _KINDS.items() for what, headers in _REQUESTS.items()),
    *(_case(kind, _KINDS[kind], f"the server sets it, {what}", _REQUESTS[what], answer("set-cookie: SRV=own; path=/", "set-cookie: o=1"))
      for kind in ("insert", "insert indirect", "insert preserve", "prefix", "rewrite", "none") for what in ("none", "c2", "unknown")),
    rules("dynamic cookie", "", request("/"), request("/"), back="dynamic-cookie-key k1\ncookie SRV insert dynamic\nserver s1 @ORIGIN@\n",
          hide=(r"(?<=SRV=)[0-9a-f]{16}",)),
    rules("post only", "", request(method="POST", body="a"), request("/"), back=f"cookie SRV insert postonly\n{_SERVERS}"),
    rules("a disabled server's cookie", "", request("/", "cookie: SRV=c2"), back="cookie SRV insert\nserver s1 @ORIGIN@ cookie c1\nserver s2 @ORIGIN@ cookie c2 disabled\n"),
    rules("a disabled server's cookie with persist", "", request("/", "cookie: SRV=c2"),
          back="option persist\ncookie SRV insert\nserver s1 @ORIGIN@ cookie c1\nserver s2 127.0.0.1:1 cookie c2 disabled\n"),
    rules("redispatch", "", request("/", "cookie: SRV=c2"), back="option redispatch\nretries 1\ncookie SRV insert\nserver s1 @ORIGIN@ cookie c1\nserver s2 127.0.0.1:1 cookie c2\n"),
    rules("ignore-persist", "", request("/i", "cookie: SRV=c2"), request("/n", "cookie: SRV=c2"),
          back=f"ignore-persist if {{ path /i }}\ncookie SRV insert\n{_SERVERS}http-response set-header x-srv %[srv_name]"),
    rules("force-persist", "", request("/f", "cookie: SRV=c2"), request("/n", "cookie: SRV=c2"),
          back="force-persist if { path /f }\ncookie SRV insert\nserver s1 @ORIGIN@ cookie c1\nserver s2 @ORIGIN@ cookie c2 disabled\nhttp-response set-header x-srv %[srv_name]"),
    rules("backup server's cookie", "", request("/", "cookie: SRV=c2"), request("/"),
          back="cookie SRV insert\nserver s1 @ORIGIN@ cookie c1\nserver s2 @ORIGIN@ cookie c2 backup\nhttp-response set-header x-srv %[srv_name]"),
    rules("cookie of a redirecting server", "", request("/x"), back="cookie SRV insert\nserver s1 @ORIGIN@ cookie c1 redir http://r.example\n"),
    rules("nocache and a cacheable answer", "", request("/"), back=f"cookie SRV insert nocache\n{_SERVERS}", answers=(answer("cache-control: public"),)),
    rules("checkcache", "", request("/"), back="option checkcache\n" + _SERVERS, answers=(answer("set-cookie: a=1", "cache-control: public"),)),
    rules("checkcache no-cache", "", request("/"), back="option checkcache\n" + _SERVERS, answers=(answer("set-cookie: a=1", "cache-control: no-cache"),)),
    *(rules(f"{what}, behind a cookie", "", request("/x"), request("/x", "cookie: S=c1"), request("/x", "cookie: S=none; b=c"), back=f"cookie S insert\nserver s1 @ORIGIN@ cookie c1\nserver s2 @ORIGIN@ cookie c2\n{line}")
      for what, line in {
          "deny": "http-request deny", "tarpit": "timeout tarpit 50ms\nhttp-request tarpit", "redirect": "redirect location /y", "return": "http-request return status 200",
          "auth": "http-request auth", "reject": "http-request reject"}.items()),
    *(rules(f"deny, behind a cookie {mode}", "", request("/x", "cookie: S=c1"), back=f"cookie S {mode}\nserver s1 @ORIGIN@ cookie c1\nhttp-request deny") for mode in ("rewrite", "prefix", "insert preserve", "")),
]

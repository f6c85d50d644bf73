"""The statistics page: who is answered, forms, access rules, redirects (manual 4.2, `stats`).

Bodies differ by design and by time: what is compared are heads (HEAD, POST) and refusals.
"""

from __future__ import annotations

# fmt: off
from tests.differential.case import Case, request

_PAGE = "stats enable\nstats uri /stats"
_ADMIN = _PAGE + "\nstats admin if TRUE"
_AUTH = "Authorization: Basic "


def head(target: str, *headers: str) -> bytes:
    return request(target, *headers, method="HEAD")


def form(text: str, target: str = "/stats", *headers: str) -> bytes:
    return request(target, *headers, method="POST", body=text)


_TYPES = [head(f"/stats{one}") for one in (";csv", ";json", ";typed", ";json-schema", ";csv;json", ";json;csv", ";typed;csv", ";CSV;csv")]
_FORMS = [
    "", "s=s1", "action=ready", "b=@B@", "s=s1&action=ready&b=@B@", "b=@B@&action=ready&s=s1", "s=none&action=ready&b=@B@", "s=s1&s=none&action=ready&b=@B@",
    "s=s1&action=none&b=@B@", "s=s1&action=ready&b=none", "s=s1&action=&b=@B@", "s=&action=ready&b=@B@", "s=%73%31&action=ready&b=@B@", "s=s1&action=dagent&b=@B@", "s=s1&action=dhlth&b=@B@",
    "s=s1&action=enable&b=@B@", "s=s1&action=start&b=@B@", "&&&", "=", "s=s1&action=ready&b=@B@&", "x=y&s=s1&action=ready&b=@B@", "s=s1&action=arunn&b=@B@",
]

CASES = [
    Case("types of content", _PAGE, requests=tuple(_TYPES)),
    Case("refresh", _PAGE + "\nstats refresh 5s", requests=(head("/stats"), head("/stats;norefresh"), head("/stats;csv"), head("/stats;csv;norefresh"))),
    Case("default uri", "stats enable", requests=(head("/haproxy?stats;csv"), head("/haproxy"), head("/stats;csv"))),
    Case("a prefix", _PAGE, requests=(head("/statsX;csv"), head("/stat"), head("/x/stats"), head("/stats?x;csv"))),
    Case("absolute targets", _PAGE, requests=(head("http://h/stats;csv"), head("http://h/x"))),
    Case("an absolute prefix", "stats uri http://h/s", requests=(head("http://h/s;csv"), head("/s;csv"))),
    Case("other methods", _PAGE, requests=tuple(request("/stats", method=one) for one in ("PUT", "DELETE", "OPTIONS", "PATCH"))),
    Case("of a backend", back=_PAGE, requests=(head("/stats;csv"), head("/other"))),
    Case("of both sides", _PAGE + "\nstats refresh 3s", _PAGE + "\nstats refresh 9s", requests=(head("/stats;csv"),)),
    Case("denied by http-request", _PAGE + "\nhttp-request deny if { path /stats/no }", requests=(head("/stats/no"), head("/stats/yes;csv"))),
    Case("before redirect", "redirect location /x\n" + _PAGE, requests=(head("/stats;csv"), head("/other"))),
    Case("behind http-request redirect", "http-request redirect location /x if { path /stats/r }\n" + _PAGE, requests=(head("/stats/r"), head("/stats;csv"))),
    Case("behind allow", "http-request allow\nhttp-request deny\n" + _PAGE, requests=(head("/stats;csv"),)),
    Case("after-response rules", _PAGE + "\nhttp-after-response set-header x-a b\nhttp-after-response del-header cache-control", requests=(head("/stats;csv"), form("", "/stats"))),
    Case("no admin", _PAGE, requests=(form("s=s1&action=ready&b=@B@"),)),
    Case("no admin for this one", _PAGE + "\nstats admin if { path /stats/admin }", requests=(form("s=s1&action=ready&b=@B@"), form("", "/stats/admin"))),
    Case("one of two admin rules", _PAGE + "\nstats admin if FALSE\nstats admin unless FALSE", requests=(form(""),)),
    Case("state and filters of a form stay", _ADMIN, requests=(form("", "/stats;up"), form("", "/stats;norefresh"), form("", "/stats;up?scope=abc"), form("", "/stats;st=DONE"), form("", "/stats?scope=a%3Cb"), form("", "/stats?scope=" + "x" * 30))),
    Case("norefresh of a form", _ADMIN + "\nstats refresh 5s", requests=(form("", "/stats;norefresh"),)),
    *(Case(f"form {text}", _ADMIN, requests=(form(text),)) for text in _FORMS),
    Case("a chunked form", _ADMIN, requests=(request("/stats", "transfer-encoding: chunked", method="POST") + b"5\r\ns=s1&\r\n0\r\n\r\n",)),
    Case("accounts", "stats uri /stats\nstats auth u:p\nstats auth v:q", requests=(
        head("/stats;csv"), head("/stats;csv", _AUTH + "dTpw"), head("/stats;csv", _AUTH + "djpx"), head("/stats;csv", _AUTH + "dTpx"), head("/stats;csv", _AUTH + "dQ=="), head("/x"))),
    Case("an account without a password", "stats uri /stats\nstats auth u", requests=(head("/stats;csv"), head("/stats;csv", _AUTH + "dTo="))),
    Case("a realm", "stats uri /stats\nstats realm 'a b'\nstats auth u:p", requests=(head("/stats;csv"),)),
    Case("a realm alone", "stats uri /stats\nstats realm x", requests=(head("/stats;csv"),)),
    Case("access rules", back="stats uri /stats\nstats http-request deny if { hdr(x) no }\nstats http-request allow if { hdr(x) yes }\nstats http-request auth", requests=(
        head("/stats;csv", "x: no"), head("/stats;csv", "x: yes"), head("/stats;csv"))),
    Case("access by realm", back="stats uri /stats\nstats http-request auth realm here unless { hdr(x) yes }", requests=(head("/stats;csv"), head("/stats;csv", "x: yes"))),
    Case("the exporter", "http-request use-service prometheus-exporter if { path /m }", requests=(request("/m?scope"), request("/m?scope=none"), request("/m?scope=a=b"), request("/m?scope=", version="HTTP/1.1"))),
    Case("the exporter in a backend", back="http-request use-service prometheus-exporter if { path /m }", requests=(request("/m?scope"),)),
]

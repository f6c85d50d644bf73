"""Maps and ACL files: converters map_*, rules that change them, the runtime socket (7.3.1, 9.3)."""

from __future__ import annotations

# fmt: off
from tests.differential.case import Case, expr, request, rules

_FILES = {
    "str.map": "# comment\n/a/b one\n/c   two words \n\n/only\n/dup first\n/dup second\n/num 42\n",
    "beg.map": "/ root\n/a a\n/a/b ab\n/a/b/c abc\n",
    "end.map": ".png image\n.tar.gz tgz\n.gz gz\n",
    "sub.map": "mid middle\nidd other\n",
    "dir.map": "img images\na/b ab\n",
    "dom.map": "example.com ex\nwww www\n",
    "reg.map": "^/a/(.*)$ got-\\1\n^/c(.)(.) \\2-\\1-\\0\n.* any\n",
    "int.map": "1 one\n10:20 range\n42 answer\n:0 negative\n",
    "ip.map": "10.0.0.0/8 ten\n10.1.0.0/16 ten-one\n10.1.2.3 exact\n2001:db8::/32 doc\n0.0.0.0/0 all\n",
    "ips.map": "/x 1.2.3.4\n/y 2001:db8::1\n",
    "acl.lst": "/a/b\n/z\n",
}

_LOOKUPS = [
    ("map(@DIR@/str.map)", ["/a/b", "/c", "/only", "/dup", "/A/B", "/none"]),
    ("map(@DIR@/str.map,dflt)", ["/a/b", "/none", "/only"]),
    ("map_str(@DIR@/str.map)", ["/a/b", "/none"]),
    ("map_str_int(@DIR@/num.map)", ["/num"]),
    ("map_beg(@DIR@/beg.map)", ["/", "/a", "/a/b/c/d", "/ab", "/x"]),
    ("map_end(@DIR@/end.map)", ["/x.png", "/x.tar.gz", "/x.gz", "/png"]),
    ("map_sub(@DIR@/sub.map,no)", ["/amid", "/aidd", "/x"]),
    ("map_dir(@DIR@/dir.map)", ["/img/x", "/x/a/b", "/imgs"]),
    ("map_dom(@DIR@/dom.map)", ["/www.example.com/", "/x"]),
    ("map_reg(@DIR@/reg.map)", ["/a/b", "/cXY", "/zzz"]),
    ("map_regm(@DIR@/reg.map)", ["/a/b", "/cXY", "/zzz"]),
    ("map_str_ip(@DIR@/ips.map)", ["/x"]),
    ("lower,map(@DIR@/str.map)", ["/A/B"]),
    ("map(@DIR@/str.map),upper", ["/a/b"]),
    ("map(@DIR@/str.map),map(@DIR@/two.map,x)", ["/a/b"]),
]
_INTEGERS = [1, 5, 10, 15, 20, 21, 42, 0, -4]
_ADDRESSES = ["10.1.2.3", "10.1.9.9", "10.9.9.9", "11.0.0.1", "2001:db8::5", "2001:db9::5", "::ffff:10.1.2.3", "text"]
_MORE = {"num.map": "/num 42\n", "two.map": "one 1\n"}

_SHOW = "http-request return status 200 content-type text/plain lf-string"


def _lookup(converter: str, target: str) -> Case:
    return expr(
        f"path,{converter}", request(target), name=f"{converter} of {target}", files=_FILES | _MORE
    )


CASES = [
    *(_lookup(converter, target) for converter, targets in _LOOKUPS for target in targets),
    *(expr(f"int({n}),map_int(@DIR@/int.map,none)", files=_FILES, name=f"map_int of {n}") for n in _INTEGERS),
    *(expr(f"int({n}),map_int_int(@DIR@/ii.map,7)", files={"ii.map": "1 100\n2 200\n"}, name=f"map_int_int of {n}") for n in (1, 2, 3)),
    *(expr("req.hdr(x-ip),map_ip(@DIR@/ip.map,none)", request("/", f"x-ip: {a}"), files=_FILES, name=f"map_ip of {a}") for a in _ADDRESSES),
    *(expr("src,map_ip(@DIR@/ip.map)", files=_FILES, name="map_ip of the source") for _ in range(1)),
    expr("path,map_str_int(@DIR@/num.map),add(1)", request("/num"), files=_MORE, name="map_str_int and more"),
    rules("use_backend by a map", "use_backend %[path,map_beg(@DIR@/be.map,@B@)]", request("/x/1"), request("/none"),
          files={"be.map": "/x @B@x\n"}, sections="backend @B@x\n server s @ORIGIN@\n http-request set-header x-be x\n"),
    rules("set-map", f"http-request set-map(@DIR@/str.map) %[urlp(k)] %[urlp(v)] if {{ urlp(k) -m found }}\n{_SHOW} '[%[path,map(@DIR@/str.map)]]'",
          request("/new"), request("/new?k=/new&v=val"), request("/new"), request("/a/b?k=/a/b&v=changed"), request("/a/b"), files=_FILES),
    rules("del-map", f"http-request del-map(@DIR@/str.map) %[path] if {{ urlp(d) -m found }}\n{_SHOW} '[%[path,map(@DIR@/str.map)]]'",
          request("/a/b"), request("/a/b?d=1"), request("/a/b"), files=_FILES),
    rules("add-acl", f"http-request add-acl(@DIR@/acl.lst) %[path] if {{ urlp(add) -m found }}\n{_SHOW} yes if {{ path -f @DIR@/acl.lst }}\n{_SHOW} no",
          request("/n"), request("/n?add=1"), request("/n"), request("/z"), files=_FILES),
    rules("del-acl", f"http-request del-acl(@DIR@/acl.lst) %[path] if {{ urlp(del) -m found }}\n{_SHOW} yes if {{ path -f @DIR@/acl.lst }}\n{_SHOW} no",
          request("/z"), request("/z?del=1"), request("/z"), files=_FILES),
    rules("set-map of the response", "http-response set-map(@DIR@/str.map) %[status] seen\nhttp-response set-header x-m '[%[status,map(@DIR@/str.map)]]'",
          request("/"), request("/"), files=_FILES),
    rules("a map of two users", f"{_SHOW} '%[path,map(@DIR@/str.map,-)] %[url,map(@DIR@/str.map,-)]'", request("/a/b"), files=_FILES),
    rules("a map and an ACL of one file", f"{_SHOW} '%[path,map(@DIR@/str.map,-)]' if {{ path -M -f @DIR@/str.map }}\n{_SHOW} no",
          request("/a/b"), request("/q"), files=_FILES),
    rules("runtime: show, add, set, del", f"{_SHOW} '[%[path,map(@DIR@/str.map)]]'", request("/a/b"), request("/a/b"), request("/added"), files=_FILES,
          commands=("show map @DIR@/str.map", "get map @DIR@/str.map /a/b", "set map @DIR@/str.map /a/b other", "add map @DIR@/str.map /added yes",
                    "del map @DIR@/str.map /c", "show map @DIR@/str.map", "get map @DIR@/str.map /none"),
          hide=(r"#\d+",)),
    rules("runtime: clear", f"{_SHOW} '[%[path,map(@DIR@/str.map)]]'", request("/a/b"), request("/a/b"), files=_FILES,
          commands=("clear map @DIR@/str.map", "show map @DIR@/str.map")),
    rules("runtime: errors", f"{_SHOW} '[%[path,map(@DIR@/str.map)]]'", request("/a/b"), files=_FILES,
          commands=("show map @DIR@/none.map", "set map @DIR@/str.map /none x", "del map @DIR@/str.map /none", "add map @DIR@/str.map /onlykey",
                    "get map @DIR@/none.map x", "clear map", "set map @DIR@/str.map", "show map #999999")),
    rules("runtime: prepare and commit", f"{_SHOW} '[%[path,map(@DIR@/str.map)]]'", request("/a/b"), request("/a/b"), request("/v2"), files=_FILES,
          commands=("prepare map @DIR@/str.map", "add map @1 @DIR@/str.map /v2 two", "show map @1 @DIR@/str.map", "show map @DIR@/dup",
                    "commit map @1 @DIR@/str.map", "show map @DIR@/str.map")),
    rules("runtime: acl", f"{_SHOW} yes if {{ path -f @DIR@/acl.lst }}\n{_SHOW} no", request("/n"), request("/n"), request("/z"), files=_FILES,
          commands=("show acl @DIR@/acl.lst", "add acl @DIR@/acl.lst /n", "del acl @DIR@/acl.lst /z", "get acl @DIR@/acl.lst /a/b",
                    "get acl @DIR@/acl.lst /q", "show acl @DIR@/acl.lst")),
    rules("runtime: acl prepare", f"{_SHOW} yes if {{ path -f @DIR@/acl.lst }}\n{_SHOW} no", request("/n"), request("/n"), request("/z"), files=_FILES,
          commands=("prepare acl @DIR@/acl.lst", "add acl @1 @DIR@/acl.lst /n", "commit acl @1 @DIR@/acl.lst", "show acl @DIR@/acl.lst",
                    "clear acl @DIR@/acl.lst", "show acl @DIR@/acl.lst")),
    rules("runtime: reg map", f"{_SHOW} '[%[path,map_reg(@DIR@/reg.map)]]'", request("/zzz"), request("/new"), files=_FILES,
          commands=("show map @DIR@/reg.map", "add map @DIR@/reg.map ^/n first", "del map @DIR@/reg.map .*", "show map @DIR@/reg.map")),
    rules("runtime: ip map", f"{_SHOW} '[%[src,map_ip(@DIR@/ip.map)]]'", request("/"), request("/"), files=_FILES,
          commands=("add map @DIR@/ip.map 127.0.0.0/8 local", "show map @DIR@/ip.map", "get map @DIR@/ip.map 10.1.2.3", "get map @DIR@/ip.map 127.0.0.1")),
]

"""ACLs and conditions: the manual's sections 7.1 and 7.2."""

from __future__ import annotations

# fmt: off
from tests.differential.case import Case, holds, request, rules

_R = request(
    "/images/png/logo.png?x=12&y=abc", "host: www1.dc-eu.Example.com:80", "x-ip: 10.1.2.3", "x-ip6: 2001:db8::7",
    "x-num: 42", "x-neg: -5", "x-text: Hello World", "x-list: one, two", "x-empty:", "cookie: a=1; s=tok",
    "x-mapped: ::ffff:10.1.2.3", "x-6to4: 2002:a01:203::", "x-bad: zz",
)

_CONDITIONS = [
    "{ path /images/png/logo.png }", "{ path /images }", "{ path -i /IMAGES/png/LOGO.png }", "{ path_beg /images }",
    "{ path_beg -i /IMAGES }", "{ path_beg /x /images }", "{ path_end .png .gif }", "{ path_end .PNG }",
    "{ path_end -i .PNG }", "{ path_sub png/lo }", "{ path_dir png }", "{ path_dir images/png }", "{ path_dir pn }",
    "{ path_dir /images }", "{ path_dir logo.png }", "{ path_dom png }", "{ path_len 20 }", "{ path_len gt 10 }",
    "{ path_len 5:30 }", "{ path_reg ^/images/.*[.]png$ }", "{ path_reg -i ^/IMAGES }", "{ path -m beg /im }",
    "{ path -m end png }", "{ path -m sub es/p }", "{ path -m dir png/logo.png }", "{ path -m dom logo }",
    "{ path -m reg png }", "{ path -m len 20 }", "{ path -m len lt 20 }", "{ path -m found }", "{ path -m str /x }",
    "{ hdr(host) www1.dc-eu.Example.com:80 }", "{ hdr(host) -i www1.dc-eu.example.com:80 }", "{ hdr_beg(host) www }",
    "{ hdr_dom(host) dc-eu }", "{ hdr_dom(host) -i example.com }", "{ hdr_dom(host) 80 }", "{ hdr_dom(host) eu }",
    "{ hdr_dom(host) .www1 }", "{ hdr_dom(host) dc-eu.Example }", "{ hdr_end(host) :80 }", "{ hdr_sub(host) -i EXAMPLE }",
    "{ hdr_reg(host) ^www[0-9] }", "{ hdr_len(host) 25 }", "{ hdr_dir(x-text) Hello }", "{ hdr_cnt(x-list) 2 }",
    "{ hdr_cnt(x-list) gt 2 }", "{ hdr_cnt(x-none) 0 }", "{ hdr(x-list) two }", "{ hdr(x-list) one }",
    "{ req.hdr(x-list,1) one }", "{ req.fhdr(x-list) 'one, two' }", "{ hdr(x-empty) -m found }",
    "{ hdr(x-none) -m found }", "{ hdr(x-empty) -m str -- '' }", "{ hdr(x-empty) -m len 0 }", "{ hdr(x-none) -m len 0 }",
    "{ hdr_val(x-num) 42 }", "{ hdr_val(x-num) gt 41 }", "{ hdr_val(x-num) ge 42 }", "{ hdr_val(x-num) lt 42 }",
    "{ hdr_val(x-num) le 42 }", "{ hdr_val(x-num) eq 42 }", "{ hdr_val(x-num) 1:50 }", "{ hdr_val(x-num) :50 }",
    "{ hdr_val(x-num) 50: }", "{ hdr_val(x-num) 1 2 42 }", "{ hdr_val(x-neg) lt 0 }", "{ hdr_val(x-neg) -5 }",
    "{ hdr_val(x-neg) -- -10:-1 }", "{ hdr_val(x-num) gt 100 lt 50 }", "{ hdr_val(x-bad) 0 }", "{ hdr(x-num) -m int 42 }",
    "{ hdr(x-num) -m int gt 5 }", "{ hdr(x-text) -m int 0 }", "{ hdr_ip(x-ip) 10.0.0.0/8 }", "{ hdr_ip(x-ip) 10.1.2.3 }",
    "{ hdr_ip(x-ip) 11.0.0.0/8 10.1.0.0/16 }", "{ hdr_ip(x-ip) 10.1.2.0/255.255.255.0 }", "{ hdr_ip(x-ip) 10.1/16 }",
    "{ hdr_ip(x-ip6) 2001:db8::/32 }", "{ hdr_ip(x-ip6) 2001:db8::7 }", "{ hdr_ip(x-ip6) 2001:db9::/32 }",
    "{ hdr_ip(x-ip6) 10.0.0.0/8 }", "{ hdr_ip(x-mapped) 10.0.0.0/8 }", "{ hdr_ip(x-6to4) 10.0.0.0/8 }",
    "{ hdr_ip(x-ip) ::ffff:10.1.2.3 }", "{ hdr_ip(x-ip) ::ffff:10.0.0.0/104 }", "{ hdr(x-ip) -m ip 10.0.0.0/8 }",
    "{ hdr(x-bad) -m ip 10.0.0.0/8 }", "{ hdr_ip(x-none) 0.0.0.0/0 }", "{ src 127.0.0.1 }", "{ src 127.0.0.0/8 }",
    "{ src 10.0.0.0/8 }", "{ src -n 127.0.0.1 }", "{ src ::1 }", "{ dst 127.0.0.1 }", "{ src_port gt 1 }", "{ dst_port lt 1 }",
    "{ method GET }", "{ method POST GET }", "{ method POST }", "{ method -i get }", "{ method -m str GET }", "{ method get }",
    "{ method -m reg ^G }", "{ req.cook(s) tok }", "{ cook_cnt(s) 1 }", "{ cook(s) -m beg to }", "{ cook_beg(s) to }",
    "{ cook(none) -m found }", "{ urlp(x) 12 }", "{ urlp_val(x) gt 11 }", "{ urlp_sub(y) b }", "{ urlp(x) -m int 12 }",
    "{ url_beg /images }", "{ url_end y=abc }", "{ url_dom png }", "{ url_reg x=[0-9]+ }", "{ url_len gt 4 }",
    "{ base_dom Example }", "{ base_beg www1 }", "{ base -m sub dc-eu }", "{ always_true }", "{ always_false }",
    "{ int(5) 5 }", "{ int(5) -m bool }", "{ int(0) -m bool }", "{ bool(1) -m int 1 }", "{ str(abc) abc }",
    "{ str(abc) -m beg a -m end c }", "{ str(abc) -m bin 616263 }", "{ bin(616263) -m bin 616263 }",
    "{ bin(616263) -m str abc }", "{ bin(616263) -m sub b }", "{ str(abc),length 3 }", "{ str(abc),upper ABC }",
    "{ hdr(host),lower -m beg www1.dc }", "{ hdr_beg(host),lower www1.dc-eu.example.com:80 }",
    "{ hdr(x-text),field(1,' ') Hello }", "{ str(-i) -- -i }", "{ str(a) -m str -- a }", "{ path,length gt 3 }",
    "{ hdr(x-text) 'Hello World' }", "{ hdr(x-text) Hello\\ World }", "{ hdr_sub(x-text) 'o W' }", "{ req.ver 1.1 }",
    "{ req_ver 1.0 }", "{ nbsrv(@B@) ge 1 }", "{ be_conn(@B@) eq 0 }", "{ var(txn.none) -m found }", "{ var(txn.none) -m str a }",
    "{ str(1.5) -m int 1 }", "{ query -m sub abc }", "{ wait_end }", "{ str() -m found }", "{ str() -m len 0 }", "{ hdr(x-num) -m bool }",
    "{ str(aXb) -m reg a[xX]b }", "{ str(abc) -m reg ^a.c$ ^z }", "{ str(a.b) -m reg a\\.b }", "{ str(ab) -m reg (a)(b) }",
    "METH_GET", "METH_POST", "METH_HEAD", "HTTP_1.1", "HTTP_1.0", "HTTP", "HTTP_CONTENT", "HTTP_URL_ABS", "HTTP_URL_SLASH",
    "HTTP_URL_STAR", "LOCALHOST", "TRUE", "FALSE", "!FALSE", "WAIT_END", "METH_GET METH_POST", "METH_GET or METH_POST",
    "METH_POST || METH_GET", "!METH_POST METH_GET", "METH_POST or !METH_POST", "FALSE TRUE or TRUE FALSE",
    "FALSE or TRUE TRUE", "{ int(1) 1 } { int(2) 2 }", "{ int(1) 2 } || { int(2) 2 }", "!{ int(1) 2 }", "! { int(1) 2 }",
    "!{ int(1) 1 } or !{ int(2) 3 } TRUE", "RDP_COOKIE",
]

_NAMED = {
    "two lines of one name": ("acl a path /x\nacl a path_beg /images", "a"),
    "neither of two": ("acl a path /x\nacl a path /y", "a"),
    "and of names": ("acl a path_beg /images\nacl b method GET", "a b"),
    "not of names": ("acl a path_beg /images\nacl b method POST", "a !b"),
    "or of names": ("acl a path /x\nacl b method GET", "a or b"),
    "names with signs": ("acl my-acl.1:x_Y method GET", "my-acl.1:x_Y"),
    "a name of a predefined one": ("acl TRUE always_false", "TRUE"),
    "many patterns": ("acl a urlp(x) 1 2 3 4 5 6 7 8 9 10 11 12 13", "a"),
    "flags in the middle": ("acl a path -i /IMAGES/PNG/LOGO.PNG -f @DIR@/list", "a"),
    "a file": ("acl a path -f @DIR@/list", "a"),
    "a file without case": ("acl a path -i -f @DIR@/upper", "a"),
    "a file beside patterns": ("acl a path -f @DIR@/other /images/png/logo.png", "a"),
    "two files": ("acl a path -f @DIR@/other -f @DIR@/list", "a"),
    "a file of addresses": ("acl a hdr_ip(x-ip) -f @DIR@/nets", "a"),
    "a file of numbers": ("acl a hdr_val(x-num) -f @DIR@/numbers", "a"),
    "a file of expressions": ("acl a path -m reg -f @DIR@/regs", "a"),
    "a file of prefixes": ("acl a path_beg -f @DIR@/prefixes", "a"),
    "a file of domains": ("acl a hdr_dom(host) -i -f @DIR@/domains", "a"),
    "a map's keys": ("acl a path -M -f @DIR@/map", "a"),
    "an id": ("acl a path -u 77@N@ /images/png/logo.png", "a"),
    "a file with a method": ("acl a hdr(x-text) -m sub -f @DIR@/subs", "a"),
    "an empty file": ("acl a path -f @DIR@/empty", "a"),
}
_FILES = {
    "list": "# comment\n\n  /images/png/logo.png\n/other\n",
    "upper": "/IMAGES/PNG/LOGO.PNG\n",
    "other": "/other\n",
    "nets": "192.168.0.0/16\n10.1.0.0/16\n2001:db8::/32\n",
    "numbers": "1:5\n40:50\n",
    "regs": "^/none\npng$\n",
    "prefixes": "/im\n/css\n",
    "domains": "EXAMPLE.com\n",
    "map": "/images/png/logo.png value\n/b other\n",
    "subs": "World\n",
    "empty": "",
}

_METHODS = ["found", "bool", "int", "ip", "bin", "len", "str", "sub", "reg", "beg", "end", "dir", "dom"]
_SAMPLES = ["bool(1)", "int(12)", "ipv4(1.2.3.4)", "str(12)", "bin(3132)", "meth(GET)"]
_PATTERNS = {"found": "", "bool": "", "int": "12", "ip": "1.2.3.4", "bin": "3132", "len": "2", "reg": "^1"}


def _matrix() -> list[Case]:
    """Each matching method on each type, whether or not the two go together."""
    found = []
    for sample in _SAMPLES:
        for method in _METHODS:
            pattern = _PATTERNS.get(method, "12")
            found.append(
                holds(f"{{ {sample} -m {method} {pattern} }}", name=f"matrix {sample} {method}")
            )
    return found


_SWITCH = (
    "acl static path_beg /static\nacl img path_end .png .jpg\n"
    "use_backend @B@x if static\nuse_backend @B@y if img || { hdr(x-b) y }\n"
)
_SWITCH_SECTIONS = (
    "backend @B@x\n server sx @ORIGIN@\n http-request set-header x-b x\n"
    "backend @B@y\n server sy @ORIGIN@\n http-request set-header x-b y\n"
)

CASES = [
    *(holds(text, _R) for text in _CONDITIONS),
    *(
        holds(condition, _R, name=name, before=lines, files=_FILES)
        for name, (lines, condition) in _NAMED.items()
    ),
    *_matrix(),
    rules(
        "switching by conditions", _SWITCH,
        request("/static/a"), request("/a.png"), request("/b"), request("/c", "x-b: y"),
        sections=_SWITCH_SECTIONS,
    ),
    rules(
        "switching by a format", "use_backend %[req.hdr(x-to),lower] if { req.hdr(x-to) -m found }",
        request("/", "x-to: @B@x"), request("/", "x-to: none"), request("/"),
        sections=_SWITCH_SECTIONS,
    ),
    rules(
        "unless", "http-request set-header x-a 1 unless { path /a }\nhttp-request set-header x-b 1 unless METH_GET",
        request("/a"), request("/b"), request("/c", method="HEAD"),
    ),
    rules(
        "use-server", "", request("/", "x-s: 2"), request("/", "x-s: 1"), request("/"),
        back="server s1 @ORIGIN@ weight 1\nserver s2 @ORIGIN@ weight 0\nuse-server s2 if { hdr(x-s) 2 }\n"
        "use-server %[req.hdr(x-dyn)] if { req.hdr(x-dyn) -m found }\nhttp-response set-header x-srv %s",
    ),
    rules(
        "use-server by a format", "", request("/", "x-dyn: s2"), request("/", "x-dyn: none"), request("/"),
        back="server s1 @ORIGIN@\nserver s2 @ORIGIN@ weight 0\n"
        "use-server %[req.hdr(x-dyn)] if { req.hdr(x-dyn) -m found }\nhttp-response set-header x-srv %[srv_name]",
    ),
    rules(
        "monitor fail", "monitor-uri /up\nmonitor fail if { nbsrv(@B@) lt 5 }", request("/up"), request("/down"),
    ),
    rules(
        "monitor does not fail", "monitor-uri /up\nmonitor fail if { nbsrv(@B@) lt 1 }", request("/up"),
    ),
]

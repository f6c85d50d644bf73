"""Converters of strings: the manual's section 7.3.1."""

from __future__ import annotations

# fmt: off
from tests.differential.case import Case, expr, request, typed

_NUMBERED = request("/p?q=a%20b+c&empty=&x=%zz", "x-data: a,b,,c;d e", "x-num: 12")

_EXPRESSIONS = [
    "str(AbC),lower", "str(AbC),upper", "str(abc),length", "str(),length", "str( a ),length",
    "str(abcdef),bytes(2)", "str(abcdef),bytes(2,2)", "str(abcdef),bytes(0,99)",
    "str(abcdef),bytes(6)", "str(abcdef),bytes(7,1)", "str(abcdef),bytes(0,0)",
    "str(a-b-c-d),field(1,-)", "str(a-b-c-d),field(2,-)", "str(a-b-c-d),field(9,-)",
    "str(a-b-c-d),field(-1,-)", "str(a-b-c-d),field(-2,-)", "str(a-b-c-d),field(2,-,2)",
    "str(a-b-c-d),field(2,-,0)", "str(a-b-c-d),field(-2,-,2)", "str(a-b-c-d),field(-1,-,0)",
    "str(a-b_c.d),field(3,-_.)", "str(f1_f2_f3__f5),field(4,_)", "str(f1_f2_f3__f5),field(5,_)",
    "str(f1_f2_f3__f5),field(2,_,0)", "str(f1_f2_f3__f5),field(-2,_,3)",
    "str(f1_f2_f3__f5),field(-3,_,0)", "str(abc),field(1,-)", "str(abc),field(2,-)",
    "str(w1_w2_w3___w4),word(1,_)", "str(w1_w2_w3___w4),word(4,_)",
    "str(w1_w2_w3___w4),word(5,_)", "str(w1_w2_w3___w4),word(2,_,0)",
    "str(w1_w2_w3___w4),word(-1,_)", "str(w1_w2_w3___w4),word(-3,_,2)",
    "str(w1_w2_w3___w4),word(-3,_,0)", "str(__a__b__),word(1,_)", "str(__a__b__),word(-1,_)",
    "str(__a__b__),word(1,_,0)", "str(/one/two),word(2,/)", "str(/one/two),field(2,/)",
    "str(xxabcxx),ltrim(x)", "str(xxabcxx),rtrim(x)", "str(xyabcyx),ltrim(xy),rtrim(yx)",
    "str(xxxx),ltrim(x)", "str(xxxx),rtrim(x)",
    "str(a b&c=d/e?f),url_enc", "str(a b&c=d/e?f),url_enc(query)",
    "str(a%20b+c),url_dec", "str(a%20b+c),url_dec(1)", "str(a%20b+c),url_dec(0)",
    "str(%zz%4),url_dec", "str(a+b?c+d%41),url_dec", "str(?a+b),url_dec",
    "str(hello),hex", "str(),hex", "str(ff),hex2i", "str(-10),hex2i", "str(xyz),hex2i", "str(1F),hex2i",
    "str(hello),base64", "str(a),base64", "str(ab),base64", "str(),base64",
    "str(aGVsbG8=),b64dec", "str(aGVsbG8),b64dec", "str(!!!!),b64dec", "str(YQ==),b64dec",
    "str(hello?>),ub64enc", "str(aGVsbG8_Pg),ub64dec", "str(aGVsbG8),ub64dec", "str(a),ub64dec",
    "str(abc),length,hex",
    "str(a1b2c3),regsub([0-9],X)", "str(a1b2c3),regsub([0-9],X,g)", "str(aAbB),regsub(b,x,i)",
    "str(aAbB),regsub(b,x,gi)", "str(hello),regsub(l+,)", "str(hello),regsub(x,y)",
    "str(foobar),regsub(o+,0)",
    "str(a.b.c),regsub([.],-,g)", "str(aaa),regsub(^a,b,g)", "str(abc),regsub($,d)",
    "str(x),concat(y)", "str(x),concat(<,req.nothing,>)", "str(x),concat(,,z)",
    "str(),concat(a)", "str(abc),strcmp(txn.unset)", "str(abc),strcmp(txn.v)",
    "str(abd),strcmp(txn.v)", "str(abb),strcmp(txn.v)", "str(x),concat(a,txn.v,b)",
    "str(x),concat(a,txn.n,b)", "str(abc),secure_memcmp(txn.v)", "str(abd),secure_memcmp(txn.v)",
    "str(a),add_item(;,txn.v)", "str(a),add_item(;,txn.v,suf)", "str(),add_item(;,txn.v,suf)",
    "str(a),add_item(;,,suf)", "str(a),add_item(;,txn.unset)", "str(a),add_item(;,txn.n)",
    "bin(6162630a64),cut_crlf", "bin(6162630d0a),cut_crlf", "str(abc),cut_crlf",
    "str(host.example:80),host_only", "str(host.example:80),port_only", "str(host),host_only",
    "str(host),port_only", "str(1.2.3.4:99),host_only",
    "str(a:b),port_only", "str(h:),port_only", "str(h:0080),port_only",
    "str(yes),bool" , "str(0),bool", "str(1),bool", "str(true),iif(a,b)", "bool(true),iif(a,b)",
    "bool(0),iif(a,b)", "int(5),iif(a,b)", "bool(1),iif(a,)", "bool(0),iif(a,)",
    "req.hdr(x-data),field(4,',')", "req.hdr(x-data),word(3,',')",
    "req.hdr(x-data),length", "req.fhdr(x-data),field(3,',')", "req.fhdr(x-data),word(3,',')",
    "str(a\"b\\\\c'd<e/f),json", "str(abc),json(ascii)", "str(abc),json(utf8)",
    "str(é),json(utf8)", "str(é),json(ascii)", "str(é),json(utf8s)", "str(é),json(utf8p)",
    "str(é),json(utf8ps)", "bin(ff),json(utf8s)", "bin(ff),json(utf8)", "bin(00010a0d09),json",
    "bin(610062),length", "bin(610062)", "bin(616263),hex", "bin(616263)", "bin(),length",
    "bin(00ff10),hex", "bin(00ff10),base64", "bin(0102),hex,lower", "bin(e9),hex,lower",
    "str(12ab),hex2i,add(1)", "str(abc),bytes(1),upper,concat(-),length",
    "method,lower", "path,length", "str(x),debug", "url_param(q),url_dec", "url_param(x),url_dec",
    "url_param(empty),length", "url_param(none),length", "req.hdr(nothing),lower",
    "req.hdr(nothing),length", "req.hdr(x-num),add(1)", "req.hdr(x-num),mul(2)",
    "str(fr;q=0.8),language(fr;en)", "req.hdr(x-data),url_enc",
]

_BEFORE = "http-request set-var(txn.v) str(abc)\nhttp-request set-var(txn.n) int(7)"

_LANGUAGES = [
    ("fr,en;q=0.8", "language(fr;en)"),
    ("fr;q=0.2,en;q=0.8", "language(fr;en)"),
    ("de", "language(fr;en)"),
    ("de", "language(fr;en,es)"),
    ("FR", "language(fr;en)"),
    ("en-us", "language(en)"),
    ("*;q=0.5", "language(fr;en)"),
    ("fr;q=0,en", "language(fr;en)"),
    ("fr;q=bad,en;q=0.1", "language(fr;en)"),
]

_JSON = (
    r'{"integer":4,"f":1.5,"boolean":true,"no":false,"null":null,"s":"a string","a":[1,2,3],'
    r'"o":{"k":{"d":"e"}},"big":4294967298,"neg":-3,"esc":"a\"b\nc","k.d":"dotted","e":""}'
)
_POST = request("/", method="POST", body=_JSON)
_QUERIES = [
    ("$.integer", ""), ("$.integer", ",int"), ("$.f", ""), ("$.f", ",int"), ("$.boolean", ""),
    ("$.no", ""), ("$.null", ""), ("$.s", ""), ("$.s", ",int"), ("$.a", ""), ("$.a[0]", ""),
    ("$.a[3]", ""), ("$.a[1]", ",int"), ("$.o", ""), ("$.o.k", ""), ("$.o.k.d", ""), ("$.big", ""),
    ("$.big", ",int"), ("$.neg", ""), ("$.neg", ",int"), ("$.esc", ""), ("$.k\\\\.d", ""), ("$.e", ""),
    ("$.missing", ""),
]


def _json(path: str, kind: str) -> Case:
    return expr(
        f"req.body,json_query('{path}'{kind})",
        _POST,
        before="http-request wait-for-body time 1s",
    )


CASES = [
    *(expr(text, _NUMBERED, before=_BEFORE) for text in dict.fromkeys(_EXPRESSIONS)),
    *(
        expr(
            f"req.fhdr(accept-language),{rule}",
            request("/", f"accept-language: {value}"),
            name=f"{rule} of {value}",
        )
        for value, rule in _LANGUAGES
    ),
    *(_json(path, kind) for path, kind in _QUERIES),
    *(
        typed(text)
        for text in (
            "str(abc),length", "str(12),add(1)", "bool(true)", "int(7),hex", "bin(6162)",
            "ipv4(1.2.3.4)", "ipv6(::1)", "meth(GET)", "str(12),bytes(0,1),mul(3)",
        )
    ),
]

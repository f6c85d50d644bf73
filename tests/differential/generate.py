"""Hypothesis strategies for parts of the rule language: expressions, conditions, formats, rules.

What they make need not be valid: a configuration that HAProxy refuses has to be refused by us.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.differential.case import Case, expr, holds, quoted, request, rules

#: characters of texts that stand in a configuration; no comma, parenthesis, quote or backslash
_WORD = "abcXYZ019 _.:/;=&%+-?#@~"
#: characters of targets
_TARGET = "abcXYZ019-._~!$&'()*+,;=:@/%?"
#: characters of header values
_VALUE = "abcXYZ019 -._~!$&'()*+,;=:@/%?\"\\[]{}<>|^`\t"

words = st.text(_WORD, max_size=12)
names = st.text("abcxyz", min_size=1, max_size=4)
targets = st.text(_TARGET, max_size=30).map(lambda text: "/" + text)
values = st.text(_VALUE, max_size=30).map(lambda text: text.strip(" \t"))
small = st.integers(-20, 20)
large = st.one_of(small, st.integers(-(2**63) + 1, 2**63 - 1))
_hex = st.binary(max_size=8).map(lambda data: data.hex())
ipv4 = st.tuples(*[st.integers(0, 255)] * 4).map(lambda parts: ".".join(map(str, parts)))
ipv6 = st.ip_addresses(v=6).map(str)

_samples = st.one_of(
    words.map(lambda text: f"str({text})"),
    large.map(lambda number: f"int({number})"),
    ipv4.map(lambda text: f"ipv4({text})"),
    ipv6.map(lambda text: f"ipv6({text})"),
    _hex.map(lambda text: f"bin({text or '00'})"),
    st.sampled_from(
        ["req.hdr(x-d)", "req.fhdr(x-d)", "url_param(q)", "path", "method", "src", "req.hdr(none)"]
    ),
)
_plain = st.sampled_from(
    [
        "lower",
        "upper",
        "length",
        "hex",
        "base64",
        "b64dec",
        "ub64enc",
        "ub64dec",
        "neg",
        "cpl",
        "url_enc",
        "url_dec",
        "crc32",
        "crc32c",
        "djb2",
        "sdbm",
        "wt6",
        "xxh32",
        "xxh64",
        "sha1",
        "sha2",
        "htonl",
        "hex2i",
        "cut_crlf",
        "host_only",
        "port_only",
        "json",
        "be2hex",
        "http_date",
    ]
)
_delimiters = st.sampled_from(list("_-.:/;=&%+? "))
#: without add and sub, which HAProxy 2.6 gets wrong for two negative numbers (see cases.numbers)
_with_arguments = st.one_of(
    st.tuples(st.sampled_from(["mul", "div", "mod", "and", "or", "xor"]), small).map(
        lambda t: f"{t[0]}({t[1]})"
    ),
    st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda t: f"bytes({t[0]},{t[1]})"),
    st.integers(0, 12).map(lambda n: f"bytes({n})"),
    st.tuples(
        st.sampled_from(["word", "field"]), st.integers(-4, 4), _delimiters, st.integers(0, 3)
    ).map(lambda t: f"{t[0]}({t[1]},{t[2]},{t[3]})"),
    st.tuples(st.sampled_from(["word", "field"]), st.integers(-4, 4), _delimiters).map(
        lambda t: f"{t[0]}({t[1]},{t[2]})"
    ),
    st.tuples(st.sampled_from(["ltrim", "rtrim"]), st.text("abc019", min_size=1, max_size=3)).map(
        lambda t: f"{t[0]}({t[1]})"
    ),
    st.tuples(st.integers(0, 33), st.integers(0, 128)).map(lambda t: f"ipmask({t[0]},{t[1]})"),
    st.integers(0, 32).map(lambda n: f"ipmask({n})"),
    st.tuples(
        st.sampled_from(["[a-c]", "a", "[0-9]+", "^.", ".$", "b*", "[^a-z]", "x?"]),
        st.text("Zz0-", max_size=3),
        st.sampled_from(["", ",g", ",i", ",gi"]),
    ).map(lambda t: f"regsub({t[0]},{t[1]}{t[2]})"),
    st.tuples(st.text("ab1", max_size=3), st.text("ab1", max_size=3)).map(
        lambda t: f"iif({t[0]},{t[1]})"
    ),
    st.tuples(st.text("<>a", max_size=2), st.sampled_from(["txn.s", "txn.n", "txn.none"])).map(
        lambda t: f"concat({t[0]},{t[1]},{t[0]})"
    ),
    st.sampled_from(["mul", "and"]).flatmap(
        lambda name: st.sampled_from(["txn.n", "txn.s", "txn.none"]).map(lambda v: f"{name}({v})")
    ),
    st.sampled_from(["strcmp(txn.s)", "strcmp(txn.n)", "secure_memcmp(txn.s)", "sha2(512)"]),
    st.sampled_from(["json(utf8)", "json(utf8s)", "url_dec(1)", "be2dec(:,2)", "be2hex(:,3,1)"]),
    st.sampled_from(["utime(%Y-%m-%d)", "http_date(5)", "digest(md5)", "hmac(sha1,a2V5)"]),
    st.sampled_from(["add_item(;,txn.s)", "add_item(;,txn.none,e)", "add_item(;,,e)"]),
)
_chain = st.lists(st.one_of(_plain, _with_arguments), max_size=4)
#: at the end alone: behind arithmetic HAProxy still takes a boolean for one
_truth = st.sampled_from([[], [], [], ["bool"], ["not"], ["even"], ["odd"]])
expressions = st.tuples(_samples, _chain, _truth).map(lambda t: ",".join([t[0], *t[1], *t[2]]))

_VARIABLES = "http-request set-var(txn.n) int(7)\nhttp-request set-var(txn.s) str(abc)"


def expression_case(number: int, expression: str, value: str, target: str) -> Case:
    """`number` makes the name unique."""
    data = request(target, f"x-d: {value}")
    return expr(expression, data, name=f"{number}: {expression}", before=_VARIABLES)


# -- conditions

_fetches = st.sampled_from(
    [
        "path", "path_beg", "path_end", "path_sub", "path_dir", "path_dom", "path_len", "url", "urlp(q)",
        "urlp_sub(q)", "query", "hdr(x-d)", "hdr_beg(x-d)", "hdr_end(x-d)", "hdr_sub(x-d)", "hdr_dom(x-d)",
        "hdr_dir(x-d)", "hdr_cnt(x-d)", "hdr_val(x-d)", "hdr_len(x-d)", "hdr_ip(x-ip)", "req.fhdr(x-d)", "src",
        "method", "str(abc)", "int(5)", "bool(1)", "path,lower", "hdr(x-d),length", "cook(c)", "base",
        "hdr(x-ip),ipmask(16)", "path,field(2,/)", "always_true", "req.ver", "var(txn.s)", "hdr(none)",
    ]
)  # fmt: skip
_methods = st.sampled_from(
    ["", "", "", "-m str", "-m beg", "-m end", "-m sub", "-m dir", "-m dom", "-m len", "-m int", "-m found",
     "-m bool", "-m reg", "-m ip", "-m bin", "-i", "-m str -i", "-m sub -i", "-m beg -i"]
)  # fmt: skip
_patterns = st.lists(
    st.one_of(
        st.text("ab/.cX1", min_size=1, max_size=4),
        st.integers(0, 12).map(str),
        st.sampled_from(["/a", "a.b", "/a/b", "GET", "1:5", ":9", "3:", "gt 4", "le 5", "abc", "10.0.0.0/8"]),
        ipv4,
    ),
    max_size=3,
).map(" ".join)  # fmt: skip
_term = st.tuples(st.booleans(), _fetches, _methods, _patterns).map(
    lambda t: ("!" if t[0] else "") + " ".join(["{", *filter(None, t[1:]), "}"])
)
conditions = st.lists(
    st.tuples(_term, st.sampled_from(["", "", "or", "||"])), min_size=1, max_size=3
).map(
    lambda items: " ".join(
        word
        for n, (term, joint) in enumerate(items)
        for word in ((joint if n else ""), term)
        if word
    )
)


def condition_case(number: int, condition: str, value: str, target: str, address: str) -> Case:
    """`number` makes the name unique."""
    data = request(target, f"x-d: {value}", f"x-ip: {address}", "cookie: c=ab")
    return holds(condition, data, name=f"{number}: {condition}", before=_VARIABLES)


# -- formats

_aliases = st.sampled_from(
    [
        "HM",
        "HP",
        "HPO",
        "HQ",
        "HU",
        "HV",
        "ID",
        "ST",
        "b",
        "bi",
        "bq",
        "ci",
        "f",
        "fi",
        "ft",
        "hr",
        "hrl",
        "hs",
        "hsl",
        "r",
        "rc",
        "s",
        "si",
        "sq",
        "ts",
        "tsc",
        "CC",
        "CS",
    ]
)
_in_log = st.sampled_from(
    ["capture.req.uri", "capture.req.method", "src", "var(txn.s)", "var(txn.q)", "var(txn.none)", "str(a b)",
     "int(5),add(1)", "be_name", "capture.req.hdr(0)", "capture.res.hdr(0)", "bin(610a22),hex", "fe_name,upper"]
)  # fmt: skip
_flags = st.sampled_from(["", "", "", "{+Q}", "{+E}", "{+Q,+E}", "{-Q}", "{+X}"])
_item = st.one_of(
    st.tuples(_flags, _aliases).map(lambda t: f"%{t[0]}{t[1]}"),
    st.tuples(_flags, _in_log).map(lambda t: f"%{t[0]}[{t[1]}]"),
    st.text("ab/;=[]{}\"<>", min_size=1, max_size=3),
    st.sampled_from(["%%", " ", "%{+Q}o", "%{+E}o", "%{-Q}o", "%{+X}o"]),
)  # fmt: skip
#: with a status, which is known at the end only: HAProxy logs what tells the request alone twice
formats = st.lists(_item, min_size=1, max_size=7).map(lambda items: " ".join([*items, "%ST"]))
tight_formats = st.lists(_item, min_size=1, max_size=7).map(lambda items: "".join([*items, "%ST"]))


def format_case(number: int, text: str, value: str, target: str) -> Case:
    """`number` makes the name unique."""
    front = (
        f"log-format {quoted(text)}\ncapture request header x-d len 12\ncapture cookie c len 3\n"
        f"capture response header x-r len 5\nunique-id-format %[path]\n{_VARIABLES}\n"
        "http-request set-var(txn.q) req.fhdr(x-d)"
    )
    data = request(target, f"x-d: {value}", "cookie: a=1; c=value")
    answer = b"HTTP/1.1 200 OK\r\nx-r: reply\r\nset-cookie: c=new\r\ncontent-length: 0\r\n\r\n"
    return rules(f"{number}: {text}", front, data, answers=(answer,))


# -- rules

_header = st.sampled_from(["x-a", "x-b", "x-d", "X-New", "host", "cookie"])
_replacement = st.sampled_from(["\\1", "<\\0>", "\\2\\1", "z", "%[src]", "\\1%[path]"])
_regex = st.sampled_from(["(.*)", "^(.)(.*)$", "(a)", "([^,]*)", "zz", "(.)=(.)", "^$", "([0-9]+)"])
_text = st.sampled_from(
    ["v", "%[path]", "%[req.hdr(x-a)]", "%HM-%[query]", "a%%b", "%[var(txn.n)]"]
)
_condition = st.sampled_from(
    ["", "", "if { path_beg /a }", "unless { hdr(x-a) -m found }", "if { query -m sub a } || { hdr_cnt(x-b) 2 }",
     "if METH_GET !{ path / }", "if FALSE"]
)  # fmt: skip
_rule = st.one_of(
    st.tuples(st.sampled_from(["set-header", "add-header"]), _header, _text).map(" ".join),
    st.tuples(st.just("del-header"), st.sampled_from(["x-a", "x- -m beg", "b -m end", "x -m sub", "^x-[ab] -m reg"])).map(" ".join),
    st.tuples(st.sampled_from(["replace-header", "replace-value"]), _header, _regex, _replacement).map(" ".join),
    st.tuples(st.sampled_from(["replace-path", "replace-pathq", "replace-uri"]), _regex, st.sampled_from(["/p\\1", "/n", "/a/\\1?k"])).map(" ".join),
    st.tuples(st.sampled_from(["set-path", "set-pathq", "set-uri"]), st.sampled_from(["/p%[path]", "/n?x=1", "/%[url]"])).map(" ".join),
    st.tuples(st.just("set-query"), st.sampled_from(["a=b", "%[urlp(a)]", "z%[query]"])).map(" ".join),
    st.tuples(st.just("set-method"), st.sampled_from(["PUT", "get", "M%[query,length]"])).map(" ".join),
    st.sampled_from(["set-var(txn.n) path", "set-var(txn.n) query,length", "unset-var(txn.n)", "set-var-fmt(txn.n) %[path]x",
                     "allow", "set-log-level err", "capture path len 5", "deny deny_status 404", "redirect location /r%[path]"]),
)  # fmt: skip
rule_lists = st.lists(
    st.tuples(_rule, _condition).map(lambda t: f"http-request {' '.join(filter(None, t))}"),
    min_size=1,
    max_size=6,
)
header_sets = st.lists(
    st.tuples(st.sampled_from(["x-a", "x-b", "X-D", "x-m", "cookie"]), values).map(": ".join),
    max_size=5,
)


def rules_case(number: int, lines: list[str], headers: list[str], target: str) -> Case:
    """`number` makes the name unique."""
    quoted_lines = "\n".join(lines)
    return rules(
        f"{number}: {'; '.join(lines)}", quoted_lines, request(target, *headers), request("/second")
    )

"""Variables: scopes, types, conditions of setting, formats (manual 2.8 and set-var)."""

from __future__ import annotations

# fmt: off
from tests.differential.case import answer, request, rules

_SHOW = "http-request return status 200 content-type text/plain lf-string"

_RULES = {
    **{f"scope {scope}": f"http-request set-var({scope}.v) str(x)\n{_SHOW} '[%[var({scope}.v)]]'" for scope in ("sess", "txn", "req", "proc")},
    **{f"missing {scope}": f"{_SHOW} '[%[var({scope}.missing@N@)]]'" for scope in ("sess", "txn", "req", "proc", "res")},
    "a default": f"{_SHOW} '%[var(txn.v,none)]'",
    "a default not needed": f"http-request set-var(txn.v) int(1)\n{_SHOW} '%[var(txn.v,none)]'",
    "overwritten with another type": f"http-request set-var(txn.v) int(1)\nhttp-request set-var(txn.v) str(two)\n{_SHOW} '%[var(txn.v)]'",
    "a fetch without a value leaves it": f"http-request set-var(txn.v) str(a)\nhttp-request set-var(txn.v) req.hdr(x-none)\n{_SHOW} '[%[var(txn.v)]]'",
    "set-var ifexists": f"http-request set-var(txn.v,ifexists) str(a)\n{_SHOW} '[%[var(txn.v)]]'",
    "set-var ifexists of one that is": f"http-request set-var(txn.v) str(a)\nhttp-request set-var(txn.v,ifexists) str(b)\n{_SHOW} '[%[var(txn.v)]]'",
    "set-var ifnotexists": f"http-request set-var(txn.v) str(a)\nhttp-request set-var(txn.v,ifnotexists) str(b)\n{_SHOW} '[%[var(txn.v)]]'",
    "set-var ifempty": f"http-request set-var(txn.v) str()\nhttp-request set-var(txn.v,ifempty) str(b)\n{_SHOW} '[%[var(txn.v)]]'",
    "set-var ifnotempty": f"http-request set-var(txn.v) str(a)\nhttp-request set-var(txn.v,ifnotempty) str(b)\n{_SHOW} '[%[var(txn.v)]]'",
    "set-var ifset": f"http-request set-var(txn.v) str(a)\nhttp-request set-var(txn.v,ifset) str()\n{_SHOW} '[%[var(txn.v)]]'",
    "set-var ifgt": f"http-request set-var(txn.v) int(5)\nhttp-request set-var(txn.v,ifgt) int(3)\n{_SHOW} '[%[var(txn.v)]]'",
    "set-var iflt": f"http-request set-var(txn.v) int(5)\nhttp-request set-var(txn.v,iflt) int(3)\n{_SHOW} '[%[var(txn.v)]]'",
    "names with signs": f"http-request set-var(txn.a.b_c1) str(ok)\n{_SHOW} '%[var(txn.a.b_c1)]'",
    "many": "\n".join(f"http-request set-var(txn.v{i}) int({i}),mul(2)" for i in range(12)) + f"\n{_SHOW} '%[var(txn.v11)] %[var(txn.v0)]'",
    "arithmetic": f"http-request set-var(txn.n) int(1)\nhttp-request set-var(txn.n) var(txn.n),add(1)\nhttp-request set-var(txn.n) var(txn.n),mul(txn.n)\n{_SHOW} '%[var(txn.n)]'",
    "a format": f"http-request set-var-fmt(txn.v) '%[path],%[method] 100%%'\n{_SHOW} '%[var(txn.v)]'",
    "a format with aliases": f"http-request set-var-fmt(txn.v) '%ci %f %HP %HU'\n{_SHOW} '%[var(txn.v)]'",
    "a boolean": f"http-request set-var(txn.v) always_true\n{_SHOW} '%[var(txn.v)] %[var(txn.v),add(1)]'",
    "an address": f"http-request set-var(txn.v) src\n{_SHOW} '%[var(txn.v)] %[var(txn.v),ipmask(8)]'",
    "a method": f"http-request set-var(txn.v) method\n{_SHOW} '%[var(txn.v)]'",
    "conditions on variables": f"http-request set-var(txn.v) int(5)\n{_SHOW} yes if {{ var(txn.v) -m int gt 4 }}\n{_SHOW} no",
    "conditions on text": f"http-request set-var(txn.v) str(Ab)\n{_SHOW} yes if {{ var(txn.v) -m str -i ab }}\n{_SHOW} no",
    "found": f"http-request set-var(txn.v) str()\n{_SHOW} yes if {{ var(txn.v) -m found }}\n{_SHOW} no",
    "unset": f"http-request set-var(txn.v) str(a)\nhttp-request unset-var(txn.v)\n{_SHOW} '[%[var(txn.v)]]'",
    "unset of none": f"http-request unset-var(txn.none)\n{_SHOW} ok",
    "in tcp-request content": f"tcp-request content set-var(txn.v) src\n{_SHOW} '%[var(txn.v)]'",
    "in tcp-request session": f"tcp-request session set-var(sess.v) src\n{_SHOW} '%[var(sess.v)]'",
    "in tcp-request connection": f"tcp-request connection set-var(sess.v) src\n{_SHOW} '%[var(sess.v)]'",
    "a format in tcp-request content": f"tcp-request content set-var-fmt(txn.v) '%[src]-x'\n{_SHOW} '%[var(txn.v)]'",
    "in a redirect": "http-request set-var(txn.v) str(/to)\nhttp-request redirect location %[var(txn.v)]",
    "long text": f"http-request set-var(txn.v) path\n{_SHOW} '%[var(txn.v),length]'",
}

CASES = [
    *(rules(name, lines, request("/p?q=1")) for name, lines in _RULES.items()),
    rules("sess lasts over requests", f"http-request set-var(sess.v) path if {{ path /set }}\n{_SHOW} '[%[var(sess.v)]]'",
          request("/set"), request("/get"), request("/get")),
    rules("sess ends with the connection", f"http-request set-var(sess.v) path if {{ path /set }}\n{_SHOW} '[%[var(sess.v)]]'",
          request("/set"), request("/get"), fresh=True),
    rules("txn ends with the request", f"http-request set-var(txn.v) path if {{ path /set }}\n{_SHOW} '[%[var(txn.v)]]'",
          request("/set"), request("/get")),
    rules("proc lasts", f"http-request set-var(proc.v@N@) path if {{ path /set }}\n{_SHOW} '[%[var(proc.v@N@)]]'",
          request("/set"), request("/get"), fresh=True),
    rules("proc of the global section", f"{_SHOW} '[%[var(proc.g@N@)]]'", request(), settings="set-var proc.g@N@ str(begun),upper"),
    rules("proc by a format of the global section", f"{_SHOW} '[%[var(proc.g@N@)]]'", request(), settings="set-var-fmt proc.g@N@ '%[int(5)]-x'"),
    rules("req is gone in the response", "http-request set-var(req.v) path\nhttp-response set-header x-v '[%[var(req.v)]]'", request("/a")),
    rules("res in the response", "http-response set-var(res.v) status\nhttp-response set-header x-v '[%[var(res.v)]]'", request("/a")),
    rules("txn in the response", "http-request set-var(txn.v) path\nhttp-response set-header x-v '[%[var(txn.v)]]'", request("/a")),
    rules("from frontend to backend", "http-request set-var(txn.v) path", request("/a"), back="http-request set-header x-v %[var(txn.v)]"),
    rules("in the log", "http-request set-var(txn.v) path,upper\nlog-format '%[var(txn.v)] %ST'", request("/a")),
    rules("res in the log", "http-response set-var(res.v) status\nlog-format '[%[var(res.v)]] [%[var(txn.none)]]'", request("/a")),
    rules("get var of the runtime socket", f"http-request set-var(proc.r@N@) int(5)\n{_SHOW} ok", request(),
          commands=("get var proc.r@N@", "set var proc.r@N@ str(new)", "get var proc.r@N@", "get var proc.none@N@", "set var txn.x int(1)")),
    rules("set var of the runtime socket", f"{_SHOW} '[%[var(proc.s@N@)]]'", request(), request(),
          commands=("set var proc.s@N@ int(3),add(4)", "get var proc.s@N@", "set var proc.s@N@ fmt %[str(x)]-y", "get var proc.s@N@")),
    rules("a body in a variable", f"option http-buffer-request\nhttp-request set-var(txn.b) req.body\n{_SHOW} '%[var(txn.b),length] %[var(txn.b),hex]'",
          request(method="POST", body=b"a\x00b")),
    rules("a response's header in a variable", "http-response set-var(txn.h) res.hdr(x-a)\nhttp-response set-header x-b %[var(txn.h),upper]", request(),
          answers=(answer("x-a: val"),)),
    rules("tune.vars.txn-max-size", f"http-request set-var(txn.a) path\n{_SHOW} '%[var(txn.a),length]'", request("/" + "x" * 2000)),
]

"""What is said of servers and instead of them: names, redirections, dispatch, algorithms."""

from __future__ import annotations

from tests.differential.case import Case, request

_GETS = (request("/a?b=c"), request("/x/y", "x-server: client", "X-Server: again"))

CASES = [
    Case("name header", back="http-send-name-header X-Server", requests=_GETS),
    Case("name header of host", back="http-send-name-header Host", requests=_GETS),
    Case(
        "name header and forwardfor",
        back="http-send-name-header x-server\noption forwardfor",
        requests=_GETS,
    ),
    Case(
        "redir",
        back="default-server redir http://other.example:81",
        requests=(
            request("/a?b=c"),
            request("/a", method="HEAD"),
            request("/a", method="POST", body="x"),
            request("http://h/abs/olute"),
        ),
        fresh=True,
    ),
    Case("redir to nowhere else", back="default-server redir /", requests=(request("/a"),)),
    Case(
        "redir and rules for all responses",
        back="default-server redir //x\nhttp-after-response set-header x-after 1",
        requests=(request("/a"),),
    ),
    Case("dispatch", back="dispatch @ORIGIN@", requests=_GETS),
    Case(
        "dispatch and the server's name",
        back="dispatch @ORIGIN@\nhttp-response set-header x-server '[%[srv_name]]'",
    ),
    Case("dispatch in tcp", back="dispatch @ORIGIN@", tcp=True),
    *(
        Case(f"balance {words}", back=f"balance {words}", requests=_GETS)
        for words in (
            "uri whole depth 2",
            "uri len 3",
            "uri path-only",
            "url_param b check_post",
            "hdr(x-server)",
            "hdr(host) use_domain_only",
            "random",
            "random(3)",
            "first",
            "static-rr",
            "source",
            "rdp-cookie",
            "rdp-cookie(name)",
            "hash path",
            "hash src,ipmask(24)",
        )
    ),
    Case(
        "weights of a static algorithm",
        back="balance static-rr\ndefault-server weight 10",
        commands=tuple(
            f"set weight @B@/s1 {weight}" for weight in ("5", "50%", "0%", "100%", "10")
        ),
    ),
]

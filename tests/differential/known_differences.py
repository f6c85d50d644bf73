"""Where mtproxy differs from HAProxy 2.6 on purpose, or for now: case (family/name) -> reason.

A case that stands here and does not differ any more fails the test: take it out. Those in BY_CHANCE
need not differ every time.
"""

from __future__ import annotations

from typing import Final

_LENGTH = (
    "a message keeps its length whatever rules do to Content-Length: HAProxy changes the framing,"
    " or answers 500"
)
_NEGATIVE = "HAProxy 2.6 takes the sum of two negative numbers for an overflow"
_JWT = "the manual promises the whole part without a path, HAProxy 2.6.12 gives nothing"
_RETURN = "HAProxy closes without an answer: the header's format reads the response it replaces"
_CACHEABLE_COOKIE = (
    "502, as the manual says: HAProxy 2.6 sends its page of the status that the server gave"
)
_LAX = "relaxed parsing is not followed: such messages are refused, with a warning at load"
_STRICTER = "HAProxy ignores the bad word, we name it"
_REFUSED_PAGE = (
    "HAProxy logs a refusal of its page as 400 and closes the connection: its own answer comes on"
    " top of the rule's"
)
_MAX_REUSE = (
    "`max-reuse` holds for HTTP/1 too, HAProxy 2.6 counts on HTTP/2 and FastCGI connections alone"
)
_UNANSWERED = (
    "a server that ends a new connection without an answer is told of by 502 and in the log; HAProxy"
    " ends a client's second request in silence (we do where the server connection was a kept one)"
)
_REFUSED_ANSWER = (
    "the server connection of an answer that is replaced is closed, HAProxy keeps one whose answer"
    " it had received as a whole"
)
_LATER = "a keyword of another part of the proxy, not supported yet: refused at load"

#: recorded differences that two programs, or two runs, show or do not show as time has it
BY_CHANCE: Final[frozenset[str]] = frozenset(
    {
        "stick_tables/full table",
        "tcp_rules/http tcp-response reject",
        "retries/503, all-retryable-errors",
        "retries/a rule forbids it for a path",
        "variables/tune.vars.txn-max-size",
    }
)

DIFFERENCES: Final[dict[str, str]] = {
    # -- what happens
    "actions/response return": _RETURN,
    "actions/frontend's response return": _RETURN,
    "actions/response silent-drop": "the log says that no status was sent, HAProxy tells the server's",
    "actions/frontend's response silent-drop": (
        "the log says that no status was sent, HAProxy tells the server's"
    ),
    "bodies/100-continue and waiting": (
        "no 100 where the body is here already (RFC 9110 section 10.1.1 allows to omit it)"
    ),
    "bodies/content-length is removed": _LENGTH,
    "bodies/content-length is changed": _LENGTH,
    "bodies/answer's content-length is removed": _LENGTH,
    "log_format/a format of the request alone": (
        "HAProxy writes such a line twice: at once, and at the end"
    ),
    "numbers/int(-5),sub(9)": _NEGATIVE,
    "numbers/int(-5),add(-9)": _NEGATIVE,
    "protocols/jwt jwt_header_query": _JWT,
    "protocols/jwt jwt_payload_query": _JWT,
    "protocols/jwt e30.e30. jwt_header_query": _JWT,
    "replies/response return keeps": (
        "the server's connection is closed with the response that nobody wants, HAProxy reads it"
    ),
    **{
        f"stats/{name}": _REFUSED_PAGE
        for name in (
            "accounts",
            "an account without a password",
            "a realm",
            "access rules",
            "access by realm",
        )
    },
    **{
        f"reuse/max-reuse {limit}, {clients}": _MAX_REUSE
        for limit in (0, 1, 2)
        for clients in ("one client", "new clients")
    },
    **{
        f"retries/{name}": "a request that is sent again takes a new connection, HAProxy an idle one"
        for name in ("503, all-retryable-errors", "a rule forbids it for a path")
    },
    "strings/language(fr;en) of fr;q=0,en": (
        "HAProxy 2.6 stops reading behind a language with q=0 (RFC 9110 section 12.5.4)"
    ),
    "stick_tables/full table": (
        "of entries that were used in the same millisecond another one may make room for a new one"
    ),
    "tcp_rules/http tcp-response reject": (
        "the request is sent before the rules for its response run, HAProxy rejects first"
    ),
    "tcp_rules/http tcp-response reject by status": (
        "content rules for responses see the parsed head, in HAProxy the bytes before it"
    ),
    "variables/tune.vars.txn-max-size": (
        "a variable too large for its scope is shown as what HAProxy's memory holds there"
    ),
    **{
        f"mixed/{cause}, {method}": _UNANSWERED
        for cause in ("no answer", "slow")
        for method in ("GET", "HEAD", "POST")
    },
    **{
        f"mixed/{cause}, {method}": _REFUSED_ANSWER
        for cause in ("response denied", "response denied in front", "redirected back")
        for method in ("GET", "POST")
    },
    "mixed/refused, redispatched, POST": (
        "a POST that is redispatched gets a connection of its own, HAProxy takes the client's last"
    ),
    "mixed/goes and comes, False, five in turn": (
        "a client goes on with its connection to a server that was away between two requests"
    ),
    **{
        f"options/checkcache {method}: {headers}": _CACHEABLE_COOKIE
        for method, headers in (
            ("GET", "etag: x"),
            ("GET", "expires: x"),
            ("GET", "cache-control: max-age=10"),
            ("GET", "cache-control: public, etag: x"),
            ("POST", "cache-control: public, etag: x"),
        )
    },
    "options/http-reuse never": (
        "a client has one connection to servers for itself, HAProxy keeps up to five"
    ),
    "options/disable-h2-upgrade": "what is no HTTP/1 gets the answer to all bad requests",
    # -- what is refused at load, for now
    "bodies/option accept-invalid-http-response": _LAX,
    "errors_at_load/frontend: compression algo gzip": _LATER,
    "errors_at_load/backend: email-alert from a": _LATER,
    "errors_at_load/backend: use_backend @B@ if TRUE": (
        "both say that it is ignored in a backend; HAProxy looks for loops all the same"
    ),
    # -- where we are stricter, or know more words
    "errors_at_load/frontend: http-request set-var-fmt(txn.a)": _STRICTER,
    "errors_at_load/frontend: http-request set-nice x": _STRICTER,
    "errors_at_load/frontend: http-request sc-set-gpt0(0)": _STRICTER,
    "errors_at_load/frontend: tcp-request inspect-delay 1s x": _STRICTER,
    "errors_at_load/backend: http-request set-timeout client 1s": "a word of later versions",
    "errors_at_load/global: tune.stick-counters 5": "a keyword of later versions",
}

#: families that are not judged yet, because what they are about is being built
PENDING: Final[frozenset[str]] = frozenset()

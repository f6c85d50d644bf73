"""Which connection to a server carries a request: `http-reuse`, pools, their limits.

Connections show in `forwarded`: one item for each, with all the requests that it carried.
"""

from __future__ import annotations

from tests.differential.case import OK, Case, answer, request

_THREE = (request("/1"), request("/2"), request("/3"))
_FOUR = (*_THREE, request("/4"))
_CLOSES = answer("connection: close")
_NO_END = b"HTTP/1.0 200 OK\r\n\r\nok"
_ALL_WORDS = "retry-on conn-failure empty-response response-timeout"

CASES = [
    # -- one client
    *(
        Case(f"{mode}, one client", back=f"http-reuse {mode}", requests=_THREE)
        for mode in ("never", "safe", "aggressive", "always")
    ),
    Case("the default, one client", requests=_THREE),
    # -- each request from a new client
    *(
        Case(f"{mode}, new clients", back=f"http-reuse {mode}", requests=_FOUR, fresh=True)
        for mode in ("never", "safe", "aggressive", "always")
    ),
    Case("the default, new clients", requests=_THREE, fresh=True),
    Case(
        "a request that is sent again if need be",
        back=f"http-reuse safe\n{_ALL_WORDS}",
        requests=_THREE,
        fresh=True,
    ),
    Case(
        "a request that is not sent again in all cases",
        back="http-reuse safe\nretry-on conn-failure empty-response",
        requests=_THREE,
        fresh=True,
    ),
    Case(
        "never, whatever is sent again",
        back=f"http-reuse never\n{_ALL_WORDS}",
        requests=_THREE,
        fresh=True,
    ),
    # -- one client proves a connection, others take it
    Case(
        "safe, a client that closes, then another",
        back="http-reuse safe",
        requests=(request("/1"), request("/2", "connection: close"), request("/3")),
    ),
    Case(
        "aggressive, a client that closes, then another",
        back="http-reuse aggressive",
        requests=(request("/1"), request("/2", "connection: close"), request("/3")),
    ),
    Case(
        "always, a client that closes, then another",
        back="http-reuse always",
        requests=(request("/1"), request("/2", "connection: close"), request("/3")),
    ),
    # -- limits
    *(
        Case(
            f"{words}, {kind}",
            back=f"http-reuse {mode}\nserver s1 @ORIGIN@ {words}",
            requests=_FOUR,
            fresh=fresh,
        )
        for words in (
            "max-reuse 0",
            "max-reuse 1",
            "max-reuse 2",
            "pool-max-conn 0",
            "pool-purge-delay 0",
        )
        for kind, mode, fresh in (("one client", "safe", False), ("new clients", "always", True))
    ),
    Case("pool-low-conn", back="server s1 @ORIGIN@ pool-low-conn 5", requests=_THREE),
    # -- what ends a connection
    Case("the server closes", back="http-reuse always", requests=_THREE, answers=(_CLOSES,)),
    Case(
        "the server closes once", back="http-reuse always", requests=_THREE, answers=(_CLOSES, OK)
    ),
    Case(
        "until the end", back="http-reuse always", requests=_THREE, answers=(_NO_END,), fresh=True
    ),
    Case("http-server-close", back="option http-server-close", requests=_THREE),
    Case("httpclose", back="option httpclose", requests=_THREE),
    Case("two servers", back="server s1 @ORIGIN@\nserver s2 @ORIGIN@", requests=_FOUR),
]

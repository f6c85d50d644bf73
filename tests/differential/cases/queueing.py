"""A server that is full: queues, their limits, what a client is told that has waited in vain.

The place on the server is taken by the request itself: the server leads to a listener of the same
program whose server is the origin, or back to the case's backend, where the request then waits for
the place that it holds. What happens is the same whatever the machine does meanwhile.
"""

from __future__ import annotations

from tests.differential.case import Case, request


def _loop(name: str, back: str, words: str = "maxconn 1", **more: object) -> Case:
    """The request comes back to its own backend, whose only server it occupies."""
    return Case(
        name,
        back=f"{back}\nserver s1 abns@l@N@-@PORT@ {words}",
        sections=(
            "listen l@N@\nmode http\nlog-tag inner\nno log\nbind abns@l@N@-@PORT@\n"
            "http-request set-header x-again 1\nuse_backend @B@"
        ),
        **more,  # type: ignore[arg-type]
    )


CASES = [
    _loop("timeout queue", "timeout queue 50ms"),
    _loop("timeout connect waits instead", "timeout connect 50ms"),
    _loop(
        "timeout queue, a body",
        "timeout queue 50ms",
        requests=(request("/", method="POST", body="abc"),),
    ),
    _loop("two places", "timeout queue 50ms", "maxconn 2"),
    _loop("three places", "timeout queue 50ms", "maxconn 3"),
    _loop("maxqueue", "timeout queue 50ms", "maxconn 1 maxqueue 1"),
    _loop("minconn", "timeout queue 50ms\nfullconn 1000", "minconn 1 maxconn 10"),
    _loop("minconn and a small fullconn", "timeout queue 50ms\nfullconn 1", "minconn 1 maxconn 2"),
    _loop(
        "queued twice in a row",
        "timeout queue 50ms",
        requests=(request("/1"), request("/2")),
        fresh=True,
    ),
    _loop(
        "an error page of its own",
        "timeout queue 50ms\nhttp-error status 503 content-type text/plain string full",
    ),
    _loop("priority class", "timeout queue 50ms\nhttp-request set-priority-class int(5)"),
    _loop("priority offset", "timeout queue 50ms\nhttp-request set-priority-offset int(-5)"),
    _loop("redispatch", "timeout queue 50ms\noption redispatch"),
    _loop(
        "who is full is seen",
        "timeout queue 50ms\nhttp-request deny deny_status 429 if { srv_conn(@B@/s1) ge 1 }",
    ),
    _loop(
        "the queue is seen",
        "timeout queue 50ms\nhttp-request set-header x-queue '%[queue] %[srv_queue(@B@/s1)] %[be_conn]'",
    ),
    # -- another server has room
    Case(
        "no limit with two servers",
        back="server s1 @ORIGIN@ maxconn 1\nserver s2 @ORIGIN@ maxconn 1\nhttp-response set-header x-srv %[srv_name]",
        requests=(request("/1"), request("/2")),
    ),
    Case(
        "room at once",
        back="timeout queue 50ms\nserver s1 @ORIGIN@ maxconn 1",
        requests=(request("/1"), request("/2")),
    ),
]

"""Changes of state: flags, times, counters, and HAProxy 2.6's own messages.

The texts and levels were recorded from Debian's haproxy going through the same changes.
"""

from __future__ import annotations

import pytest

from mtproxy.base.server_settings import CheckSettings
from mtproxy.proxy.backend import ALERT, EMERG, NOTICE, BackendShared
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.proxy.server import ServerState
from mtproxy.proxy.states import RUNNING, STOPPED
from mtproxy.proxy.transitions import (
    report_check,
    set_drain,
    set_health,
    set_maint,
    set_ready,
    set_weight,
)
from mtproxy.testing.proxies import FakeContext, Messages, make_backend

CHECK = CheckSettings(inter=1000, rise=2, fall=3)
LEFT = "0 sessions active, 0 requeued, 0 remaining in queue."
ONLINE = "0 sessions requeued, 0 total in queue."
BACKUP_LEFT = f"0 active and 1 backup servers left. Running on backup. {LEFT}"
BACKUP_ONLINE = f"0 active and 1 backup servers online. Running on backup. {ONLINE}"
REFUSED = 'reason: Layer4 connection problem, info: "Connection refused", check duration: 0ms'
PASSED = "reason: Layer4 check passed, check duration: 0ms"


class Bed:
    """A backend, its messages, and a thread that reports checks."""

    def __init__(self, weights: list[int], check: CheckSettings | None = CHECK, **fields) -> None:
        self.messages = Messages()
        self.shared: BackendShared
        self.shared, self.sides = make_backend(weights, check=check, notify=self.messages, **fields)
        self.ctx = FakeContext()
        self.one: ServerState = self.shared.servers[0]

    def fail(self, server: ServerState, times: int = 1) -> None:
        for _ in range(times):
            report_check(server, self.ctx, CheckStatus.L4CON, "Connection refused", 0)

    def succeed(self, server: ServerState, times: int = 1) -> None:
        for _ in range(times):
            report_check(server, self.ctx, CheckStatus.L4OK, "", 0)

    def take(self) -> list[tuple[int, str]]:
        self.shared._check()
        return self.messages.take()


def test_down_and_up() -> None:
    bed = Bed([1, 1])
    bed.fail(bed.one)
    assert bed.take() == [
        (ALERT, f"Server be/s1 is DOWN, {REFUSED}. 1 active and 0 backup servers left. {LEFT}")
    ]
    assert (bed.one.failed_checks, bed.one.down_transitions, bed.one.running) == (1, 1, False)
    bed.succeed(bed.one)
    assert bed.take() == []
    bed.succeed(bed.one)
    assert bed.take() == [
        (NOTICE, f"Server be/s1 is UP, {PASSED}. 2 active and 0 backup servers online. {ONLINE}")
    ]
    assert bed.one.running


def test_a_dead_server_counts_no_more_failures() -> None:
    bed = Bed([1, 1])
    bed.succeed(bed.one)
    bed.fail(bed.one, 5)
    assert (bed.one.failed_checks, bed.one.down_transitions) == (3, 1)


def test_timeout_has_no_info() -> None:
    bed = Bed([1, 1])
    report_check(bed.one, bed.ctx, CheckStatus.L4TOUT, "", 702)
    assert bed.take()[0][1].startswith(
        "Server be/s1 is DOWN, reason: Layer4 timeout, check duration: 702ms. 1 active"
    )


def test_last_server_lost() -> None:
    bed = Bed([1])
    bed.fail(bed.one)
    assert bed.take() == [
        (ALERT, f"Server be/s1 is DOWN, {REFUSED}. 0 active and 0 backup servers left. {LEFT}"),
        (EMERG, "backend be has no server available!"),
    ]
    assert (bed.shared.up, bed.shared.down_transitions) == (False, 1)


def test_backup_takes_over() -> None:
    bed = Bed([1, 1], backups=(1,))
    two = bed.shared.servers[1]
    bed.fail(bed.one)
    assert bed.take() == [
        (
            ALERT,
            f"Server be/s1 is DOWN, {REFUSED}. {BACKUP_LEFT}",
        )
    ]
    bed.fail(two)
    assert bed.take() == [
        (
            ALERT,
            f"Backup Server be/s2 is DOWN, {REFUSED}. 0 active and 0 backup servers left. {LEFT}",
        ),
        (EMERG, "backend be has no server available!"),
    ]
    bed.succeed(two, 2)
    assert bed.take() == [
        (
            NOTICE,
            f"Backup Server be/s2 is UP, {PASSED}. {BACKUP_ONLINE}",
        )
    ]


def test_every_check_that_changes_something_is_logged_on_request() -> None:
    bed = Bed([1, 1], options=("log-health-checks",), backups=(1,))
    two = bed.shared.servers[1]
    line = "Health check for server be/s1"
    bed.succeed(bed.one, 2)
    bed.fail(bed.one)
    assert bed.take() == [
        (NOTICE, f"{line} succeeded, {PASSED}, status: 3/3 UP."),
        (NOTICE, f"{line} failed, {REFUSED}, status: 2/3 UP."),
    ]
    bed.fail(bed.one, 2)
    assert bed.take() == [
        (NOTICE, f"{line} failed, {REFUSED}, status: 1/3 UP."),
        (NOTICE, f"{line} failed, {REFUSED}, status: 0/2 DOWN."),
        (
            ALERT,
            f"Server be/s1 is DOWN. {BACKUP_LEFT}",
        ),
    ]
    bed.fail(bed.one)
    assert bed.take() == []
    # another reason is a change, although the health stays
    report_check(bed.one, bed.ctx, CheckStatus.L4TOUT, "", 302)
    assert bed.take() == [
        (
            NOTICE,
            f"{line} failed, reason: Layer4 timeout, check duration: 302ms, status: 0/2 DOWN.",
        )
    ]
    bed.succeed(bed.one)
    assert bed.take() == [(NOTICE, f"{line} succeeded, {PASSED}, status: 1/2 DOWN.")]
    bed.succeed(two)
    assert bed.take() == [
        (
            NOTICE,
            f"Health check for backup server be/s2 succeeded, {PASSED}, status: 3/3 UP.",
        )
    ]


def test_first_success_of_a_full_server_is_logged_on_request() -> None:
    bed = Bed([1, 0], CheckSettings(rise=1, fall=1), options=("log-health-checks",))
    bed.succeed(bed.one, 2)
    bed.succeed(bed.shared.servers[1], 2)
    assert [text for _, text in bed.take()] == [
        f"Health check for server be/s1 succeeded, {PASSED}, status: 1/1 UP.",
        f"Health check for server be/s2 succeeded, {PASSED}, status: 1/1 DRAIN.",
    ]


def test_maintenance() -> None:
    bed = Bed([1, 1])
    bed.succeed(bed.one)
    set_maint(bed.one, bed.ctx)
    set_maint(bed.one, bed.ctx)
    assert bed.take() == [
        (
            ALERT,
            "Server be/s1 is going DOWN for maintenance. 1 active and 0 backup servers left. "
            + LEFT,
        )
    ]
    assert (bed.one.running, bed.one.down_transitions, bed.one.epoch) == (False, 1, 1)
    # a check that was under way
    bed.fail(bed.one, 5)
    assert (bed.take(), bed.one.failed_checks) == ([], 0)
    set_ready(bed.one, bed.ctx)
    set_ready(bed.one, bed.ctx)
    assert bed.take() == [(NOTICE, "Server be/s1 is UP/READY (leaving forced maintenance).")]
    assert (bed.one.running, bed.one.check.health.status()) == (True, "UP 1/3")


def test_maintenance_of_the_last_server() -> None:
    bed = Bed([1], check=None)
    set_maint(bed.one, bed.ctx)
    assert bed.take() == [
        (
            ALERT,
            "Server be/s1 is going DOWN for maintenance. 0 active and 0 backup servers left. "
            + LEFT,
        ),
        (EMERG, "backend be has no server available!"),
    ]


def test_maintenance_of_a_dead_server() -> None:
    bed = Bed([1, 1])
    bed.fail(bed.one)
    bed.take()
    set_maint(bed.one, bed.ctx)
    assert bed.take() == [(NOTICE, "Server be/s1 was DOWN and now enters maintenance.")]
    assert bed.one.down_transitions == 1
    set_ready(bed.one, bed.ctx)
    assert bed.take() == [(NOTICE, "Server be/s1 is UP/READY (leaving forced maintenance).")]


def test_drain() -> None:
    bed = Bed([1, 1])
    bed.succeed(bed.one)
    set_drain(bed.one, bed.ctx)
    set_drain(bed.one, bed.ctx)
    assert bed.take() == [
        (
            NOTICE,
            f"Server be/s1 enters drain state. 1 active and 0 backup servers online. {ONLINE}",
        )
    ]
    assert (bed.one.running, bed.one.usable, bed.one.epoch) == (True, False, 0)
    bed.fail(bed.one, 3)
    assert bed.take() == [
        (NOTICE, f"Server be/s1 is DOWN, {REFUSED}. 1 active and 0 backup servers left. {LEFT}"),
        (NOTICE, "Server be/s1 remains in forced drain mode."),
    ]
    bed.succeed(bed.one, 2)
    assert bed.take() == [
        (NOTICE, f"Server be/s1 is UP, {PASSED}. 1 active and 0 backup servers online. {ONLINE}"),
        (NOTICE, "Server be/s1 remains in forced drain mode."),
    ]
    set_ready(bed.one, bed.ctx)
    assert bed.take() == [(NOTICE, "Server be/s1 is UP (leaving forced drain).")]


def test_drain_of_a_dead_server() -> None:
    bed = Bed([1, 1])
    bed.fail(bed.one)
    bed.take()
    set_drain(bed.one, bed.ctx)
    assert bed.take() == [
        (NOTICE, f"Server be/s1 enters drain state. 1 active and 0 backup servers left. {LEFT}")
    ]
    set_ready(bed.one, bed.ctx)
    assert bed.take() == [(NOTICE, "Server be/s1 is DOWN (leaving forced drain).")]


def test_drain_and_maintenance_replace_each_other() -> None:
    bed = Bed([1])
    set_drain(bed.one, bed.ctx)
    assert bed.take() == [
        (
            NOTICE,
            f"Server be/s1 enters drain state. 0 active and 0 backup servers online. {ONLINE}",
        ),
        (EMERG, "backend be has no server available!"),
    ]
    set_maint(bed.one, bed.ctx)
    assert not bed.one.drain
    assert bed.take() == [
        (
            NOTICE,
            "Server be/s1 is going DOWN for maintenance. 0 active and 0 backup servers left. "
            + LEFT,
        )
    ]
    set_drain(bed.one, bed.ctx)
    assert bed.take() == [
        (NOTICE, "Server be/s1 is UP/DRAIN (leaving forced maintenance)."),
        (NOTICE, "Server be/s1 remains in forced drain mode."),
    ]
    set_maint(bed.one, bed.ctx)
    bed.take()
    set_ready(bed.one, bed.ctx)
    assert bed.take() == [(NOTICE, "Server be/s1 is UP/READY (leaving forced maintenance).")]
    assert bed.one.usable


def test_weight_to_zero_of_the_last_server() -> None:
    bed = Bed([1])
    set_weight(bed.one, bed.ctx, 0)
    assert bed.take() == [(EMERG, "backend be has no server available!")]
    set_weight(bed.one, bed.ctx, 256)
    assert bed.take() == []
    assert (bed.shared.up, bed.shared.total_weight()) == (True, 256)
    with pytest.raises(ValueError, match=r"0\.\.256"):
        set_weight(bed.one, bed.ctx, 257)


def test_health_by_hand() -> None:
    bed = Bed([1, 1])
    set_health(bed.one, bed.ctx, STOPPED)
    set_health(bed.one, bed.ctx, STOPPED)
    assert bed.take() == [
        (
            ALERT,
            "Server be/s1 is DOWN, changed from CLI. 1 active and 0 backup servers left. " + LEFT,
        )
    ]
    set_health(bed.one, bed.ctx, RUNNING)
    assert bed.take() == [
        (
            NOTICE,
            f"Server be/s1 is UP, changed from CLI. 2 active and 0 backup servers online. {ONLINE}",
        )
    ]
    unchecked = Bed([1], check=None)
    set_health(unchecked.one, unchecked.ctx, STOPPED)
    assert not unchecked.one.running


def test_sessions_are_reported() -> None:
    bed = Bed([1, 1], threads=2)
    for side in bed.sides:
        side.servers[0].take()
    set_maint(bed.one, bed.ctx)
    assert " 2 sessions active, " in bed.take()[0][1]


def test_times() -> None:
    bed = Bed([1], check=CHECK)
    ctx = bed.ctx
    ctx.now = 10_000
    bed.fail(bed.one)
    assert (bed.one.last_change, bed.one.down_time(ctx.now)) == (10_000, 0)
    ctx.now = 13_000
    set_maint(bed.one, ctx)
    # down for the same reason to the client: the time goes on
    assert (bed.one.last_change, bed.one.down_time(ctx.now)) == (10_000, 3000)
    assert bed.shared.down_time(ctx.now) == 3000
    ctx.now = 15_000
    set_ready(bed.one, ctx)
    assert (bed.one.last_change, bed.one.down_time(20_000)) == (15_000, 5000)
    assert (bed.shared.last_change, bed.shared.down_time(20_000)) == (15_000, 5000)
    ctx.now = 30_000
    set_drain(bed.one, ctx)
    assert (bed.one.last_change, bed.one.down_time(31_000)) == (30_000, 5000)


def test_idle_connections_are_dropped_by_their_owner() -> None:
    bed = Bed([1], threads=2)
    side = bed.sides[1].servers[0]
    side.idle.append(object())  # type: ignore[arg-type]
    bed.fail(bed.one)
    assert side.epoch != bed.one.epoch
    assert len(side.refresh()) == 1
    assert (side.epoch, list(side.idle)) == (bed.one.epoch, [])


def test_disabled_from_the_start() -> None:
    bed = Bed([1, 1], disabled=(0,))
    assert (bed.one.running, bed.shared.active, bed.take()) == (False, 1, [])
    bed.ctx.now = 5000
    assert bed.one.down_time(bed.ctx.now) == 5000
    set_ready(bed.one, bed.ctx)
    assert bed.take() == [(NOTICE, "Server be/s1 is UP/READY (leaving forced maintenance).")]
    assert (bed.shared.active, bed.one.down_transitions) == (2, 0)

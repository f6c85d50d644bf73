"""What log lines tell, as samples: the same fields."""

from __future__ import annotations

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.rules import points
from mtproxy.rules.logformat.code import data_time
from mtproxy.testing.logrecord import FakeRecord
from mtproxy.testing.samples import Samples


@pytest.fixture
def samples() -> Samples:
    samples = Samples(points.LOG)
    samples.view = FakeRecord(
        t_h=1, t_i=2, t_R=3, t_q=6, t_w=4, t_c=5, t_r=6, t_a=70, t_t=72, retries=2,
        redispatched=True, term_state="sC", accept_ms=1_700_000_000_123,
        request_count=(1 << 32) + 9,
    )  # fmt: skip
    return samples


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("bc.timer.connect", 5),
        ("fc.timer.handshake", 1),
        ("fc.timer.total", 72),
        ("req.timer.hdr", 3),
        ("req.timer.idle", 2),
        ("req.timer.queue", 4),
        ("req.timer.tq", 6),
        ("res.timer.hdr", 6),
        ("txn.timer.total", 70),
        ("txn.timer.user", 70),
        ("txn.conn_retries", 2),
        ("txn.redispatched", True),
        ("txn.sess_term_state", b"sC"),
        ("txn.id32", 9),
        ("accept_date", 1_700_000_000),
        ("accept_date(ms)", 1_700_000_000_123),
        ("request_date(us)", 1_700_000_000_126_000),
    ],
)
def test_values(text: str, value: object, samples: Samples) -> None:
    assert samples.value(text) == value


def test_the_time_for_data(samples: Samples) -> None:
    assert samples.value("res.timer.data") == data_time(samples.view)


def test_units_are_checked(samples: Samples) -> None:
    with pytest.raises(ConfigError, match="expects 's', 'ms' or 'us', got 'd'"):
        samples.value("accept_date(d)")


@pytest.mark.parametrize(
    ("t_r", "status", "value"), [(5, 200, 200), (-1, 403, None), (-1, -1, None)]
)
def test_the_status_in_log_lines_is_the_servers(
    t_r: int, status: int, value: int | None, samples: Samples
) -> None:
    samples.view.logged, samples.view.t_r, samples.view.status = True, t_r, status
    assert samples.value("status") == value

"""Heads of messages, as HAProxy 2.6.12 writes them."""

from __future__ import annotations

import pytest

from mtproxy.log import syslog

NOW = 1_796_047_030.4759205


pytestmark = pytest.mark.usefixtures("utc")


@pytest.mark.parametrize(
    ("log_format", "facility", "expected"),
    [
        ("local", "local0", "<134>Nov 30 13:57:10 mytag[15450]: "),
        ("rfc3164", "local1", "<142>Nov 30 13:57:10 localhost mytag[15450]: "),
        ("rfc5424", "daemon", "<30>1 2026-11-30T13:57:10.475920+00:00 - mytag 15450 - - "),
        ("priority", "user", "<14>"),
        ("short", "user", "<6>"),
        ("timed", "user", "<6>2026-11-30T13:57:10.475920+00:00 "),
        ("iso", "user", "2026-11-30T13:57:10.475920+00:00 "),
        ("raw", "user", ""),
    ],
)
def test_formats(log_format: str, facility: str, expected: str):
    number = syslog.facility_number(facility)
    writer = syslog.HeadWriter(log_format, number, "mytag", 15450, "")
    assert writer.head(syslog.INFO, NOW) == expected


def test_hostname():
    writer = syslog.HeadWriter("rfc3164", 16, "t", 1, "box")
    assert writer.head(syslog.ERR, NOW) == "<131>Nov 30 13:57:10 box t[1]: "
    writer = syslog.HeadWriter("rfc5424", 16, "t", 1, "box")
    assert writer.head(syslog.ERR, NOW).endswith("+00:00 box t 1 - - ")


def test_day_of_month_is_padded_with_a_space():
    writer = syslog.HeadWriter("local", 16, "t", 1, "")
    assert writer.head(syslog.INFO, 1_775_131_200.0) == "<134>Apr  2 12:00:00 t[1]: "


def test_a_tag_with_braces():
    writer = syslog.HeadWriter("local", 16, "{month}", 1, "")
    assert writer.head(syslog.INFO, NOW).endswith(" {month}[1]: ")


def test_all_formats_of_the_configuration_are_known():
    for log_format in syslog.FORMATS:
        assert isinstance(syslog.HeadWriter(log_format, 0, "t", 1, "").head_now(0), str)


def test_names():
    assert syslog.level_number("emerg") == 0
    assert syslog.level_number("debug") == 7
    assert syslog.facility_number("kern") == 0
    assert syslog.facility_number("local7") == 23
    assert len(syslog.FACILITIES) == 24
    with pytest.raises(ValueError, match="emerg, alert"):
        syslog.level_number("loud")
    with pytest.raises(ValueError, match="kern, user"):
        syslog.facility_number("nowhere")

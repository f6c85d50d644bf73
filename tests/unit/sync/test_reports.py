"""Lock statistics as they are printed: HAProxy's block, JSON, the table, Prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields

import pytest

from mtproxy.sync import bare, debug, profile, reports, stats
from mtproxy.sync.labels import LABELS, LockLabel
from mtproxy.sync.locks import Lock
from mtproxy.sync.seeklock import SeekLock
from mtproxy.sync.stats import LockStats
from mtproxy.testing.counts import zero_counts

LABEL = LockLabel.OTHER


@pytest.fixture(autouse=True)
def _zero() -> Iterator[None]:
    for label in LABELS:
        zero_counts(label, 4)
    yield
    profile.switch_off()
    profile.reset()


def use(times: int = 1) -> None:
    lock = SeekLock(LABEL)
    for _ in range(times):
        lock.take_read(0)
        lock.drop_read(0)
        lock.take_write(0)
        lock.drop_write(0)


TASK_WQ = LockStats(
    label="TASK_WQ",
    read_locks=240367,
    read_unlocks=240367,
    seek_locks=0,
    seek_unlocks=0,
    write_locks=9872564,
    write_unlocks=9872564,
    failed_upgrades=0,
    read_waits=11,
    seek_waits=0,
    write_waits=12,
    read_wait_ns=149025293,
    seek_wait_ns=0,
    write_wait_ns=9208409000,
    read_longest_wait_ns=2500000,
    seek_longest_wait_ns=0,
    write_longest_wait_ns=1000,
)


def test_text_of_a_lock_without_seekers() -> None:
    assert reports.render_one(TASK_WQ) == (
        "Stats about Lock TASK_WQ:\n"
        "\t write lock  : 9872564\n"
        "\t write unlock: 9872564 (0)\n"
        "\t wait time for write     : 9208.409 msec\n"
        "\t wait time for write/lock: 932.727 nsec\n"
        "\t read lock   : 240367\n"
        "\t read unlock : 240367 (0)\n"
        "\t wait time for read      : 149.025 msec\n"
        "\t wait time for read/lock : 619.991 nsec\n"
        "\t failed upgrades         : 0\n"
        "\t longest wait            : 2.500 msec\n"
    )


def test_text_of_a_seeker_that_is_there() -> None:
    one = LockStats("TASK_WQ", 0, 0, 8, 7, 0, 0, 3, 0, 2, 0, 0, 4000, 0, 0, 4000, 0)
    assert reports.render_one(one) == (
        "Stats about Lock TASK_WQ:\n"
        "\t seek lock   : 8\n"
        "\t seek unlock : 7 (-1)\n"
        "\t wait time for seek      : 0.004 msec\n"
        "\t wait time for seek/lock : 500.000 nsec\n"
        "\t failed upgrades         : 3\n"
        "\t longest wait            : 0.004 msec\n"
    )


def test_text_of_an_unused_lock() -> None:
    assert reports.render_text(LABEL) == "Stats about Lock OTHER: not used\n"


def test_text_and_json_have_every_label() -> None:
    use()
    names = [label.name for label in LABELS]
    text = reports.render_text()
    assert re.findall(r"^Stats about Lock (\w+):", text, re.MULTILINE) == names
    assert "".join(reports.blocks()) == text
    decoded = json.loads(reports.render_json())
    assert [one["label"] for one in decoded] == names
    assert set(decoded[0]) >= {field.name for field in fields(LockStats)}
    by_name = {one["label"]: one for one in decoded}
    assert by_name["OTHER"]["write_locks"] == by_name["OTHER"]["read_locks"] == 1
    assert by_name["OTHER"]["profile"] is None
    assert by_name["OTHER"]["seconds"] > 0


def test_text_of_a_profile() -> None:
    profile.switch_on()
    use(3)
    stats.record_wait(stats.slots_of(LABEL)[0], LABEL, stats.READ_WAITS, 5)
    text = reports.render_text(LABEL)
    own = r"use:\d+ \(tests/unit/sync/test_reports\.py\)"
    assert re.fullmatch(
        r"Stats about Lock OTHER:\n"
        r"\t write lock  : 3\n"
        r"\t write unlock: 3 \(0\)\n"
        r"\t wait time for write     : [\d.]+ msec\n"
        r"\t wait time for write/lock: [\d.]+ nsec\n"
        r"\t read lock   : 3\n"
        r"\t read unlock : 3 \(0\)\n"
        r"\t wait time for read      : [\d.]+ msec\n"
        r"\t wait time for read/lock : [\d.]+ nsec\n"
        r"\t failed upgrades         : 0\n"
        r"\t longest wait            : [\d.]+ msec\n"
        r"\t hold time for write     : [\d.]+ msec\n"
        r"\t hold time for write/lock: [\d.]+ nsec\n"
        r"\t longest hold for write  : [\d.]+ msec\n"
        r"\t hold time for read      : [\d.]+ msec\n"
        r"\t hold time for read/lock : [\d.]+ nsec\n"
        r"\t longest hold for read   : [\d.]+ msec\n"
        rf"(\t longest hold at         : {own} (read|write), [\d.]+ msec"
        r" \(3 times, [\d.]+ msec\)\n){2}",
        text,
    ), text


def test_json_of_a_profile() -> None:
    profile.switch_on()
    use(2)
    found = {one["label"]: one for one in json.loads(reports.render_json())}["OTHER"]["profile"]
    assert found["on"] is True
    assert {kind: one["count"] for kind, one in found["holds"].items()} == {
        "read": 2,
        "seek": 0,
        "write": 2,
    }
    assert {site["kind"] for site in found["hold_sites"]} == {"read", "write"}
    assert all(site["function"] == "use" for site in found["hold_sites"])
    profile.switch_off()
    left = {one["label"]: one for one in json.loads(reports.render_json())}["OTHER"]["profile"]
    assert left == found | {"on": False}


def test_top_is_ordered_by_waiting_and_tells_shares() -> None:
    use()
    lock = Lock(LockLabel.SERVER)
    lock.take(0)
    lock.drop(0)
    slots = stats.slots_of(LockLabel.TASK_WQ)
    stats.record_wait(slots[0], LockLabel.TASK_WQ, stats.WRITE_WAITS, 4_000_000)
    lines = reports.render_top().splitlines()
    heads = r"LOCK locks locks/s waits waits/s wait ms wait % ns/lock longest ms failed up since s"
    assert re.fullmatch(heads.replace(" ", " +"), lines[0])
    assert [line.split()[0] for line in lines[1:3]] == ["TASK_WQ", "OTHER"]
    row = lines[1].split()
    assert row[:2] == ["TASK_WQ", "0"]
    assert row[3] == "1"
    assert row[5] == "4.000"
    assert lines[-1] == "# call sites and hold times: set profiling locks on"
    assert len({len(line) for line in lines[:-1]}) == 1
    assert len(reports.render_top(2).splitlines()) == 4


def test_share_is_of_the_time_of_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    one = LockStats("X", *[0] * 11, 1_000_000_000, 0, 0, 0, 4, seconds=10.0)
    row = reports._row(one, None, 2).split()
    # a second of the twenty that two threads have had in ten
    assert row[6] == "5.000"
    assert row[-1] == "10.0"


def test_top_with_a_profile() -> None:
    profile.switch_on()
    use(5)
    text = reports.render_top(1)
    head, row, *sites = text.splitlines()
    assert head.endswith("hold ms  hold %   ns/hold  longest ms   since s")
    assert len(head) == len(row)
    assert len(sites) == 2
    assert all("longest hold" in site and "use:" in site for site in sites)


SAMPLE = re.compile(r'^(\w+)\{lock="(\w+)"(?:,kind="(read|seek|write)")?\} ([0-9.e+-]+)$')


@pytest.mark.parametrize("profiled", [False, True])
def test_prometheus(profiled: bool) -> None:
    if profiled:
        profile.switch_on()
    use(2)
    values = {}
    families: dict[str, str] = {}
    name = ""
    for line in reports.render_prometheus().splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert name not in families
            assert line.endswith(".")
        elif line.startswith("# TYPE "):
            assert line.split()[2] == name
            families[name] = line.split()[3]
        else:
            sample = SAMPLE.match(line)
            assert sample is not None, line
            assert sample[1] == name
            values[sample.groups()[:3]] = float(sample[4])
    assert all(name.startswith("mtproxy_lock_") for name in families)
    for name, kind in families.items():
        assert kind == ("counter" if name.endswith("_total") else "gauge")
        assert {key[1] for key in values if key[0] == name} == {label.name for label in LABELS}
    assert values["mtproxy_lock_acquisitions_total", "OTHER", "read"] >= 2
    assert ("mtproxy_lock_holds_total" in families) is profiled
    if profiled:
        assert values["mtproxy_lock_holds_total", "OTHER", "write"] == 2
        assert values["mtproxy_lock_hold_seconds_total", "OTHER", "write"] > 0


def test_counters_for_prometheus_do_not_go_back() -> None:
    use(3)
    before = reports.render_prometheus()
    stats.reset()
    assert reports.render_prometheus() == before


def test_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reports.held_text() == ""
    debug.enable()
    try:
        assert reports.held_text() == "Locks held now:\n\t none\n"
        lock = Lock(LABEL)
        lock.take(0)
        assert reports.held_text() == "Locks held now:\n\t MainThread: OTHER(W)\n"
        lock.drop(0)
    finally:
        debug.disable()


def test_without_statistics() -> None:
    bare.strip()
    try:
        assert reports.render_text() == reports.render_top() == reports.BUILT_OUT
        assert reports.render_json() == "[]"
        assert reports.render_prometheus() == ""
    finally:
        bare.restore()

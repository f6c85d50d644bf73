"""Loggers: levels, filters, options, truncation; senders shared by the frontends of a thread."""

from __future__ import annotations

import re
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.addresses import Address, AddressKind
from mtproxy.base.log_settings import LogSettings, RingSettings
from mtproxy.config.keywords_log import parse_sample
from mtproxy.log import function, logger, syslog, targets
from mtproxy.log.logger import Sender, ThreadLogs, make_logger, open_senders, send_text
from mtproxy.log.ring import Ring, RingTarget
from mtproxy.log.sampling import STRATEGIES
from mtproxy.rules.logformat.grammar import FormatError
from mtproxy.sync import stats
from mtproxy.testing.logrecord import BADREQ, FakeRecord


class Memory(targets.LogTarget):
    """A target that keeps its messages."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.messages: list[bytes] = []
        self.closed = False

    def send(self, message: bytes) -> None:
        self.messages.append(message)
        self.sent += 1

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> dict[str, Memory]:
    """Memory targets by name, made instead of sockets."""
    made: dict[str, Memory] = {}

    def open_target(log: LogSettings) -> Memory:
        name = log.stdio or (log.address.text if log.address else "")
        assert name not in made, f"{name} was opened twice"
        made[name] = Memory(name)
        return made[name]

    monkeypatch.setattr(targets, "open_target", open_target)
    return made


def log_to(name: str, **changes: object) -> LogSettings:
    address = Address(AddressKind.UDP4, "127.0.0.1", 514, text=name)
    return LogSettings(address, **changes)  # type: ignore[arg-type]


def texts(target: Memory) -> list[str]:
    return [m.decode() for m in target.messages]


def test_a_line_leaves_with_head_and_newline(opened):
    log = make_logger([log_to("a", facility="local0")], "tag", 77, None, log_format="httplog")
    log.log(FakeRecord())
    log(FakeRecord(status=404))
    first, second = texts(opened["a"])
    assert re.fullmatch(
        r"<134>\w{3} [ \d]\d \d\d:\d\d:\d\d tag\[77\]: 127\.0\.0\.1:44768 .* "
        r'200 127 .* "GET /slow\?x=1 HTTP/1\.1"\n',
        first,
    )
    assert " 404 127 " in second
    assert log.enabled


def test_default_facility_and_tag(opened):
    make_logger([log_to("a")], None, 1, None).log(FakeRecord())
    assert re.match(r"<134>.* mtproxy\[1\]: Connect from ", texts(opened["a"])[0])


@pytest.mark.parametrize(
    ("name", "mode", "expected"),
    [
        ("", "http", "(fe/HTTP)\n"),
        ("", "tcp", "(fe/TCP)\n"),
        ("httplog", "http", 'HTTP/1.1"\n'),
        ("httplog-clf", "http", ' "" "" \n'),
        ("tcplog", "tcp", " 0/0\n"),
        ("%b:%s", "tcp", "be:s1\n"),
    ],
)
def test_choice_of_format(opened, name: str, mode: str, expected: str):
    make_logger([log_to("a")], None, 1, None, log_format=name, mode=mode).log(FakeRecord())
    assert texts(opened["a"])[0].endswith(expected)


def test_no_log_lines_no_logger():
    log = make_logger([], None, 1, None)
    assert not log.enabled
    log.log(FakeRecord())
    log.text(syslog.ALERT, "nobody hears")


def test_bad_format_is_refused(opened):
    with pytest.raises(FormatError):
        make_logger([log_to("a")], None, 1, None, log_format="%nope")


# --- levels


def test_level_filters(opened):
    logs = [
        log_to("quiet", level="err"),
        log_to("all", level="debug"),
        log_to("info", level="info"),
    ]
    log = make_logger(logs, None, 1, None)
    log.log(FakeRecord())
    assert [len(opened[n].messages) for n in ("quiet", "all", "info")] == [0, 1, 1]


def test_minimum_level_caps(opened):
    logs = [
        log_to("a", facility="user", minlevel="err"),
        log_to("b", facility="user", minlevel="debug"),
    ]
    senders = open_senders(logs, "t", 1, ThreadLogs())
    send_text(senders, syslog.EMERG, "x")
    send_text(senders, syslog.INFO, "y")
    assert [m[:4] for m in texts(opened["a"])] == ["<11>", "<14>"]
    assert [m[:4] for m in texts(opened["b"])] == ["<15>", "<15>"]


def test_send_text_is_filtered_and_formatted(opened):
    log = make_logger([log_to("a", level="notice", facility="local0")], "t", 9, None)
    log.text(syslog.NOTICE, "Server be/s1 is UP.")
    log.text(syslog.INFO, "not sent")
    log.text(syslog.EMERG, "backend be has no server available!")
    assert len(opened["a"].messages) == 2
    assert texts(opened["a"])[0].endswith(" t[9]: Server be/s1 is UP.\n")
    assert texts(opened["a"])[0].startswith("<133>")
    assert texts(opened["a"])[1].startswith("<128>")


# --- options

NORMAL = FakeRecord()
FAILED = [
    FakeRecord(status=503),
    FakeRecord(**BADREQ),
    FakeRecord(retries=1),
    FakeRecord(redispatched=True),
    FakeRecord(term_state="sD--"),
    FakeRecord(term_state="cD"),
    FakeRecord(status=500, term_state="LR--"),
]
HARMLESS = [NORMAL, FakeRecord(status=404), FakeRecord(term_state="LR--", status=200)]


def test_dontlog_normal(opened):
    log = make_logger([log_to("a")], None, 1, None, options=frozenset({"dontlog-normal"}))
    for record in HARMLESS:
        log.log(record)
    assert not opened["a"].messages
    for record in FAILED:
        log.log(record)
    assert len(opened["a"].messages) == len(FAILED)
    assert all(m.startswith("<134>") for m in texts(opened["a"]))


def test_log_separate_errors(opened):
    logs = [log_to("all", facility="local0"), log_to("errors", facility="local0", level="err")]
    log = make_logger(logs, None, 1, None, options=frozenset({"log-separate-errors"}))
    for record in HARMLESS + FAILED:
        log.log(record)
    levels = [m[:5] for m in texts(opened["all"])]
    assert levels == ["<134>"] * len(HARMLESS) + ["<131>"] * len(FAILED)
    assert [m[:5] for m in texts(opened["errors"])] == ["<131>"] * len(FAILED)


def test_both_together(opened):
    options = frozenset({"log-separate-errors", "dontlog-normal"})
    log = make_logger([log_to("a", facility="local0")], None, 1, None, options=options)
    for record in HARMLESS + FAILED:
        log.log(record)
    assert [m[:5] for m in texts(opened["a"])] == ["<131>"] * len(FAILED)


def test_dontlognull(opened):
    log = make_logger([log_to("a")], None, 1, None, options=frozenset({"dontlognull"}))
    log.log(FakeRecord(null=True, **BADREQ))
    log.log(FakeRecord(**BADREQ))
    assert len(opened["a"].messages) == 1


def test_null_connections_are_logged_without_the_option(opened):
    make_logger([log_to("a")], None, 1, None).log(FakeRecord(null=True))
    assert len(opened["a"].messages) == 1


def test_logasap(opened):
    options = frozenset({"logasap"})
    log = make_logger([log_to("a")], None, 1, None, options=options, log_format="httplog")
    assert log.logasap
    log.log(FakeRecord())
    assert "/+53 200 +127 " in texts(opened["a"])[0]


# --- form


def test_length_counts_the_head_but_not_the_newline(opened):
    """That of a datagram; on a descriptor the newline is one of them."""
    logs = [log_to("a", length=80, format="raw"), log_to("b", length=80), log_to("c", format="raw")]
    log = make_logger(logs, None, 1, None, log_format="httplog")
    log.log(FakeRecord())
    log.text(syslog.ALERT, "z" * 500)
    for name in ("a", "b"):
        assert [len(m) for m in opened[name].messages] == [81, 81]
        assert all(m.endswith(b"\n") for m in opened[name].messages)
    assert texts(opened["c"])[0].startswith(texts(opened["a"])[0][:-1])
    assert len(opened["c"].messages[1]) == 501


def test_exact_length_is_not_cut(opened):
    log = make_logger([log_to("a", length=80, format="raw")], None, 1, None, log_format="%b")
    log.log(FakeRecord(backend="b" * 79))
    log.log(FakeRecord(backend="b" * 80))
    log.log(FakeRecord(backend="b" * 81))
    assert opened["a"].messages == [b"b" * n + b"\n" for n in (79, 80, 80)]


@pytest.mark.parametrize(("kind", "bytes_"), [("stdout", 80), ("datagram", 81), ("ring", 79)])
def test_what_a_length_counts(kind: str, bytes_: int):
    """Of a text whose buffer is that of the longest line (HAProxy's): see `Sender.maximum`."""
    target = {
        "stdout": lambda: targets.StreamTarget("stdout", 1),
        "datagram": lambda: targets.DatagramTarget("d", socket.AF_UNIX, "/nowhere"),
        "ring": lambda: RingTarget(Ring(RingSettings("r", maxlen=90)), 1),
    }[kind]()
    sender = Sender(log_to("a", length=80), "t", 1, "", target, 80)
    sender.target = memory = Memory("m")
    sender.send(syslog.INFO, "x" * 200)
    target.close()
    assert [len(message) for message in memory.messages] == [bytes_]


@pytest.mark.parametrize("log_format", syslog.FORMATS)
def test_every_head_in_the_generated_function(opened, log_format: str):
    log = make_logger([log_to("a", format=log_format, facility="user")], "t", 5, None)
    log.log(FakeRecord())
    log.text(syslog.INFO, "text")
    line, text = texts(opened["a"])
    cut = line.index("Connect")
    assert re.sub(r"\d", "0", text[: -len("text\n")]) == re.sub(r"\d", "0", line[:cut])


def test_head_follows_the_clock(opened, monkeypatch: pytest.MonkeyPatch):
    now = [1_796_047_030.5]
    monkeypatch.setattr(function, "time", lambda: now[0])
    log = make_logger([log_to("a")], None, 1, None)
    for moment in (1_796_047_030.5, 1_796_047_030.9, 1_796_047_031.0, 1_796_047_000.0):
        now[0] = moment
        log.log(FakeRecord())
    seconds = [m.split(":")[2][:2] for m in texts(opened["a"])]
    assert seconds == ["10", "10", "11", "40"]  # the clock may be set back, too


def test_two_targets_get_the_same_text(opened):
    log = make_logger([log_to("a"), log_to("b", facility="user", format="short")], "t", 1, None)
    log.log(FakeRecord())
    one, two = texts(opened["a"])[0], texts(opened["b"])[0]
    assert two == "<6>" + one[one.index("Connect") :]


def test_text_that_is_not_ascii(opened):
    log = make_logger([log_to("a", format="raw")], None, 1, None, log_format="é%b")
    log.log(FakeRecord())
    log.text(syslog.ALERT, "\udcff?")
    assert opened["a"].messages == ["ébe\n".encode(), b"\xff?\n"]


def test_tag_that_is_not_utf_8(opened):
    """It came as bytes and leaves as bytes; a request must not fail of it."""
    log = make_logger([log_to("a")], "t\udcff", 1, None, log_format="%b")
    log.log(FakeRecord())
    assert opened["a"].messages[0].endswith(b" t\xff[1]: be\n")


# --- threads


def test_frontends_of_a_thread_share_a_target(opened):
    logs = ThreadLogs(SimpleNamespace(tid=3))
    assert logs.tid == 3
    one = make_logger([log_to("a")], "one", 1, None, thread_logs=logs)
    two = make_logger([log_to("a", facility="user")], "two", 1, None, thread_logs=logs)
    one.log(FakeRecord())
    two.log(FakeRecord())
    assert logs.sent == 0
    logs.flush()
    assert ["one[1]" in m for m in texts(opened["a"])] == [True, False]
    assert (logs.sent, logs.dropped) == (2, 0)
    opened["a"].dropped = 4
    assert logs.dropped == 4
    logs.close()
    assert opened["a"].closed


def test_send_hostname(opened):
    named = ThreadLogs(hostname="box")
    make_logger([log_to("a")], "t", 1, None, thread_logs=named).log(FakeRecord())
    assert " box t[1]: " in texts(opened["a"])[0]
    # a format that was asked for is kept
    make_logger([log_to("b", format="local")], "t", 1, None, thread_logs=named).log(FakeRecord())
    assert re.match(r"<134>\w{3} [ \d]\d [\d:]{8} t\[1\]: ", texts(opened["b"])[0])
    assert ThreadLogs().hostname == ""
    assert ThreadLogs(hostname="").hostname


def test_request_line_is_cut_at_the_uri_length(opened):
    log = make_logger([log_to("a")], None, 1, None, log_format="httplog", uri_length=20)
    log.log(FakeRecord(request_line=b"GET /" + b"a" * 100 + b" HTTP/1.1"))
    assert texts(opened["a"])[0].endswith('"GET /aaaaaaaaaaaaaa"\n')


def test_lines_of_a_turn_wait_for_its_end(opened):
    logs = ThreadLogs(SimpleNamespace(tid=0))
    log = make_logger([log_to("a"), log_to("b")], "t", 1, None, thread_logs=logs)
    log.log(FakeRecord())
    log.log(FakeRecord(client_port=1))
    assert opened["a"].messages == []
    log.text(syslog.ALERT, "at once")
    logs.flush()
    for name in ("a", "b"):
        assert ["at once" in t for t in texts(opened[name])] == [True, False, False]
        assert ":1 to " in texts(opened[name])[2]
    logs.flush()
    assert len(opened["a"].messages) == 3


# --- sampling


def sampled(name: str, spec: str, **changes: object) -> LogSettings:
    return log_to(name, sample=parse_sample(spec), **changes)


def statuses(target: Memory) -> list[int]:
    """Which messages came: their statuses count them."""
    return [int(re.findall(r"HTTP>(\d+)<", text)[0]) for text in texts(target)]


COUNTED = "HTTP>%ST<"


def log_statuses(log: logger.Logger, count: int, start: int = 200) -> None:
    for status in range(start, start + count):
        log.log(FakeRecord(status=status))


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def make(logs: list[LogSettings], strategy: str, **more: Any) -> logger.Logger:
    shared = logger.sampling_of(logs, strategy)
    return make_logger(logs, None, 1, None, log_format=COUNTED, shared_samples=shared, **more)


def test_four_samples_share_the_messages(opened, strategy: str):
    log = make([sampled(f"s{n}", f"{n}:4") for n in (1, 2, 3, 4)], strategy)
    log_statuses(log, 8)
    assert [statuses(opened[f"s{n}"]) for n in (1, 2, 3, 4)] == [
        [200, 204],
        [201, 205],
        [202, 206],
        [203, 207],
    ]


def test_samples_beside_whole_lines_and_other_formats(opened, strategy: str):
    log = make(
        [
            sampled("a", "1-2:3"),
            log_to("all"),
            sampled("b", "3:3", format="raw"),
            sampled("c", "1,3:3", format="raw", length=80),
            log_to("raw", format="raw"),
            sampled("d", "2:1000"),
        ],
        strategy,
    )
    log_statuses(log, 6)
    assert statuses(opened["all"]) == statuses(opened["raw"]) == list(range(200, 206))
    assert statuses(opened["a"]) == [200, 201, 203, 204]
    assert statuses(opened["b"]) == [202, 205]
    assert statuses(opened["c"]) == [200, 202, 203, 205]
    assert statuses(opened["d"]) == [201]
    assert texts(opened["b"]) == ["HTTP>202<\n", "HTTP>205<\n"]
    assert all(text.startswith("<134>") for text in texts(opened["a"]))


def test_lines_to_one_target_keep_their_order(opened, monkeypatch, strategy: str):
    one = Memory("one")
    monkeypatch.setattr(targets, "open_target", lambda _log: one)
    log = make(
        [
            sampled("x", "1:2", format="raw"),
            log_to("x", format="short"),
            sampled("x", "1-2:2", format="raw"),
        ],
        strategy,
    )
    log_statuses(log, 2)
    assert texts(one) == [
        "HTTP>200<\n",
        "<6>HTTP>200<\n",
        "HTTP>200<\n",
        "<6>HTTP>201<\n",
        "HTTP>201<\n",
    ]


def test_nothing_is_built_for_nobody(opened, strategy: str):
    """The record is not even looked at when no sampled line gets the message."""
    log = make([sampled("a", "2:3"), sampled("b", "2:6")], strategy)
    log.log(SimpleNamespace())
    with pytest.raises(AttributeError):
        log.log(SimpleNamespace())
    log.log(SimpleNamespace())


def test_samples_of_errors_alone(opened, strategy: str):
    log = make(
        [sampled("errors", "2:2", level="err"), sampled("all", "1-2:3"), log_to("e", level="err")],
        strategy,
        options=frozenset({"log-separate-errors"}),
    )
    for status in (200, 500, 201, 501, 502, 503):
        log.log(FakeRecord(status=status))
    assert statuses(opened["errors"]) == [501, 503]
    assert statuses(opened["all"]) == [200, 500, 501, 502]
    assert statuses(opened["e"]) == [500, 501, 502, 503]


def test_messages_that_are_not_logged_do_not_count(opened, strategy: str):
    log = make(
        [sampled("a", "1:2")], strategy, options=frozenset({"dontlognull", "dontlog-normal"})
    )
    log.log(FakeRecord(status=500))
    log.log(FakeRecord(status=200))
    log.log(FakeRecord(status=501, null=True))
    log.log(FakeRecord(status=502))
    log.log(FakeRecord(status=503))
    assert statuses(opened["a"]) == [500, 503]


def test_texts_count_like_lines(opened, strategy: str):
    log = make([sampled("a", "1:3"), sampled("b", "2:3", format="raw"), log_to("c")], strategy)
    log_statuses(log, 1)
    log.text(syslog.NOTICE, "HTTP>900<")
    log.text(syslog.NOTICE, "HTTP>901<")
    log_statuses(log, 1)
    assert statuses(opened["a"]) == [200, 200]
    assert statuses(opened["b"]) == [900]
    assert statuses(opened["c"]) == [200, 900, 901, 200]


def test_two_threads_share_a_count(strategy: str, monkeypatch: pytest.MonkeyPatch):
    stats.configure(2)
    made: list[Memory] = []

    def open_target(log: LogSettings) -> Memory:
        made.append(Memory("m"))
        return made[-1]

    monkeypatch.setattr(targets, "open_target", open_target)
    logs = [sampled("a", "1:2"), sampled("b", "2:2")]
    shared = logger.sampling_of(logs, strategy)
    loggers = []
    for tid in (0, 1):
        ctx = SimpleNamespace(tid=tid)
        thread_logs = ThreadLogs(ctx)
        one = make_logger(
            logs,
            None,
            1,
            ctx,
            log_format=COUNTED,
            thread_logs=thread_logs,
            shared_samples=shared,
        )
        loggers.append((one, thread_logs))
    for status, tid in enumerate((0, 1, 1, 0, 0, 1), 200):
        loggers[tid][0].log(FakeRecord(status=status))
    assert all(not target.messages for target in made)
    for _, thread_logs in loggers:
        thread_logs.flush()
    first_a, first_b, second_a, second_b = made
    assert statuses(first_a) + statuses(second_a) == [200, 204, 202]
    assert statuses(first_b) + statuses(second_b) == [203, 201, 205]


# --- rings


def test_into_rings(opened):
    stats.configure(2)
    raw = Ring(RingSettings("raw", maxlen=2000))
    short = Ring(RingSettings("short", format="short", maxlen=8))
    precise = Ring(RingSettings("precise", format="timed", maxlen=2000))
    rings = {ring.name: ring for ring in (raw, short, precise)}
    logs = [LogSettings(None, ring=name, format="iso") for name in rings]
    log = make_logger(logs, None, 1, None, log_format=COUNTED, thread_logs=ThreadLogs(rings=rings))
    log_statuses(log, 2)
    log.text(syslog.ERR, "text")
    assert raw.read(0, 1000)[0] == [b"HTTP>200<", b"HTTP>201<", b"text"]
    assert short.read(0, 1000)[0] == [b"<6>HTTP>", b"<6>HTTP>", b"<3>text"]
    assert all(
        re.fullmatch(rb"<[36]>\d{4}-.*T.*[+-]\d\d:\d\d (HTTP>20[01]<|text)", message)
        for message in precise.read(0, 1000)[0]
    )


def test_two_lines_into_one_ring(opened):
    stats.configure(2)
    ring = Ring(RingSettings("r", maxlen=2000))
    logs = [LogSettings(None, ring="r", length=80), LogSettings(None, ring="r")]
    thread_logs = ThreadLogs(SimpleNamespace(tid=1), rings={"r": ring})
    log = make_logger(
        logs, None, 1, SimpleNamespace(tid=1), log_format="x" * 100, thread_logs=thread_logs
    )
    log.log(FakeRecord())
    assert ring.end == 0
    thread_logs.flush()
    assert [len(message) for message in ring.read(0, 1000)[0]] == [80, 100]
    assert (thread_logs.sent, thread_logs.dropped) == (2, 0)

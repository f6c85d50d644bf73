"""The one form of messages on standard error."""

from __future__ import annotations

import io
import os

import pytest

from mtproxy.base import report


@pytest.mark.parametrize(
    ("severity", "expected"),
    [
        ("alert", "[ALERT]    (77) : text"),
        ("warning", "[WARNING]  (77) : text"),
        ("notice", "[NOTICE]   (77) : text"),
        ("diag", "[DIAG]     (77) : text"),
    ],
)
def test_process_numbers_stand_below_each_other(severity: str, expected: str):
    assert report.line(severity, "text", 77) == expected


def test_say_names_this_process_on_standard_error(capsys: pytest.CaptureFixture[str]):
    report.say("warning", "one\ntwo")
    assert capsys.readouterr().err == f"[WARNING]  ({os.getpid()}) : one\ntwo\n"


def test_a_message_leaves_in_one_write():
    writes: list[str] = []

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            writes.append(text)
            return len(text)

    report.say("alert", "text", Stream())
    assert writes == [f"[ALERT]    ({os.getpid()}) : text\n"]


def test_a_reader_that_has_gone_ends_nothing():
    rd, wr = os.pipe()
    os.close(rd)
    with os.fdopen(wr, "w") as stream:
        report.say("alert", "into the void", stream)
        # what the buffer still holds would fail again when the stream is closed
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, wr)
        os.close(null)

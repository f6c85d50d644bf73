"""Writing to a standard error that is closed, broken or full."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mtproxy.base import stderr
from mtproxy.base.stderr import write_error


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stderr._State, "stalled", False)


@contextmanager
def standard_error(fd: int) -> Iterator[None]:
    """Make `fd` standard error. Not as a fixture: pytest sets its own after those."""
    with open(fd, "w", closefd=False) as stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        yield


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """(reader, writer) of a pipe."""
    reader, writer = os.pipe()
    yield reader, writer
    for fd in (reader, writer):
        try:
            os.close(fd)
        except OSError:
            continue


def test_text_arrives_in_order(pipe: tuple[int, int]) -> None:
    with standard_error(pipe[1]):
        sys.stderr.write("first ")
        write_error("é\udcff\n")
    assert os.read(pipe[0], 100) == "first é\\udcff\n".encode()


def test_no_stream_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    write_error("x\n")


def test_a_stream_without_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = io.StringIO()
    monkeypatch.setattr(sys, "stderr", memory)
    write_error("x\n")
    assert memory.getvalue() == "x\n"
    memory.close()
    write_error("y\n")


def test_the_reader_has_gone(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    with standard_error(pipe[1]):
        write_error("x\n")
        write_error("y\n")


def test_a_full_pipe_holds_up_once_and_recovers(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    big = "x" * 1_000_000 + "\n"
    with standard_error(writer):
        write_error(big)  # as much as there is room for
        assert stderr._State.stalled
        held = os.read(reader, 1 << 20)
        assert 4096 <= len(held) < len(big)
        write_error("again\n")
    assert not stderr._State.stalled
    assert os.read(reader, 100) == b"again\n"

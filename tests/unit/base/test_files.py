"""Reading what a configuration names: whatever it is, it ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mtproxy.base import files
from mtproxy.base.files import read_whole


def test_files_and_devices(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\0text\xff")
    assert read_whole(str(tmp_path / "f")) == b"\0text\xff"
    assert read_whole("/dev/null") == b""


def test_what_has_no_end_is_refused() -> None:
    with pytest.raises(OSError, match="no end"):
        read_whole("/dev/zero")


def test_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_whole(str(tmp_path))


def test_a_pipe_without_a_writer_is_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    assert read_whole(str(tmp_path / "p")) == b""


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a\nb\n")
    os.close(writing)
    assert read_whole(f"/dev/fd/{reading}") == b"a\nb\n"
    os.close(reading)


def test_a_silent_pipe_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PATIENCE_MS", 1)
    reading, writing = os.pipe()
    with pytest.raises(OSError, match="nothing comes"):
        read_whole(f"/dev/fd/{reading}")
    os.close(reading)
    os.close(writing)

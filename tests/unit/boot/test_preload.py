"""What is imported before files go out of sight."""

from __future__ import annotations

import subprocess
import sys

from mtproxy.base.settings import GlobalSettings, Settings
from mtproxy.boot import preload


def test_nothing_where_files_stay_in_sight() -> None:
    assert preload.needed(Settings(GlobalSettings(), ())) == ()


def test_whoever_leaves_takes_all_with_it() -> None:
    for glob in (
        GlobalSettings(chroot="/var/lib/x"),
        GlobalSettings(user="nobody"),
        GlobalSettings(uid=65534),
    ):
        assert "encodings.unicode_escape" in preload.needed(Settings(glob, ()))


def test_every_name_is_a_module() -> None:
    """In a process of its own: here they may be there already."""
    code = "import importlib, sys; [importlib.import_module(one) for one in sys.argv[1:]]"
    names = preload._ALWAYS + preload._DNS
    subprocess.run([sys.executable, "-c", code, *names], check=True)

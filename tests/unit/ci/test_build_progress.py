"""How far a build is, read from what make prints."""

from __future__ import annotations

import pytest

from toolchain.build import compiled

COMPILE = b"gcc -c -O3 -o Objects/call.o Objects/call.c\n"
LIBTOOL = b"x86_64-linux-gnu-gcc -fno-plt -O3 -g0 -I. -c ./Modules/_ssl.c -o _ssl.o\n"
OTHER = b"gcc -shared _ssl.o -o _ssl.so\nrm -f x\n./configure --with-c\n"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (b"", "0 files compiled"),
        (OTHER + COMPILE * 3 + LIBTOOL + OTHER, "4 files compiled"),
        (
            b"checking PROFILE_TASK... -m test --pgo --timeout=\n" + COMPILE,
            "1 files compiled",
        ),
        (
            COMPILE * 9 + b"./python -m test --pgo --timeout=\n",
            "profiling",
        ),
        (
            b"Running code to generate profile data (this can take a while):\n"
            b"Building with support for profile generation:\n" + COMPILE * 2,
            "2 files compiled for the profile",
        ),
        (
            b"./python -m test --pgo --timeout=\n"
            b"0:00:01 load avg: 1.00 [ 1/44] test_array\n0:00:09 [12/44/1] test_bytes\n",
            "profiling test 12 of 44",
        ),
        (
            COMPILE * 9
            + b"./python -m test --pgo --timeout=\n[44/44] test_x\n"
            + b"Rebuilding with profile guided optimizations:\n"
            + COMPILE,
            "1 files compiled with the profile",
        ),
        (
            b"Rebuilding with profile guided optimizations:\n"
            + COMPILE * 2
            + b"gcc -flto -g -o python Programs/python.o libpython3.13t.a\n",
            "2 files compiled with the profile, linking",
        ),
    ],
)
def test_progress(log: bytes, told: str) -> None:
    assert compiled(log) == told

"""What each level of a runtime socket may do: every command at every level, here and in HAProxy."""

from __future__ import annotations

import pytest

from mtproxy.testing.configs import http
from mtproxy.testing.program import Program

USER = """
show stat|show info|show version|show backend|show servers state|show servers conn|show cli level
show cli sockets|show activity|show threads|show acl|show map|get acl x y|get map x y|add acl x y
add map x y z|del acl x|del map x|clear acl x|clear map x|prepare acl x|commit map @1 x|show table
get weight be/s1|set timeout cli 10|set severity-output none|show schema json|show pools|show tasks
show resolvers|show peers|show tls-keys|show ssl cert|show ssl ca-file|show ssl crl-file
show ssl ocsp-response|show events|help|set var proc.x int(1)
"""
OPERATOR = """
clear counters|show env NOPE|show errors|show fd|show sess|show sess all|get var proc.x|show libs
show startup-logs|show events buf0|operator
"""
ADMIN = """
clear counters all|disable server be/nope|enable server be/nope|set server be/nope state ready
set weight be/nope 1|disable health be/nope|enable health be/nope|disable agent be/nope
enable agent be/nope|disable frontend nope|enable frontend nope|shutdown frontend nope
shutdown session 0x12|shutdown sessions server be/nope|set maxconn frontend nope 1
set maxconn server be/nope 1|set maxconn global 0|set rate-limit connections global 0
set rate-limit sessions global 0|set profiling tasks auto|show profiling|add server be/nope
del server be/nope|experimental-mode|expert-mode|show cache|show ssl crt-list
"""
LEVELS = ("user", "operator", "admin")


def commands(text: str) -> list[str]:
    return [command for line in text.split("\n") for command in line.split("|") if command]


@pytest.fixture
def running(proxy) -> Program:
    started: Program = proxy(http(9))
    return started


@pytest.mark.parametrize(
    ("needed", "text"), [(0, USER), (1, OPERATOR), (2, ADMIN)], ids=list(LEVELS)
)
def test_levels(running: Program, needed: int, text: str) -> None:
    wrong = []
    for command in commands(text):
        for number, level in enumerate(LEVELS):
            lower = "" if level == "admin" else f"{level};"
            answer = running.cli(lower + command).removeprefix("\n" if lower else "")
            if answer.startswith("Permission denied") == (number >= needed):
                wrong.append((level, command, answer[:60]))
            assert not answer.startswith("Unknown command"), command
    assert not wrong

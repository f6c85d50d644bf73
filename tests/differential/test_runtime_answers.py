"""Answers of the runtime socket: wrong, missing and surplus words, levels, escapes, payloads and bytes
that are no text, each sent to both programs.

Compared is what a script sees: errors word for word, lists of commands by their beginning, reports by
their first line. What differs on purpose stands in `RECORDED`, and a recorded difference that is
none any more fails, too.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from mtproxy.testing.program import Program
from mtproxy.testing.waiting import PATIENCE

CONFIGURATION = """
    maxconn 500
defaults
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 2s
frontend fe
    bind "fd@${fe}"
    default_backend be
backend be
    server s1 127.0.0.1:9
    server s2 127.0.0.1:9 weight 10 maxconn 5
backend st
    stick-table type ip size 10 store gpc0
"""
#: commands between bars, run in this order by each program: some change what later ones see
COMMANDS = r"""
sh st | sh | sho stat | show sta | show stat domain | show stat domain proxy
show stat domain dns | show stat domain nope | show stat x | show stat x 1 1
show stat -1 7 -1 extra | show stat -1 7 | show stat 1 2 3 4 | show stat be 7 -1
show stat up nope | show stat typed json | show sess -1 | show sess 0x0 | show sess 0x123
show sess nope | show sess all extra | show sess help | show nope | show | set maxconn
set maxconn server | set maxconn server be | set maxconn server be/s1
set maxconn server be/nope 3 | set maxconn server nope/s1 3 | set maxconn server be/s1 x
set maxconn server be/s1 -5 | set maxconn frontend | set maxconn frontend fe
set maxconn frontend fe x | set maxconn frontend fe 0 | set maxconn frontend nope 1
set maxconn frontend be 1 | set maxconn global | set maxconn global x | set maxconn global -1
set maxconn global 999999 | set maxconn nope 1 | set timeout | set timeout cli
set timeout cli abc | set timeout cli 5x | set timeout cli 0 | set timeout cli -3
set timeout cli 99999999999 | set timeout nope 3 | set rate-limit | set rate-limit connections
set rate-limit connections global | set rate-limit connections global x
set rate-limit connections nope 3 | set rate-limit sessions | set rate-limit sessions global -1
set rate-limit ssl-sessions global 5 | set rate-limit http-compression global 5
set rate-limit http-compression global x | set rate-limit nope | set severity-output
set severity-output nope | set severity-output string | set weight | set weight be
set weight be/s1 | set weight be/s1 x | set weight be/s1 -1 | set weight be/s1 10x
set weight be/s1 50% | set weight be/s1 5x% | set weight be/s1 1000% | set weight be/s1 -5%
set weight be/s1 257 | set weight be/nope 5 | set weight nope/s1 5 | get weight | get weight be
get weight be/ | get weight be/s1 extra | get weight be/nope | get weight nope/s1 | set server
set server be | set server be/s1 | set server be/s1 nope | set server be/s1 state
set server be/s1 state nope | set server be/s1 weight | set server be/s1 weight x
set server be/s1 health | set server be/s1 health up | set server be/s1 health nope
set server be/s1 agent | set server be/s1 agent up | set server be/s1 agent nope
set server be/s1 agent-addr | set server be/s1 agent-addr nope | set server be/s1 agent-port
set server be/s1 agent-port x | set server be/s1 agent-send | set server be/s1 check-addr
set server be/s1 check-addr 1.2.3.4 | set server be/s1 check-port
set server be/s1 check-port x | set server be/s1 check-port 99 | set server be/s1 addr
set server be/s1 addr nope | set server be/s1 addr 127.0.0.1
set server be/s1 addr 127.0.0.1 port | set server be/s1 addr 127.0.0.1 port x
set server be/s1 addr 127.0.0.1 nope 80 | set server be/s1 addr 127.0.0.1 port 99999
set server be/s1 addr 127.0.0.1 port +5 | set server be/s1 fqdn | set server be/s1 fqdn a.b
set server be/s1 ssl | set server be/s1 ssl on | set server be/s1 ssl nope
set server nope/s1 state ready | set server be/nope state ready | disable | disable server
disable server be | disable server be/nope | disable server nope/s1 | disable health be/s1
disable agent be/s1 | disable nope | disable frontend | disable frontend nope | enable
enable server | enable server be | enable server be/s1 | enable health be/s1
enable agent be/s1 | enable frontend | enable frontend fe | enable frontend nope | shutdown
shutdown frontend | shutdown frontend nope | shutdown session | shutdown session nope
shutdown session 0x0 | shutdown session 0xffff | shutdown sessions | shutdown sessions server
shutdown sessions server be | shutdown sessions server be/nope | shutdown sessions nope | clear
clear counters x | clear counters all x | clear counters | clear table | clear table nope
clear table st x | clear table st key | clear table st key x | clear table st data.nope gt 1
clear table st data.gpc0 | clear table st data.gpc0 gt | clear table st data.gpc0 gt x
clear table st data.gpc0 nope 1 | show table nope | show table be | show table st x
show table st key | show table st data.gpc0 | show table st data.gpc0 gt x | set table
set table nope | set table st | set table st key | set table st key x | set table st key 1.2.3.4
set table st key 1.2.3.4 data | set table st key 1.2.3.4 data.gpc0
set table st key 1.2.3.4 data.gpc0 x | set table st key 1.2.3.4 data.nope 1 | set table st nope
show info xx | show info typed xx | show info desc typed | show errors 99 | show errors nope
show errors fe nope | show errors -1 | show errors -1 request | show errors -1 response extra
show errors request | show backend x | show servers | show servers state nope
show servers state 99 | show servers conn nope | show servers conn | show servers state
show cli | show cli nope | show cli level x | show cli sockets x | show env nope | show fd x
show fd 99999 | show fd -1 | show threads x | show activity x | show profiling nope
show tasks x | show resolvers nope | show resolvers | show events nope | show events buf0
show events buf0 -x | show events stdout | show map | show map nope | show acl | show acl nope
show acl #99 | show map #x | get map | get map nope | get map nope x | get acl | add map
add map nope a b | add acl | add acl nope | add acl nope x | del map | del acl | del acl nope
del acl nope x | clear map | clear acl | clear acl nope | commit | commit acl | commit acl x
commit acl @1 x | prepare | prepare acl | prepare acl nope | set map | set map nope
set map nope a b | get | get var | get var x | get var proc.x | get var proc.x y | get var txn.x
set var | set var x | set var proc.x | set var proc.x nope | set var proc.x int(3)
set var proc.x expr int(3) | set var proc.x fmt abc | set var txn.x int(3) | get nope | set nope
set | add | add nope | add server | add server be | add server be/s1
add server be/new 127.0.0.1:9 | add server nope/new 127.0.0.1:9 | del | del server
del server be/nope | del server be/s1 | del nope | operator x | user x | help | help sho
help show | help show sta | help show stat | help nope | help set maxconn | help disable | ?
prompt x | quit x | experimental-mode | experimental-mode on | experimental-mode nope
expert-mode | expert-mode on | expert-mode nope | wait | wait x | wait 1ms | show version x
show libs | show libs x | show ssl | show ssl nope | show pools x | show startup-logs x
show schema | show schema nope | show schema json x | show cache x | show peers x
show tls-keys x | set profiling | set profiling nope | set profiling tasks
set profiling tasks nope | set profiling memory on | set dynamic-cookie-key
set dynamic-cookie-key backend | set dynamic-cookie-key backend be
set dynamic-cookie-key backend be x | enable dynamic-cookie backend be
disable dynamic-cookie backend | disable dynamic-cookie backend nope | SHOW INFO | Show info
show  info  xx"""
#: whole inputs of a session
SESSIONS = (
    b"show version;show version\n",
    b"show version\\;x\n",
    b"show\\ version\n",
    b"get weight be\\/s1\n",
    b"show env a\\;b\n",
    b"show env a\\\\;show version\n",
    b";\n",
    b";;\n",
    b" ; \n",
    b"\n\n",
    b" \n",
    b"show version;;show version\n",
    b"show version; \n",
    b"show version;",
    b"show version",
    b"show version\r\n",
    b"\r\n",
    b"\tshow version\n",
    b"show version <<\n\n",
    b"show version <<\nx\n\n",
    b"show version <<\nx\n",
    b"show version <<\n",
    b"show version << x\n",
    b"show version <<x\n1\nx\n",
    b"show version <<x\n1\n\nx\nshow version\n",
    b"show version<<\nfoo\n\n",
    b"show version <<\nx\n\nshow version\n",
    b"show version <<; show version\nx\n\n",
    b"add acl nope <<\nx\n\n",
    b"show env NOPE <<\nx\n\n",
    b"<<\nx\n\n",
    b"show version <<12345678\nx\n\n",
    b"x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x \n",
    b"show env x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x \n",
    b"show \xff\xfe\n",
    b"show env \xff\n",
    b"show env a\x00b\n",
    b"\x00\n",
    b"\x80\n",
    b"show version\x00\n",
    b"show version\x01\n",
    b"prompt\n",
    b"prompt\nshow version\n",
    b"prompt;show version\n",
    b"prompt\nprompt\n",
    b"prompt\nquit\n",
    b"prompt\nshow version <<\nx\n\nquit\n",
    b"prompt\n\n\n",
    b"prompt\nfoo\n",
    b"prompt;prompt;show version\n",
    b"quit;show version\n",
    b"show version;quit\n",
    b"set severity-output number;show nope x;set weight be/s1 999\n",
    b"set severity-output string;set weight be/s1 999;get weight be/s1\n",
    b"set severity-output string;show cli level\n",
    b"operator;user;show cli level\n",
    b"operator;help\n",
    b"experimental-mode on;show cli level\n",
    b"expert-mode on;debug dev nope\n",
    b"debug dev nope\n",
    b"debug\n",
    b"@1 show version\n",
    b"@ show version\n",
    b"@@1 show version\n",
    b"#\n",
    b"# x\n",
    b"show version # x\n",
    b'"show" version\n',
    b"'show version'\n",
    b'show env "a b"\n',
    b"operator;operator\n",
    b"show env " + b"x" * 15000 + b"\n",
    b"x" * 15000 + b"\n",
    b"show env " + b"x " * 70 + b"\n",
)
#: what the commands are sent behind
BEFORE = (b"set severity-output number", b"user", b"operator")

_LATER = "a command of later versions"
_STRICT = "a word that is no number, or no key, is told of; HAProxy does nothing and says nothing"
_PREFIX = "what begins like the words is listed, HAProxy lists what resembles them"
_ABSENT = "not supported, and said so"

RECORDED: dict[bytes, str] = {
    b"set maxconn server be/s1 -5": _STRICT,
    b"clear counters x": _STRICT,
    b"clear counters all x": _STRICT,
    b"clear table st key x": _STRICT,
    b"set table st key x": _STRICT,
    b"show fd x": _STRICT,
    b"show fd -1": _STRICT,
    b"show activity x": "one of the threads may be asked for, as in later versions",
    b"show acl": "HAProxy lists two of its HTTP client's",
    b"help nope": _PREFIX,
    b"prompt x": _LATER,
    b"wait": _LATER,
    b"wait x": _LATER,
    b"wait 1ms": _LATER,
    b"wait 1": _LATER,
    b"show startup-logs x": "our start says more",
    b"show version <<x\n1\nx": _LATER,
    b"show version <<x\n1\n\nx\nshow version": _LATER,
    b"show version<<\nfoo\n": "no blank is needed before `<<`",
    b"show version <<; show version\nx\n": "`<<` announces a payload at the end of a line",
    b"debug dev nope": _ABSENT,
    b"expert-mode on;debug dev nope": _ABSENT,
    b"set profiling": "locks have a profile, too",
    b"set profiling nope": "locks have a profile, too",
    b"set profiling memory on": "the reason is told",
    **dict.fromkeys(
        (
            b"set dynamic-cookie-key",
            b"set dynamic-cookie-key backend",
            b"set dynamic-cookie-key backend be",
            b"set dynamic-cookie-key backend be x",
            b"enable dynamic-cookie backend be",
            b"disable dynamic-cookie backend",
            b"disable dynamic-cookie backend nope",
        ),
        _ABSENT,
    ),
}
#: where the session has not the level that a command needs
DENIED = re.compile(rb"(?:clear|set) table|help ")
_DENIED = "the level is looked at before the words; `help` lists what the level allows"


def words(answer: bytes) -> bytes:
    """What of an answer is compared."""
    answer = re.sub(rb"0x[0-9a-f]{4,}", b"PTR", answer)
    answer = re.sub(rb"\[\d\d/\w+/\d{4}:[\d:.]+\]", b"[DATE]", answer)
    answer = re.sub(rb"\b(?:0\.\d\.\d|2\.6\.\d+-\S+)$", b"VERSION", answer, flags=re.MULTILINE)
    # lists of commands
    answer = re.sub(rb"(?m)^  [a-z@][^\n]*: [^\n]*\n", b"", answer)
    # reports: how they begin says which one it is; inside, HAProxy's may have empty lines, too
    for head in REPORTS:
        answer = re.sub(
            rb"(?ms)^" + head + rb".*\Z", b"REPORT " + head.replace(b"\\", b"") + b"\n", answer
        )
    answer = re.sub(rb"(?m)^(\[6\]: )?PTR-PTR [^\n]*\n", rb"\1", answer)
    # HAProxy ends some messages with one newline instead of two
    return re.sub(rb"\n+\Z", b"\n", answer)


#: beginnings of reports whose lines tell numbers, pointers and paths
REPORTS = (
    rb"# pxname,",
    rb"Name: ",
    rb"0\.Name\.1:",
    rb"PTR: proto=",
    rb"PTR: \[DATE\] id=",
    rb"1\n# be_id be_name ",
    rb"# socket lvl",
    rb"Dumping pools",
    rb"\[\[\{",
    rb"\{\"\$schema\"",
    rb"Supported events sinks",
    rb"thread_id: ",
    rb"[* ] Thread 1 ",
)


def talk(program: Program, data: bytes, *, half_close: bool) -> bytes:
    """All that comes back until the program closes; `<OPEN>` when it waits for more input."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(program.socket_path)
        sock.sendall(data)
        if half_close:
            sock.shutdown(socket.SHUT_WR)
        found = b""
        while part := sock.recv(65536):
            found += part
        return found


def answers(program: str, inputs: Sequence[bytes]) -> list[bytes]:
    with Program(program, CONFIGURATION) as running:
        running.wait_ready()
        found = [words(talk(running, data, half_close=True)) for data in inputs]
        assert running.alive()
        return found


def commands() -> list[bytes]:
    return [part.strip().encode() for part in re.split(r"[|\n]", COMMANDS.strip("\n"))]


def compare(inputs: Sequence[bytes]) -> None:
    """Send all to both programs, one after the other."""
    with ThreadPoolExecutor(2) as pool:
        mine, theirs = pool.map(answers, ("mtproxy", "haproxy"), (inputs, inputs))
    wrong = []
    for data, left, right in zip(inputs, mine, theirs, strict=True):
        command = data.removesuffix(b"\n")
        before, _, rest = command.partition(b";")
        why = RECORDED.get(command)
        if before in BEFORE:
            why = RECORDED.get(rest)
            if why is None and DENIED.match(rest) and before != BEFORE[0]:
                why = _DENIED
        if why is None and left != right:
            wrong.append(f"{data[:80]!r}\n  mtproxy {left[:300]!r}\n  haproxy {right[:300]!r}")
        elif why is not None and left == right and before not in BEFORE:
            wrong.append(f"{data[:80]!r} does not differ any more: {why}")
    assert not wrong, f"{len(wrong)} answers\n" + "\n".join(wrong)


def test_commands(haproxy: str) -> None:
    compare([command + b"\n" for command in commands()])


@pytest.mark.parametrize("before", BEFORE, ids=["severities", "user", "operator"])
def test_commands_of_a_session(haproxy: str, before: bytes) -> None:
    compare([before + b";" + command + b"\n" for command in commands()])


def test_sessions(haproxy: str) -> None:
    compare(SESSIONS)

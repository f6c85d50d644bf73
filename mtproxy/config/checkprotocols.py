"""Scripts of the checks that `option redis-check`, `smtpchk`, `mysql-check` and others stand for.

Each is a list of the words that a `tcp-check` rule would have, made for the words of its option.
The bytes are those of the protocols' own documents: RESP, RFC 5321, RFC 4511, RFC 6101 (SSL 3.0),
the PostgreSQL and MySQL client protocols, and SPOE.txt. Main thread, at load.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mtproxy.base.checkscript import ExpectStep, Pattern
from mtproxy.base.errors import ConfigError
from mtproxy.config.model import Statement

#: the words of a rule behind "tcp-check", or a step that has none
type Rule = tuple[str, ...] | ExpectStep

_CONNECT: Final = ("connect", "default", "linger")
#: a server's line, without the code that it begins with
_SAID: Final = "%[res.payload(4,0),ltrim(' '),cut_crlf]"
_LINE: Final = "%[res.payload(0,0),cut_crlf]"


@dataclass(frozen=True, slots=True)
class Script:
    """The rules in their order."""

    rules: tuple[Rule, ...]


def _custom(name: str, min_recv: int = -1) -> ExpectStep:
    return ExpectStep(pattern=Pattern.CUSTOM, data=name, min_recv=min_recv)


def _binary(data: bytes) -> tuple[str, str]:
    return "send-binary", data.hex()


def _redis(st: Statement) -> Script:
    st.at_most(0, taken=2)
    return Script(
        (
            ("send", "*1\r\n$4\r\nPING\r\n"),
            ("expect", "string", "+PONG\r\n", "error-status", "L7STS", "on-error", _LINE)
            + ("on-success", "Redis server is ok"),
        )
    )


def _smtp(st: Statement) -> Script:
    """`option smtpchk [HELO|EHLO NAME]`: anything else greets as localhost."""
    st.at_most(2, taken=2)
    hello = "HELO localhost"
    if st.arg(2) in ("HELO", "EHLO") and st.arg(3):
        hello = f"{st.arg(2)} {st.arg(3)}"
    refused = ("error-status", "L7STS", "on-error", _SAID, "status-code", "res.payload(0,3)")
    said = ("on-success", _SAID)
    return Script(
        (
            _CONNECT,
            ("expect", "rstring", "^[0-9]{3}[ \r]", "min-recv", "4", "error-status", "L7RSP")
            + ("on-error", _LINE),
            ("expect", "rstring", "^2[0-9]{2}[ \r]", "min-recv", "4", *refused),
            ("send", hello + "\r\n"),
            ("expect", "rstring", "^(2[0-9]{2}-[^\r]*\r\n)*2[0-9]{2}[ \r]", *refused, *said),
            ("send", "QUIT\r\n"),
            ("expect", "rstring", "^2[0-9]{2}[- \r]", "min-recv", "4", *refused, *said),
        )
    )


def _pgsql(st: Statement) -> Script:
    st.at_most(2, taken=2)
    if not st.arg(2) or not st.arg(3):
        raise ConfigError("'option pgsql-check' expects 'user <username>' as argument")
    if st.arg(2) != "user":
        raise ConfigError(
            f"'option pgsql-check' only supports 'user' (got '{st.arg(2)}')", word=st.arg(2)
        )
    # a start-up message: version 3.0, one parameter
    body = b"\0\3\0\0" + b"user\0" + os.fsencode(st.arg(3)) + b"\0\0"
    return Script(
        (
            _CONNECT,
            _binary((len(body) + 4).to_bytes(4) + body),
            # an error
            ("expect", "!rstring", "^E", "min-recv", "5", "error-status", "L7RSP")
            + ("on-error", "%[res.payload(6,0)]"),
            # a request to authenticate, of any kind
            ("expect", "rbinary", "^52000000[A-Z0-9]{2}000000(00|02|03|04|05|06|07|09|0A)")
            + ("min-recv", "9", "error-status", "L7STS")
            + ("on-success", "PostgreSQL server is ok", "on-error", "PostgreSQL unknown error"),
        )
    )


def _mysql(st: Statement) -> Script:
    """`option mysql-check [user NAME [post-41|pre-41]]`: without a user the greeting is enough."""
    st.at_most(3, taken=2)
    if not st.arg(2):
        return Script((_CONNECT, _custom("mysql-greeting")))
    if st.arg(2) != "user":
        raise ConfigError(
            f"'option mysql-check' only supports 'user' (got '{st.arg(2)}')", word=st.arg(2)
        )
    if not st.arg(3):
        raise ConfigError("'option mysql-check user' expects <username> as argument")
    user = os.fsencode(st.arg(3)) + b"\0"
    # capabilities, the largest packet; since 4.1 wider, with the character set and room
    match st.arg(4):
        case "" | "post-41":
            login = bytes.fromhex("00820000 00800001 21") + bytes(23)
        case "pre-41":
            login = bytes.fromhex("0080 000001")
        case other:
            raise ConfigError(
                f"'option mysql-check user' only supports 'post-41' and 'pre-41' (got '{other}')",
                word=other,
            )
    login += user + b"\0"
    quit_ = bytes.fromhex("010000 00 01")
    return Script(
        (
            _CONNECT,
            _binary(len(login).to_bytes(3, "little") + b"\1" + login + quit_),
            _custom("mysql-greeting"),
            _custom("mysql-ok"),
        )
    )


def _ldap(st: Statement) -> Script:
    """An anonymous bind of version 3."""
    st.at_most(0, taken=2)
    return Script(
        (
            _binary(bytes.fromhex("300c 020101 6007 020103 0400 8000")),
            ("expect", "rbinary", "^30", "min-recv", "14", "on-error", "Not LDAPv3 protocol"),
            _custom("ldap-bind"),
        )
    )


#: what the hello of an SPOE agent may carry at most: a buffer without the length before it
_SPOE_FRAME: Final = 16384 - 4


def _varint(number: int) -> bytes:
    """SPOE.txt, 3.1: one byte up to 239, else 4 and then 7 bits a byte."""
    if number < 240:
        return bytes([number])
    out = [number & 0xFF | 240]
    number = number - 240 >> 4
    while number >= 128:
        out.append(number & 0xFF | 128)
        number = number - 128 >> 7
    out.append(number)
    return bytes(out)


def _text(text: bytes) -> bytes:
    return _varint(len(text)) + text


def _spop(st: Statement) -> Script:
    """HAPROXY-HELLO with the item that says that it is a check (SPOE.txt, 3.2.4)."""
    st.at_most(0, taken=2)
    string, unsigned, true = b"\x08", b"\x03", b"\x11"
    frame = b"\x01" + (1).to_bytes(4) + b"\0\0"
    frame += _text(b"supported-versions") + string + _text(b"2.0")
    frame += _text(b"max-frame-size") + unsigned + _varint(_SPOE_FRAME)
    frame += _text(b"capabilities") + string + _text(b"")
    frame += _text(b"healthcheck") + true
    return Script((_binary(len(frame).to_bytes(4) + frame), _custom("spop-hello", 4)))


#: the ciphers that old servers know, so that each finds one
_CIPHERS: Final = (*range(0x01, 0x1C), *range(0x2F, 0x3B))


def _ssl_hello(st: Statement) -> Script:
    """The hello of an SSL 3.0 client: a record, a handshake message, its time and its random."""
    st.at_most(0, taken=2)
    ciphers = b"".join([cipher.to_bytes(2) for cipher in _CIPHERS])
    random = b"mtproxy checks that this is TLS"[:28]
    behind = random + b"\0" + len(ciphers).to_bytes(2) + ciphers + b"\1\0"
    hello = len(behind) + 6
    before = b"\x16\3\0" + (hello + 4).to_bytes(2) + b"\1" + hello.to_bytes(3) + b"\3\0"
    return Script(
        (
            ("send-binary-lf", f"{before.hex()}%[date,hex,bytes(8)]{behind.hex()}"),
            ("expect", "rbinary", "^1[56]", "min-recv", "5", "ok-status", "L6OK")
            + ("error-status", "L6RSP", "tout-status", "L6TOUT"),
        )
    )


#: by the name of the option
SCRIPTS: Final[dict[str, Callable[[Statement], Script]]] = {
    "ldap-check": _ldap,
    "mysql-check": _mysql,
    "pgsql-check": _pgsql,
    "redis-check": _redis,
    "smtpchk": _smtp,
    "spop-check": _spop,
    "ssl-hello-chk": _ssl_hello,
}

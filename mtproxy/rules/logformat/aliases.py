"""The `%` variables of a log format and the Python expression that each one becomes.

An expression reads the record `r` and the names of `code.namespace()`. Kinds of variables, as in
the table of the manual's section 8.2.6: strings obey the flags Q and E, numbers never do, and a few
numbers and addresses obey X.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

#: the name of the line's number, which `code.function_source` and `log.function` draw for a line
NUMBER: Final = "log_number"


@dataclass(frozen=True, slots=True)
class Flags:
    """What `%{+Q,-X,+E}` switched on.

    `mandatory`: a missing value is written as "-" (log lines), not as nothing (rules). `encoding`
    is "json", "cbor" or "". `header`: the text goes into a header: control characters of samples
    are written as %XX, and quotes are not (arguments of HTTP rules).
    """

    quote: bool = False
    hexa: bool = False
    escape: bool = False
    mandatory: bool = True
    binary: bool = False
    encoding: str = ""
    header: bool = False


@dataclass(frozen=True, slots=True)
class Alias:
    """One variable. `fragment(flags)` is source for the inside of an f-string between double
    quotes.
    """

    fragment: Callable[[Flags], str]
    #: the variable exists in `mode http` only
    http: bool = False
    #: expression that is false when the variable comes out empty (which swallows the space after
    #: it); None for one that never does
    filled: str | None = None
    #: encodings write it as a number
    numeric: bool = False


def _number(expression: str) -> Alias:
    return Alias(lambda flags: f"{{{expression}}}", numeric=True)


def _words(expression: str) -> Alias:
    """Text that no flag changes."""
    return Alias(lambda flags: f"{{{expression}}}")


def _hexable(expression: str, pattern: str, plain: str = "") -> Alias:
    """A number that flag X writes in hexadecimal with `pattern`, otherwise with the pattern
    `plain`.
    """

    def fragment(flags: Flags) -> str:
        chosen = pattern if flags.hexa else plain
        return f"{{{expression}:{chosen}}}" if chosen else f"{{{expression}}}"

    return Alias(fragment, numeric=True)


def _text(expression: str, flags: Flags) -> str:
    """A string expression under the flags Q and E."""
    if flags.escape:
        expression = f"structured({expression})"
    return f'\\"{{{expression}}}\\"' if flags.quote else f"{{{expression}}}"


def _string(expression: str) -> Alias:
    return Alias(lambda flags: _text(expression, flags))


def _missing(flags: Flags) -> str:
    """What stands for a value that is not there: `-`, or nothing between two quotes."""
    return "''" if flags.quote or not flags.mandatory else "'-'"


def _optional(expression: str) -> Alias:
    return Alias(lambda flags: _text(f"({expression} or {_missing(flags)})", flags))


def _cookie(attribute: str) -> Alias:
    def fragment(flags: Flags) -> str:
        value = f"encode(r.{attribute}, COOKIE_SAFE)"
        return _text(f"({_missing(flags)} if r.{attribute} is None else {value})", flags)

    return Alias(fragment, http=True)


def _address(attribute: str) -> Alias:
    def fragment(flags: Flags) -> str:
        if flags.hexa:  # HAProxy quotes no number
            return f"{{hex_address(r.{attribute})}}"
        return _text(f"r.{attribute}", flags)

    return Alias(fragment)


def _server_address(attribute: str) -> Alias:
    def fragment(flags: Flags) -> str:
        text = f"hex_address(r.{attribute})" if flags.hexa else f"r.{attribute}"
        text = f"({_missing(flags)} if r.{attribute} is None else {text})"
        return f"{{{text}}}" if flags.hexa else _text(text, flags)

    return Alias(fragment)


def _server_port(port: str, address: str) -> Alias:
    def fragment(flags: Flags) -> str:
        missing = "'\"\"'" if flags.quote else _missing(flags)
        number = f"format(r.{port}, '04X')" if flags.hexa else f"r.{port}"
        return f"{{{missing} if r.{address} is None else {number}}}"

    return Alias(fragment, numeric=True)


def _headers(attribute: str) -> Alias:
    def fragment(flags: Flags) -> str:
        return f"{{header_block(r.{attribute}, quoted={flags.quote}, escaped={flags.escape})}}"

    return Alias(fragment, filled=f"r.{attribute}")


def _header_list(attribute: str) -> Alias:
    def fragment(flags: Flags) -> str:
        return f"{{header_list(r.{attribute}, quoted={flags.quote}, escaped={flags.escape})}}"

    return Alias(fragment, filled=f"r.{attribute}")


def _request(part: str) -> Alias:
    return Alias(lambda flags: _text(f"{part}(r.request_line)", flags), http=True)


# First byte of the request: the accept date plus handshake and idle time.
_REQUEST_MS = "(r.accept_ms + r.t_h + r.t_i)"


def _stamp(ms: str) -> Alias:
    return Alias(lambda flags: f"{{clf[(ms := {ms}) // 1000]}}{{millis[ms % 1000]}}")


#: name -> variable; `%o` and `%%` are handled by the parser
ALIASES: dict[str, Alias] = {
    "B": _number("r.bytes_read"),
    "CC": _cookie("request_cookie"),
    "CS": _cookie("response_cookie"),
    "H": _string("hostname"),
    "HM": _request("method"),
    "HP": _request("path_without_query"),
    "HPO": _request("path_only"),
    "HQ": _request("query"),
    "HU": _request("target"),
    "HV": _request("version"),
    "ID": _optional("unique_id(r)"),
    "ST": _number("r.status"),
    "T": _words("gmt[r.accept_ms // 1000]"),
    "Ta": _number("r.t_a"),
    "Tc": _number("r.t_c"),
    "Td": _number("data_time(r)"),
    "Th": _number("r.t_h"),
    "Ti": _number("r.t_i"),
    "Tl": _words("local[r.accept_ms // 1000]"),
    "Tq": _number("r.t_q"),
    "TR": _number("r.t_R"),
    "Tr": _number("r.t_r"),
    "Ts": _hexable("(r.accept_ms // 1000)", "04X"),
    "Tt": _number("r.t_t"),
    "Tu": _number("(r.t_t - r.t_i)"),
    "Tw": _number("r.t_w"),
    "U": _number("r.bytes_uploaded"),
    "ac": _number("r.act_conn"),
    "b": _string("r.backend"),
    "bc": _number("r.be_conn"),
    "bi": _server_address("backend_src_ip"),
    "bp": _server_port("backend_src_port", "backend_src_ip"),
    "bq": _number("r.backend_queue"),
    "ci": _address("client_ip"),
    "cp": _hexable("r.client_port", "04X"),
    "f": _string("r.frontend"),
    "fc": _number("r.fe_conn"),
    "fi": _address("dst_ip"),
    "fp": _hexable("r.dst_port", "04X"),
    "ft": _string("(r.frontend if r.tls_version is None else r.frontend + '~')"),
    "hr": _headers("captured_request_headers"),
    "hrl": _header_list("captured_request_headers"),
    "hs": _headers("captured_response_headers"),
    "hsl": _header_list("captured_response_headers"),
    "lc": _hexable(NUMBER, "04X"),
    "ms": _hexable("r.accept_ms % 1000", "02X", "03d"),
    "pid": _hexable("pid", "04X"),
    "r": _request("uri"),
    "rc": _number("f'+{r.retries}' if r.redispatched else r.retries"),
    "rt": _hexable("r.request_count", "04X"),
    "s": _string("r.server"),
    "sc": _number("r.srv_conn"),
    "si": _server_address("server_ip"),
    "sp": _server_port("server_port", "server_ip"),
    "sq": _number("r.srv_queue"),
    "sslc": _optional("r.tls_cipher"),
    "sslv": _optional("r.tls_version"),
    "t": _stamp("r.accept_ms"),
    "tr": _stamp(_REQUEST_MS),
    "trg": _words(f"gmt[{_REQUEST_MS} // 1000]"),
    "trl": _words(f"local[{_REQUEST_MS} // 1000]"),
    "ts": _words("r.term_state[:2]"),
    "tsc": _words("r.term_state"),
}
#: HTTP only, beside those marked above
HTTP_ONLY = frozenset({"Ta", "Ti", "Tq", "TR", "Tr", "tr", "trg", "trl"})
#: values that `option logasap` marks with a `+`, because the final ones will be larger
PARTIAL = frozenset({"B", "Ta", "Tt", "Tu"})
#: nothing to capture without `capture` lines: known empty when the format is compiled
CAPTURES = frozenset({"hr", "hrl", "hs", "hsl"})

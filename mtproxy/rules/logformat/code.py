"""Log formats: text in HAProxy's `%` language in, one compiled Python expression out.

`compile_format` generates a single f-string over the record's attributes and compiles it, so that a
line costs one expression. Each thread compiles its own functions (code objects are shared, dates
and counters are not); a compiled function may only be called by the thread whose `LineDates` it was
given. Nothing here does I/O.

Spaces follow the manual (8.2.6) and what HAProxy does: several are merged into one, a leading one
is dropped, and the space after a variable that came out empty is swallowed when another space
stands before it.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from types import CodeType
from typing import Any

from mtproxy.rules.logformat import encoded, escape
from mtproxy.rules.logformat.aliases import ALIASES, CAPTURES, NUMBER, PARTIAL
from mtproxy.rules.logformat.dates import LineDates
from mtproxy.rules.logformat.grammar import (
    Encoding,
    Field,
    Literal,
    Piece,
    Sample,
    Space,
    parse_pieces,
)
from mtproxy.rules.logformat.record import LogRecord

#: `option httplog`
HTTPLOG = (
    "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc "
    "%ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r"
)
#: `option httplog clf`
CLFLOG = (
    '%{+Q}o %{-Q}ci - - [%trg] %r %ST %B "" "" %cp %ms %ft %b %s %TR %Tw %Tc %Tr %Ta %tsc '
    "%ac %fc %bc %sc %rc %sq %bq %CC %CS %hrl %hsl"
)
#: `option httpslog`; what it adds says for a connection without TLS that there is none
HTTPSLOG = HTTPLOG + " 0/-/-/-/0 -/%sslv/%sslc"
#: `option tcplog`
TCPLOG = "%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq"
#: without any format option: said when the connection is accepted
DEFAULTLOG_HTTP = "Connect from %ci:%cp to %fi:%fp (%f/HTTP)"
DEFAULTLOG_TCP = "Connect from %ci:%cp to %fi:%fp (%f/TCP)"

#: `tune.http.logurilen`: a request line longer than this minus one is cut
DEFAULT_URI_LENGTH = 1024

#: request lines of up to this many bytes are remembered with their text, that many per thread and
#: format
KEPT_LINE = 256
KEPT_LINES = 512

Formatter = Callable[[LogRecord], str]


# --- code generation ---------------------------------------------------------------------------


def expression_source(
    pieces: Sequence[Piece], *, logasap: bool = False, captures: bool = False, samples: str = "s"
) -> str:
    """The pieces as the source of one f-string. The expression of piece N is `<samples><N>(r)`.

    While walking, `space` says what the line built so far ends with: True a space, False something
    else, or the list of expressions that all have to be false for it to be a space.
    """
    if pieces and isinstance(pieces[0], Encoding):
        return _encoded_source(pieces, samples)
    out: list[str] = []
    space: bool | list[str] = True
    for number, piece in enumerate(pieces):
        match piece:
            case Space():
                if space is False:
                    out.append(" ")
                elif isinstance(space, list):
                    tests = " or ".join(space)
                    out.append("{' ' if " + tests + " else ''}")
                space = True
            case Literal(text):
                out.append(_quoted(text))
                space = False
            case Sample():
                out.append(f"{{{samples}{number}(r)}}")
                space = False
            case Field(name, flags):
                if name in CAPTURES and not captures:
                    continue
                alias = ALIASES[name]
                if flags.encoding:
                    value = _field_source(piece)
                    out.append(f"{{{flags.encoding}_value({value})}}")
                    space = False
                    continue
                if logasap and name in PARTIAL:
                    out.append("+")
                out.append(alias.fragment(flags))
                if alias.filled is None:
                    space = False
                elif space is not False:
                    space = [alias.filled] if space is True else [*space, alias.filled]
    return 'f"' + "".join(out) + '"'


def function_source(expression: str) -> str:
    """A function of the record out of what `expression_source` made; it numbers its own lines."""
    if NUMBER in expression:
        return f"lambda r: ({NUMBER} := next_log_number(), {expression})[1]"
    return "lambda r: " + expression


def _field_source(piece: Field) -> str:
    """A variable as a value for an encoding."""
    alias = ALIASES[piece.name]
    flags = replace(piece.flags, quote=False, escape=False, mandatory=False, encoding="")
    text = f'f"{alias.fragment(flags)}"'
    if alias.numeric and not flags.hexa:
        text = f"number_of({text})"
    return f"typed({text}, {piece.kind!r})" if piece.kind else text


def _encoded_source(pieces: Sequence[Piece], samples: str) -> str:
    """The source of the object that everything with a name goes into."""
    encoding = pieces[0]
    assert isinstance(encoding, Encoding)
    pairs = []
    for number, piece in enumerate(pieces):
        match piece:
            case Field() if piece.label:
                pairs.append(f"({piece.label!r}, {_field_source(piece)})")
            case Sample() if piece.label:
                pairs.append(f"({piece.label!r}, {samples}{number}(r))")
    listed = "[" + ", ".join(pairs) + "]"
    if encoding.name == "json":
        return f"json_object({listed})"
    return f"cbor_map({listed}, binary={encoding.binary})"


def _quoted(text: str) -> str:
    """Literal text for the inside of an f-string between double quotes."""
    escaped = text.encode("unicode_escape").decode("ascii")
    return escaped.replace('"', '\\"').replace("{", "{{").replace("}", "}}")


_code_cache: dict[str, CodeType] = {}


def compiled(source: str, mode: str = "eval") -> CodeType:
    """Compile once per process; two threads that race compile twice and one wins, harmlessly."""
    code = _code_cache.get(source)
    if code is None:
        code = _code_cache[source] = compile(source, "<log format>", mode)
    return code


@dataclass(frozen=True, slots=True)
class FormatContext:
    """What a format needs beside the record. All of it belongs to the calling thread."""

    dates: LineDates
    pid: int = 0
    hostname: str = ""
    uri_length: int = DEFAULT_URI_LENGTH
    next_log_number: Callable[[], int] | None = None
    #: the record's unique id, which may have to be made
    unique_id: Callable[[Any], str | None] = attrgetter("unique_id")


def namespace(context: FormatContext) -> dict[str, Any]:
    """The names that generated expressions use."""
    limit = context.uri_length - 1

    known: dict[bytes, str] = {}
    look_up = known.get

    def uri(line: bytes | None) -> str:
        if line is None:
            return escape.BADREQ
        text = look_up(line)
        if text is None:
            text = convert(line)
            if len(line) <= KEPT_LINE:
                if len(known) >= KEPT_LINES:
                    known.clear()
                known[line] = text
        return text

    def convert(line: bytes) -> str:
        if len(line) > limit:
            line = line[:limit]
        # Written out here: this is the one conversion of every HTTP line.
        if not line.translate(None, escape.URI_SAFE):
            return line.decode("ascii")
        return escape.encode(line, escape.URI_SAFE)

    dates = context.dates
    return {
        "clf": dates.clf,
        "gmt": dates.gmt,
        "local": dates.local,
        "millis": dates.millis,
        "pid": context.pid,
        "hostname": context.hostname,
        "next_log_number": context.next_log_number or itertools.count().__next__,
        "uri": uri,
        "method": lambda line: _part(uri(line), 0),
        "target": lambda line: _part(uri(line), 1),
        "version": lambda line: _part(uri(line), 2),
        "path_without_query": lambda line: _part(uri(line), 1).partition("?")[0],
        "path_only": lambda line: _path_only(_part(uri(line), 1)),
        "query": lambda line: _query(_part(uri(line), 1)),
        "encode": escape.encode,
        "structured": escape.structured,
        "header_block": escape.header_block,
        "header_list": escape.header_list,
        "COOKIE_SAFE": escape.COOKIE_SAFE,
        "hex_address": hex_address,
        "data_time": data_time,
        "unique_id": context.unique_id,
        "typed": encoded.typed,
        "number_of": encoded.number_of,
        "json_value": encoded.json_value,
        "json_object": encoded.json_object,
        "cbor_value": encoded.cbor_value,
        "cbor_map": encoded.cbor_map,
        "format": format,
    }


def compile_format(
    text: str,
    *,
    context: FormatContext | None = None,
    http: bool = True,
    logasap: bool = False,
    captures: bool = False,
) -> Formatter:
    """Compile `text` into a function from a record to its line (without header and newline).

    `captures` says whether the frontend has `capture` lines: without any, %hr and the like vanish
    from the code. Raises FormatError.
    """
    source = expression_source(parse_pieces(text, http=http), logasap=logasap, captures=captures)
    names = namespace(context or FormatContext(LineDates()))
    # eval() of our own generated source: names come from ALIASES, literals are escaped above.
    formatter: Formatter = eval(compiled(function_source(source)), names)  # noqa: S307
    return formatter


# --- parts that only custom formats use ----------------------------------------------------------


def _part(line: str, index: int) -> str:
    """Method, target or version of an encoded request line; "<BADREQ>" for a line without that
    part.
    """
    if line == escape.BADREQ:
        return line
    parts = line.split(" ")
    if index == 2:
        return parts[-1] if len(parts) > 2 else escape.BADREQ
    return parts[index] if index < len(parts) else escape.BADREQ


def _path_only(target: str) -> str:
    path = target.partition("?")[0]
    scheme = path.find("://")
    if scheme < 0:
        return path
    slash = path.find("/", scheme + 3)
    return path[slash:] if slash >= 0 else ""


def _query(target: str) -> str:
    if target == escape.BADREQ:
        return target
    mark = target.find("?")
    return target[mark:] if mark >= 0 else ""


def hex_address(address: str | None) -> str:
    """An IP address as hexadecimal digits (flag X); anything else as it is."""
    if address is None:
        return "-"
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_pton(family, address).hex().upper()
        except OSError:
            continue
    return address


def data_time(r: LogRecord) -> int:
    """%Td: the time spent on data, -1 when the response never came."""
    if r.t_r < 0 and r.status != -1:
        return -1
    done = sum(max(t, 0) for t in (r.t_q, r.t_w, r.t_c, r.t_r))
    return r.t_t - done

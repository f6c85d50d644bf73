"""The log function of a frontend, written as source text for exactly its `log` lines and options.

`generate` gives `log(record)` for one thread; everything in it belongs to that thread but the
sampled lines' counts (see `sampling`). It runs for every request, hence it tests only what the
configuration asks for, looks at nobody whom a message does not go to, and builds a line only when
somebody gets it.

Lines that send the same bytes (see `Sender.dress`) and stand side by side are one *run*: the bytes
are made once. A sampled run knows its senders from a table by the ticket of the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import time
from typing import TYPE_CHECKING, Any, Final

from mtproxy.log import syslog
from mtproxy.log.sampling import ThreadSampling, table_of
from mtproxy.rules.logformat import code
from mtproxy.rules.logformat.aliases import NUMBER
from mtproxy.rules.logformat.record import LogRecord

if TYPE_CHECKING:
    from mtproxy.log.logger import Sender

type Send = Callable[[bytes], object]


#: how a head ends that has structured data and says nothing there
NO_DATA: Final = "- "


@dataclass(slots=True)
class Line:
    """What a frontend's lines say: expressions of `r`, the record.

    `structured` is the structured data of RFC 5424 heads, empty for none. `levels`: the level may
    have been set for the transaction (`r.txn.log_level`). `counts`: the lines are numbered, because
    one of the frontend's formats asks for their number.
    """

    text: str
    structured: str = ""
    levels: bool = False
    counts: bool = False

    @property
    def texts(self) -> tuple[str, str]:
        return self.text, self.structured


def log_nothing(record: LogRecord) -> None:
    """The logger of a frontend without `log` lines."""


# A transaction is an error when its first termination letter says so (everything but a normal end
# and a local answer), when a connection had to be retried or sent elsewhere, or when the client got
# a 5xx.
_FAILED = "r.term_state[0] not in '-L' or r.retries or r.redispatched or r.status >= 500"


@dataclass(slots=True)
class _Run:
    """Neighbouring senders that send the same bytes, all of them sampled at one level or none."""

    number: int
    #: number among all log lines -> sender
    senders: dict[int, Sender]
    #: the level that their samples are counted at; None: not sampled
    level: int | None
    #: only what failed passes their filter (`log-separate-errors`)
    errors_only: bool
    #: set by _Writer: each message goes to exactly one, to at least one
    one: bool = False
    some: bool = True

    @property
    def first(self) -> int:
        return next(iter(self.senders))

    @property
    def dress(self) -> tuple[object, ...]:
        return next(iter(self.senders.values())).dress

    @property
    def certain(self) -> bool:
        """Every message goes to a sender of the run."""
        return self.some and not self.errors_only


def generate(
    senders: Sequence[Sender],
    line: Line,
    names: dict[str, Any],
    options: frozenset[str],
    samples: ThreadSampling | None,
    *,
    batched: bool,
) -> Callable[[LogRecord], None]:
    """`names`: what the expressions of `line` use; `options`: the frontend's.

    With `batched`, messages wait in their targets for the end of the turn.
    """
    writer = _Writer(senders, line, names, options, samples, batched=batched)
    if not writer.runs and not line.levels:
        return log_nothing
    # exec() of our own generated source, see `rules.logformat.code`
    exec(code.compiled("\n".join(writer.source()), "exec"), names)  # noqa: S102
    log: Callable[[LogRecord], None] = names["log"]
    return log


class _Writer:
    """Collects the lines of the function and the names that they use."""

    def __init__(
        self,
        senders: Sequence[Sender],
        line: Line,
        names: dict[str, Any],
        options: frozenset[str],
        samples: ThreadSampling | None,
        *,
        batched: bool,
    ) -> None:
        self.senders = senders
        self.line = line
        self.names = names
        self.options = options
        self.samples = samples
        self.batched = batched
        self.separate = "log-separate-errors" in options
        self.levels = [syslog.INFO, syslog.ERR] if self.separate else [syslog.INFO]
        self.runs = list(self._find_runs())
        names["time"] = time
        names["heads"] = _Heads(senders, self.levels)

    def _find_runs(self) -> Iterator[_Run]:
        def key(entry: tuple[int, Sender]) -> tuple[object, ...]:
            number, sender = entry
            return (sender.dress, not sender.wants(syslog.INFO), self._sampled_at(number))

        wanted = [
            (number, sender)
            for number, sender in enumerate(self.senders)
            if any(sender.wants(level) for level in self.levels)
        ]
        for number, (_, group) in enumerate(groupby(wanted, key)):
            members = dict(group)
            first = next(iter(members))
            yield _Run(
                number,
                members,
                self._sampled_at(first),
                not members[first].wants(syslog.INFO),
            )

    def _sampled_at(self, number: int) -> int | None:
        if self.samples is None:
            return None
        for level, sampled in self.samples.shared.sampled.items():
            if any(number == one for one, _ in sampled):
                return level
        return None

    def _send(self, sender: Sender) -> Send:
        return sender.target.waiting.append if self.batched else sender.target.send

    # -- the function ------------------------------------------------------------------------

    def source(self) -> list[str]:
        body = ["def log(r):"]
        if "dontlognull" in self.options:
            body.append("    if r.null: return")
        if "dontlog-normal" in self.options:
            body.append(f"    if not ({_FAILED}): return")
        counting = [f"    {NUMBER} = next_log_number()"] if self.line.counts else []
        if self.line.levels:
            self.names["at_level"] = self._at_level
            structured = self.line.structured or "''"
            body.append("    if r.txn.log_level is not None:")
            if counting:
                body += ["        if r.txn.log_level < 0: return", "    " + counting[0]]
            body.append(f"        at_level(r.txn.log_level, {self.line.text}, {structured})")
            body.append("        return")
        if not self.runs:
            return body
        body += counting
        if self.separate:
            # every line is a failed one where normal ones are not logged
            failed = "1" if "dontlog-normal" in self.options else f"bool({_FAILED})"
            body.append(f"    k = {failed}")
        body += self._choice()
        body += [
            "    now = time()",
            "    if not (heads.since <= now < heads.until): heads.refresh(now)",
            f"    text = {self.line.text}",
        ]
        if self.line.structured:
            body.append(f"    data = {self.line.structured} + ' '")
        #: what every message needs is made where it is first needed, once
        common = {run.dress for run in self.runs if run.certain}
        made: set[tuple[object, ...]] = set()
        for run in self.runs:
            if run.dress in common and run.dress not in made:
                made.add(run.dress)
                body += self._bytes(run, "    ")
            body += self._sending(run, run.dress in made)
        return body

    def _at_level(self, level: int, text: str, structured: str) -> None:
        """Send a message whose level a rule has set; -1: nobody gets it."""
        if level < 0:
            return
        skipped = self.samples.skipped(level) if self.samples is not None else ()
        if structured:
            structured += " "
        for number, sender in enumerate(self.senders):
            if number not in skipped:
                sender.send(level, text, structured)

    def _choice(self) -> Iterator[str]:
        """Draw tickets, look the senders up, and leave when there is none."""
        for level in dict.fromkeys(r.level for r in self.runs if r.level is not None):
            assert self.samples is not None
            runs = [run for run in self.runs if run.level == level]
            draw = self.samples.draws[level]
            self.names[f"draw{level}"] = draw.next
            ticket = f"draw{level}() % {draw.modulus}" if draw.modulus else f"draw{level}()"
            if len(runs) > 1:
                yield f"    t = {ticket}" + (" if k else 0" if runs[0].errors_only else "")
                ticket = "t"
            for run in runs:
                self._make_table(run)
                otherwise = " if k else ()" if run.errors_only else ""
                yield f"    c{run.number} = table{run.number}[{ticket}]{otherwise}"
        if not any(run.certain for run in self.runs):
            found = [f"c{run.number}" for run in self.runs if run.level is not None]
            if any(run.level is None for run in self.runs):
                found.append("k")
            yield f"    if not ({' or '.join(found)}): return"

    def _make_table(self, run: _Run) -> None:
        """The senders of each ticket: a tuple, or the one itself where it always is one."""
        assert self.samples is not None and run.level is not None
        sends = {number: self._send(sender) for number, sender in run.senders.items()}

        def entry(chosen: frozenset[int]) -> tuple[Send, ...]:
            return tuple(send for number, send in sends.items() if number in chosen)

        table = table_of(self.samples.shared, run.level, entry)
        name = f"table{run.number}"
        self.names[name] = table
        run.some = run.one = False
        # other tickets are bits of lines: not every one occurs
        if isinstance(table, list) and self.samples.draws[run.level].modulus:
            run.some = all(table)
            if not run.errors_only and all(len(found) == 1 for found in table):
                run.one = True
                self.names[name] = [found[0] for found in table]

    def _sending(self, run: _Run, made: bool) -> Iterator[str]:
        indent = "    "
        if run.level is None:
            if run.errors_only:
                yield "    if k:"
                indent += "    "
            if not made:
                yield from self._bytes(run, indent)
            for number, sender in run.senders.items():
                self.names[f"send{number}"] = self._send(sender)
                yield f"{indent}send{number}({self._data(run)})"
            return
        chosen = f"c{run.number}"
        if run.one:
            if not made:
                yield from self._bytes(run, indent)
            yield f"{indent}{chosen}({self._data(run)})"
            return
        if not made:
            yield f"{indent}if {chosen}:"
            yield from self._bytes(run, indent + "    ")
            indent += "    "
        yield f"{indent}for send in {chosen}: send({self._data(run)})"

    def _data(self, run: _Run) -> str:
        """The variable with the run's bytes."""
        numbers = {dress: n for n, dress in enumerate(dict.fromkeys(r.dress for r in self.runs))}
        return f"data{numbers[run.dress]}"

    def _bytes(self, run: _Run, indent: str) -> list[str]:
        """Make the run's bytes from the text."""
        sender = run.senders[run.first]
        data = self._data(run)
        if sender.precise:
            name = f"fresh{run.first}"
            self.names[name] = _fresh_head(sender, self.levels)
            head = f"{name}({'k' if self.separate else '0'}, now)"
            if self.line.structured and sender.structured:
                head += f"[:-{len(NO_DATA)}] + data"
        elif self.separate:
            head = f"heads[{run.first} + {len(self.senders)} * k]"
        else:
            head = f"heads[{run.first}]"
        if sender.whole:
            limit = sender.maximum
            return [
                f"{indent}{data} = text.encode('utf-8', 'surrogateescape')",
                f"{indent}if len({data}) > {limit}: {data} = {data}[:{limit}]",
                f"{indent}{data} = ({head}).encode('utf-8', 'surrogateescape') + {data}",
                f"{indent}if len({data}) > {sender.whole}: {data} = {data}[:{sender.whole}]",
            ]
        return [
            f"{indent}{data} = f'{{({head})}}{{text}}\\n'.encode('utf-8', 'surrogateescape')",
            f"{indent}if len({data}) > {sender.maximum + 1}:"
            f" {data} = {data}[:{sender.maximum}] + b'\\n'",
        ]


def _fresh_head(sender: Sender, levels: Sequence[int]) -> Callable[[int, float], str]:
    return lambda k, now: sender.head(levels[k], now)


class _Heads(list[str]):
    """Heads of the current second, ordered by level, then sender."""

    def __init__(self, senders: Sequence[Sender], levels: Sequence[int]) -> None:
        super().__init__()
        self._senders = senders
        self._levels = levels
        self.since = 0.0
        self.until = 0.0

    def refresh(self, now: float) -> None:
        self.since = float(int(now))
        self.until = self.since + 1.0
        self[:] = [s.head(level, now) for level in self._levels for s in self._senders]

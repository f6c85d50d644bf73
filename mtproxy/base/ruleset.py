"""The rules of a configuration as data: expressions, conditions, rules (manual 4.2, 7).

`rules.parse` makes these from the words of a statement, once, on the main thread; every thread
makes its own runtime functions from them (`rules.build`). Names of fetches, converters and actions
are those of the tables in `rules/`; their arguments are what the tables' entries made of the words,
and only the same entries read them. All of it is immutable and shared by all threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from mtproxy.base.location import Location

if TYPE_CHECKING:
    from mtproxy.base.sticktable import StickRule

NOWHERE = Location("", 0)


@dataclass(frozen=True, slots=True)
class Call:
    """A fetch or a converter with its arguments, already typed."""

    name: str
    args: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Expression:
    """A fetch and the converters behind it. `type` is what it gives (a `rules.types.Type`)."""

    text: str
    fetch: Call
    converters: tuple[Call, ...] = ()
    type: str = "any"


@dataclass(frozen=True, slots=True)
class Format:
    """A log-format string (manual 8.2.6): pieces as `rules.logformat.grammar` makes them.

    `constant` is the whole text where nothing in it varies, else None. `samples`: it evaluates
    expressions, for which a transaction has to be there.
    """

    text: str
    pieces: tuple[object, ...] = ()
    constant: bytes | None = None
    samples: bool = False


@dataclass(frozen=True, slots=True)
class PatternFile:
    """A file of patterns (`-f`), read with the flags that stand before it."""

    name: str
    ignore_case: bool = False
    #: -M: a map's file, of which the first column counts
    is_map: bool = False
    #: -n: no look-up of names in the DNS
    no_dns: bool = False


@dataclass(frozen=True, slots=True)
class PatternSpec:
    """What a sample is compared with: the patterns and flags of an ACL line.

    `match` is the method (manual 7.1.3): found, bool, int, ip, bin, len, str, beg, sub, dir, dom,
    end, reg or meth. `patterns` were written in the line.
    """

    match: str
    patterns: tuple[str, ...] = ()
    files: tuple[PatternFile, ...] = ()
    ignore_case: bool = False
    no_dns: bool = False
    #: -u: the number under which the runtime socket knows the patterns of the line
    unique_id: int | None = None
    location: Location = NOWHERE
    #: where the patterns are (`rules.patterns.reference.PatternExpr`): lists that may change
    exprs: tuple[Any, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AclLine:
    """One `acl` line, or an anonymous ACL in a condition: any of its patterns matches.

    `words` are as they were written, from the fetch on.
    """

    words: tuple[str, ...]
    expression: Expression
    patterns: PatternSpec

    @property
    def text(self) -> str:
        """The words in one, for messages."""
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class Term:
    """One test in a condition: the name of an ACL (all lines of that name), or a line itself.

    `dead` are the positions of lines that cannot match where the condition stands.
    """

    acl: str | AclLine
    negated: bool = False
    dead: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """`if` or `unless`: true where all tests of one of the suites are (manual 7.2)."""

    suites: tuple[tuple[Term, ...], ...]
    unless: bool = False
    text: str = ""
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a rule set: an action of the tables, and when.

    `words` are as they were written, from the action's own to the condition.
    """

    action: str
    args: object = None
    condition: Condition | None = None
    location: Location = NOWHERE
    words: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The rule in one, for messages."""
        condition = "" if self.condition is None else f" {self.condition.text}"
        return " ".join(self.words) + condition


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A whole HTTP response that was read at load (`errorfile`, `errorloc`).

    `version` is 10 or 11. `headers` are (lower-cased name, value) but Connection. `close`: the
    client's connection ends with it. `silent`: from an empty file, the connection ends without a
    word. `path`: the file; empty where there was none.
    """

    version: int
    status: int
    reason: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    close: bool = False
    silent: bool = False
    path: str = field(default="", compare=False)


class ReplyKind(StrEnum):
    """Where the body of a reply comes from."""

    EMPTY = "empty"  # there is none
    DEFAULT = "default-errorfiles"  # the whole reply is what the proxies have for the status
    SECTION = "errorfiles"  # the whole reply is what an http-errors section has
    STORED = "errorfile"  # the whole reply was read from a file
    BYTES = "string"
    FORMAT = "lf-string"


@dataclass(frozen=True, slots=True)
class ReplySpec:
    """A reply made here: `return`, `deny`, `tarpit`, `http-error` (manual 4.2).

    `status` is what logs say. `headers` and `content_type` go with EMPTY, BYTES and FORMAT alone.
    `words`: the statement that it came from, where it is one of its own (`errorfile`, ...).
    """

    status: int
    kind: ReplyKind = ReplyKind.EMPTY
    headers: tuple[tuple[bytes, Format], ...] = ()
    content_type: bytes | None = None
    body: bytes = b""
    format: Format | None = None
    section: str = ""
    stored: StoredMessage | None = None
    words: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """A `use_backend` or `use-server` line: a name, fixed or made for each request, and when."""

    name: Format
    condition: Condition | None = None
    location: Location = NOWHERE


@dataclass(frozen=True, slots=True)
class Reference:
    """Something that a rule names and that must exist when the whole configuration is known.

    `kind` is one of backend, frontend, proxy, server, table, userlist, http-errors, resolvers.
    `proxy` is where it was written (the one meant when `name` is empty). `title` is how messages
    name the statement.
    """

    kind: str
    name: str
    word: str
    location: Location
    proxy: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A variable, "txn.user", and what it is set to; None: nothing, it is unset.

    `conditions` are those of `rules.variables`. `words`: the value as it was written, in global.
    """

    name: str
    conditions: tuple[str, ...]
    value: Expression | Format | None
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Capture:
    """A slot for logs: what a header says, or what rules put there where `name` is empty.

    `name` is in lower case; `length` is the most that is kept, in bytes.
    """

    name: bytes
    length: int


@dataclass(frozen=True, slots=True)
class CookieCapture:
    """`capture cookie`: the first cookie whose "name=value" begins with `name`."""

    name: bytes
    length: int


@dataclass(frozen=True, slots=True)
class Captures:
    """What a frontend keeps of requests and responses for its log, by slot (manual 8.8, 8.7)."""

    request: tuple[Capture, ...] = ()
    response: tuple[Capture, ...] = ()
    cookie: CookieCapture | None = None


@dataclass(frozen=True, slots=True)
class Inherited:
    """The named `defaults` section that the first rules of a proxy come from.

    `mode` is the section's. `counts`: how many rules of each set were inherited.
    """

    name: str
    mode: str
    location: Location = NOWHERE
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatsPage:
    """The statistics page of a proxy (manual 4.2, the `stats` keywords).

    `uri` is the prefix that its requests begin with. `refresh`: seconds, 0 for none. `users`:
    (name, password) of `stats auth`. `scope`: names of the proxies that it shows, "." for its own;
    all of them where it is empty. `node` and `description` are None where they are not shown, and
    empty for those of the global section. `access`: the `stats http-request` rules. `admin`: who
    may change servers.
    """

    uri: bytes = b"/haproxy?stats"
    refresh: int = 0
    realm: bytes | None = None
    users: tuple[tuple[bytes, bytes], ...] = ()
    scope: tuple[str, ...] = ()
    hide_version: bool = False
    legends: bool = False
    modules: bool = False
    node: str | None = None
    description: str | None = None
    access: tuple[Rule, ...] = ()
    admin: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class ProxyRules:
    """The rules of one proxy.

    `sets` holds the rule sets by name ("http-request", "tcp-request content", ...; see
    `rules.points`), those that were inherited first. `acls` holds the lines of each named ACL.
    """

    sets: dict[str, tuple[Rule, ...]] = field(default_factory=dict)
    acls: dict[str, tuple[AclLine, ...]] = field(default_factory=dict)
    #: the backend of the first whose condition holds, before `default_backend`
    use_backend: tuple[Choice, ...] = ()
    use_server: tuple[Choice, ...] = ()
    #: `force-persist` (True) and `ignore-persist` (False) in their order
    persist: tuple[tuple[bool, Condition], ...] = ()
    #: `monitor fail`: 503 for `monitor-uri` while one of them holds
    monitor_fail: tuple[Condition, ...] = ()
    #: `stick` lines, in order
    stick: tuple[StickRule, ...] = ()
    #: ms that `tcp-request content` and `tcp-response content` rules may wait for bytes
    inspect_delay: int | None = None
    response_delay: int | None = None
    captures: Captures | None = None
    #: log-format, log-format-sd, error-log-format and unique-id-format, by keyword
    formats: dict[str, Format] = field(default_factory=dict)
    #: the header that tells the server the unique id
    unique_id_header: bytes | None = None
    #: None: all rules and ACLs that can be named are the proxy's own
    inherited: Inherited | None = None
    stats: StatsPage | None = None

    @property
    def any(self) -> bool:
        """Whether there is anything here that looks at connections, requests or responses."""
        return any(self.sets.values()) or bool(
            self.use_backend
            or self.use_server
            or self.persist
            or self.monitor_fail
            or self.stick
            or self.captures
            or self.stats
            or "unique-id-format" in self.formats
            or any(fmt.samples for fmt in self.formats.values())
        )

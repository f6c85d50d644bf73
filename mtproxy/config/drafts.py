"""The configuration while it is being read: mutable twins of the records in base.settings.

A proxy's draft starts as a copy of its `defaults` draft; a statement changes the draft; `freeze`
makes the immutable record that every other layer sees. Main thread only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from mtproxy.base.address import dynamic_cookie
from mtproxy.base.addresses import Address, BindSettings, SourceSettings
from mtproxy.base.location import Location
from mtproxy.base.log_settings import LogSettings, RingSettings
from mtproxy.base.ruleset import (
    AclLine,
    Capture,
    Captures,
    Choice,
    Condition,
    CookieCapture,
    Expression,
    Format,
    Inherited,
    ProxyRules,
    Reference,
    ReplySpec,
    Rule,
    StatsPage,
    StoredMessage,
)
from mtproxy.base.server_settings import (
    ExternalSettings,
    ServerSettings,
)
from mtproxy.base.settings import (
    BalanceSettings,
    CookieSettings,
    ForwardFor,
    GlobalSettings,
    ProxySettings,
    StatsSocket,
    Timeouts,
)
from mtproxy.base.sticktable import StickRule, StickTableSettings
from mtproxy.config.checks import ChecksDraft
from mtproxy.config.server_draft import ServerDraft, free_numbers

NOWHERE = Location("", 0)

#: what a ring has unless its section says otherwise, in bytes; HAProxy's
RING_MAXLEN = 1024
RING_SIZE = 16384


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """`errorfile` and its like: one reply, or those of an `http-errors` section.

    `statuses`: those that were asked for by number; none of them: all that the section has.
    """

    location: Location
    spec: ReplySpec | None
    section: str = ""
    statuses: tuple[int, ...] = ()


@dataclass(slots=True)
class HttpErrorsDraft:
    """An `http-errors` section."""

    name: str
    location: Location
    messages: dict[int, StoredMessage] = field(default_factory=dict)


@dataclass(slots=True)
class UserDraft:
    """A `user` line of a `userlist` section."""

    name: str
    location: Location
    password: str | None = None
    insecure: bool = False
    groups: tuple[str, ...] = ()


@dataclass(slots=True)
class UserlistDraft:
    """A `userlist` section. `groups`: the users that each names, and where."""

    name: str
    location: Location
    users: dict[str, UserDraft] = field(default_factory=dict)
    groups: dict[str, tuple[tuple[str, ...], Location]] = field(default_factory=dict)


@dataclass(slots=True)
class RulesDraft:
    """The rules of a proxy while they are read; the twin of `base.ruleset.ProxyRules`."""

    sets: dict[str, list[Rule]] = field(default_factory=dict)
    acls: dict[str, list[AclLine]] = field(default_factory=dict)
    use_backend: list[Choice] = field(default_factory=list)
    use_server: list[Choice] = field(default_factory=list)
    persist: list[tuple[bool, Condition]] = field(default_factory=list)
    monitor_fail: list[Condition] = field(default_factory=list)
    stick: list[StickRule] = field(default_factory=list)
    inspect_delay: int | None = None
    response_delay: int | None = None
    #: what has to exist when everything has been read
    references: list[Reference] = field(default_factory=list)

    def copy(self) -> RulesDraft:
        """A draft of its own that begins with the same rules."""
        values: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, list):
                value = value.copy()
            elif isinstance(value, dict):
                value = {key: inner.copy() for key, inner in value.items()}
            values[item.name] = value
        return RulesDraft(**values)

    def freeze(self) -> ProxyRules:
        return ProxyRules(
            sets={name: tuple(rules) for name, rules in self.sets.items()},
            acls={name: tuple(lines) for name, lines in self.acls.items()},
            use_backend=tuple(self.use_backend),
            use_server=tuple(self.use_server),
            persist=tuple(self.persist),
            monitor_fail=tuple(self.monitor_fail),
            stick=tuple(self.stick),
            inspect_delay=self.inspect_delay,
            response_delay=self.response_delay,
        )


@dataclass(frozen=True, slots=True)
class FormatText:
    """A log format as it was written. It is understood when the proxy's mode is known."""

    text: str
    location: Location
    #: where it stands in its line, from 1; 0: unknown
    column: int = 0


@dataclass(slots=True)
class ProxyDraft:
    """A `defaults`, `frontend`, `listen` or `backend` section."""

    kind: str
    name: str
    location: Location
    id: int | None = None
    mode: str = "tcp"
    binds: list[BindSettings] = field(default_factory=list)
    bind_lines: int = 0
    external_command: str = ""
    external_path: str = ""
    #: both, once they were checked
    external: ExternalSettings | None = None
    #: of a `log-forward` section
    datagrams: list[BindSettings] = field(default_factory=list)
    servers: list[ServerDraft] = field(default_factory=list)
    #: the same by name, so that thousands of servers are read in linear time
    servers_by_name: dict[str, ServerDraft] = field(default_factory=dict)
    default_server: ServerDraft = field(default_factory=ServerDraft)
    default_backend: str | None = None
    default_backend_location: Location = NOWHERE
    balance: str = "roundrobin"
    balance_params: BalanceSettings = field(default_factory=BalanceSettings)
    #: `balance` was given, rather than left out
    balanced: bool = False
    dispatch: Address | None = None
    #: what `dispatch` and `option transparent` come to, see `keywords_balance.check`
    direct: Address | None = None
    name_header: str = ""
    rdp_cookie: Expression | None = None
    timeouts: dict[str, int] = field(default_factory=dict)
    options: set[str] = field(default_factory=set)
    forwardfor: ForwardFor | None = None
    originalto: ForwardFor | None = None
    #: None stands for `log global`, resolved when the whole configuration is known
    logs: list[LogSettings | None] = field(default_factory=list)
    log_tag: str | None = None
    log_format: str = ""
    #: texts of log-format, log-format-sd, error-log-format, unique-id-format, by keyword
    format_texts: dict[str, FormatText] = field(default_factory=dict)
    #: what they were understood as
    formats: dict[str, Format] = field(default_factory=dict)
    unique_id_header: str | None = None
    request_captures: list[Capture] = field(default_factory=list)
    response_captures: list[Capture] = field(default_factory=list)
    cookie_capture: CookieCapture | None = None
    retries: int = 3
    fullconn: int | None = None
    load_server_state: str = "none"
    server_state_file: str = ""
    retry_on: frozenset[str] = frozenset({"conn-failure"})
    rate_limit: int = 0
    max_kept_queue: int = 0
    redispatch: int = 0
    maxconn: int | None = None
    backlog: int | None = None
    http_reuse: str = "safe"
    disabled: bool = False
    description: str | None = None
    monitor_uri: str | None = None
    #: lines that say what is sent in place of the built-in replies, in their order
    errors: list[ErrorLine] = field(default_factory=list)
    #: what they come to, see `keywords_errors.resolve`
    error_replies: dict[int, ReplySpec] = field(default_factory=dict)
    keepalive_probes: dict[str, Any] = field(default_factory=dict)
    source: SourceSettings | None = None
    rules: RulesDraft = field(default_factory=RulesDraft)
    stick_table: StickTableSettings | None = None
    #: the `defaults` that it started from
    base: ProxyDraft | None = None
    cookie: CookieSettings | None = None
    dynamic_cookie_key: str | None = None
    checks: ChecksDraft = field(default_factory=ChecksDraft)
    stats: StatsPage | None = None

    def inherit(self, defaults: ProxyDraft) -> None:
        """Take over everything that `defaults` has set."""
        self.base = defaults
        for item in fields(self):
            if item.name in ("kind", "name", "location", "id", "base"):
                continue
            value = getattr(defaults, item.name)
            if isinstance(value, (list, dict, set, RulesDraft, ChecksDraft)):
                value = value.copy()
            elif isinstance(value, ServerDraft):
                value = replace(value)
            setattr(self, item.name, value)

    def _freeze_rules(self) -> ProxyRules:
        captures = Captures(
            tuple(self.request_captures), tuple(self.response_captures), self.cookie_capture
        )
        header = self.unique_id_header
        return replace(
            self.rules.freeze(),
            captures=captures if captures != Captures() else None,
            formats=self.formats,
            # HAProxy sends every name in lower case
            unique_id_header=None if header is None else os.fsencode(header.lower()),
            inherited=self._inherited(),
            stats=self.stats,
        )

    def _inherited(self) -> Inherited | None:
        """Where the rules come from that this section begins with; their ACLs alone do nothing."""
        base = self.base
        if base is None or not any(base.rules.sets.values()):
            return None
        counts = {name: len(rules) for name, rules in base.rules.sets.items()}
        return Inherited(base.name, base.mode, base.location, counts)

    @property
    def is_frontend(self) -> bool:
        return self.kind in ("frontend", "listen")

    @property
    def is_backend(self) -> bool:
        return self.kind in ("backend", "listen")

    def title(self) -> str:
        """As HAProxy names it in messages: `frontend 'x'`, and `proxy 'x'` for a listen."""
        return f"{'proxy' if self.kind == 'listen' else self.kind} '{self.name}'"

    def freeze(
        self, number: int, global_logs: tuple[LogSettings, ...], server_ids: Mapping[str, int]
    ) -> ProxySettings:
        logs: list[LogSettings] = []
        for entry in self.logs:
            if entry is None:
                logs.extend(global_logs)
            else:
                logs.append(entry)
        front = self.is_frontend
        binds = zip(self.binds, free_numbers([bind.id for bind in self.binds]), strict=True)
        return ProxySettings(
            name=self.name,
            id=number,
            kind=self.kind,
            mode=self.mode,
            binds=tuple(replace(bind, id=i) for bind, i in binds) if front else (),
            servers=tuple(
                self._with_cookie(server.freeze(server_ids[server.name])) for server in self.servers
            ),
            default_backend=self.default_backend if front else None,
            balance=self.balance,
            balance_params=self.balance_params,
            direct=self.direct,
            rdp_cookie=self.rdp_cookie,
            name_header=os.fsencode(self.name_header.lower()),
            timeouts=Timeouts(**self.timeouts),
            options=frozenset(self.options),
            forwardfor=self.forwardfor,
            originalto=self.originalto,
            logs=tuple(logs),
            log_tag=self.log_tag,
            retries=self.retries,
            fullconn=self.fullconn,
            load_server_state=self.load_server_state,
            server_state_file=self.server_state_file,
            retry_on=self.retry_on,
            max_kept_queue=self.max_kept_queue,
            rate_limit=self.rate_limit if front else 0,
            maxconn=self.maxconn if front else None,
            backlog=self.backlog if front else None,
            http_reuse=self.http_reuse,
            disabled=self.disabled,
            description=self.description,
            location=self.location,
            log_format=self.log_format,
            redispatch=self.redispatch,
            monitor_uri=None if self.monitor_uri is None else os.fsencode(self.monitor_uri),
            source=self.source,
            forced_id=self.id is not None,
            rules=self._freeze_rules(),
            stick_table=self.stick_table,
            errors=self.error_replies,
            cookie=self.cookie,
            dynamic_cookie_key=self.dynamic_cookie_key,
            check_script=self.checks.freeze() if self.is_backend else None,
            external_check=self.external,
            **self.keepalive_probes,
        )

    def _with_cookie(self, server: ServerSettings) -> ServerSettings:
        """The server with its dynamic cookie, where it has to have one (manual 4.2, `dynamic`)."""
        key, cookie = self.dynamic_cookie_key, self.cookie
        if key is None or cookie is None or not cookie.dynamic or server.cookie:
            return server
        return replace(server, cookie=dynamic_cookie(key, server.address))


@dataclass(slots=True)
class RingDraft:
    """A `ring` section."""

    name: str
    location: Location
    #: what its `server` lines are read into
    backend: ProxyDraft
    description: str = ""
    format: str = "raw"
    maxlen: int = RING_MAXLEN
    size: int = RING_SIZE

    def freeze(self) -> RingSettings:
        servers = self.backend.servers
        ids = free_numbers([server.id for server in servers])
        timeouts = self.backend.timeouts
        return RingSettings(
            name=self.name,
            description=self.description or self.name,
            format=self.format,
            maxlen=self.maxlen,
            size=self.size,
            servers=tuple(server.freeze(i) for server, i in zip(servers, ids, strict=True)),
            connect_timeout=timeouts.get("connect"),
            server_timeout=timeouts.get("server"),
            location=self.location,
        )


@dataclass(slots=True)
class GlobalDraft:
    """The `global` sections, one after the other."""

    values: dict[str, object] = field(default_factory=dict)
    cpu_map: dict[int, frozenset[int]] = field(default_factory=dict)
    logs: list[LogSettings] = field(default_factory=list)
    stats_binds: list[BindSettings] = field(default_factory=list)
    stats_timeout: int = 10_000
    #: how many proxies stood before the first statement about runtime sockets; see `freeze`
    stats_position: int | None = None
    tune: dict[str, int | str | bool] = field(default_factory=dict)
    disabled_features: set[str] = field(default_factory=set)
    unix_bind: dict[str, object] = field(default_factory=dict)
    #: `expose-experimental-directives`
    experimental: bool = False
    #: what `h1-case-adjust` and its file say
    h1_case: dict[bytes, bytes] = field(default_factory=dict)

    def freeze(self) -> GlobalSettings:
        sockets = tuple(StatsSocket(bind, self.stats_timeout) for bind in self.stats_binds)
        settings = GlobalSettings(
            cpu_map=self.cpu_map,
            logs=tuple(self.logs),
            stats_sockets=sockets,
            tune=self.tune,
            disabled_features=frozenset(self.disabled_features),
            expose_experimental=self.experimental,
            h1_case=self.h1_case,
        )
        return replace(settings, **self.values)  # type: ignore[arg-type]

"""What a keyword's parser may read and change while the configuration is loaded.

One `Context` per load, owned by the main thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mtproxy.base.address import Resolver, resolve, resolve_plainly
from mtproxy.base.commandline import CommandLine
from mtproxy.base.errors import ConfigError, Diagnostics
from mtproxy.base.location import Location
from mtproxy.base.server_settings import ResolversSettings
from mtproxy.base.settings import UserSettings
from mtproxy.config.default_path import DefaultPath
from mtproxy.config.drafts import GlobalDraft, HttpErrorsDraft, ProxyDraft, RingDraft, UserlistDraft
from mtproxy.config.model import Statement
from mtproxy.rules.patterns.store import PatternStore


@dataclass(slots=True)
class Context:
    """The state of one load: the drafts, the environment, the messages."""

    cmdline: CommandLine
    #: the environment as the configuration sees it: setenv and friends change this copy
    environ: dict[str, str]
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    global_: GlobalDraft = field(default_factory=GlobalDraft)
    proxies: list[ProxyDraft] = field(default_factory=list)
    defaults: list[ProxyDraft] = field(default_factory=list)
    #: the proxies by name, in order: a frontend and a backend may share one
    proxies_by_name: dict[str, list[ProxyDraft]] = field(default_factory=dict)
    rings: list[RingDraft] = field(default_factory=list)
    #: `log-forward` sections: what a frontend has of it
    log_forwards: list[ProxyDraft] = field(default_factory=list)
    #: pattern files and the patterns of ACL lines
    patterns: PatternStore = field(default_factory=PatternStore)
    #: the proxy or defaults section being read
    current: ProxyDraft | None = None
    #: the ring section being read
    current_ring: RingDraft | None = None
    #: sections by name, and those being read
    #: by name; `current_resolvers` is the section being read
    resolvers: dict[str, ResolversSettings] = field(default_factory=dict)
    current_resolvers: str = ""
    http_errors: dict[str, HttpErrorsDraft] = field(default_factory=dict)
    current_errors: HttpErrorsDraft | None = None
    userlists: dict[str, UserlistDraft] = field(default_factory=dict)
    current_userlist: UserlistDraft | None = None
    #: what the userlists come to
    users: dict[str, dict[str, UserSettings]] = field(default_factory=dict)
    #: where relative names of files count from
    default_path: DefaultPath = field(default_factory=DefaultPath)
    #: None: the C library
    given_resolver: Resolver | None = None

    @property
    def proxy(self) -> ProxyDraft:
        """The draft of the section being read; only parsers of proxy keywords may ask."""
        assert self.current is not None
        return self.current

    @property
    def ring(self) -> RingDraft:
        """The draft of the section being read; only parsers of ring keywords may ask."""
        assert self.current_ring is not None
        return self.current_ring

    @property
    def errors(self) -> HttpErrorsDraft:
        """The draft of the section being read; only parsers of `http-errors` may ask."""
        assert self.current_errors is not None
        return self.current_errors

    @property
    def userlist(self) -> UserlistDraft:
        """The draft of the section being read; only parsers of `userlist` may ask."""
        assert self.current_userlist is not None
        return self.current_userlist

    @property
    def resolver(self) -> Resolver:
        """How host names become addresses."""
        if self.given_resolver is not None:
            return self.given_resolver
        off = self.global_.disabled_features | self.cmdline.disabled_features
        return resolve_plainly if "nogetaddrinfo" in off else resolve

    def note_stats(self) -> None:
        """A statement about runtime sockets was read: the first one has a place among proxies."""
        if self.global_.stats_position is None:
            self.global_.stats_position = len(self.proxies)

    def report(self, st: Statement, error: ConfigError, title: str = "") -> None:
        """An alert at a statement, with the column of the word that it complains about."""
        column = error.column or st.column_of(error.word)
        if column:
            column += error.offset
        self.diagnostics.alert(
            f"'{title}' : {error.message}" if title else error.message,
            st.location,
            word=error.word,
            suggestion=error.suggestion,
            column=column,
        )

    def warn(self, location: Location, message: str) -> None:
        self.diagnostics.warning(message, location)

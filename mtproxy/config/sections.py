"""Statements of one file after the other: which section, which keyword, which parser.

`Reader.feed` takes bytes of a file. Every fault becomes a diagnostic and reading goes on with the
next line, so that all errors of a configuration are reported in one run. Main thread only.
"""

from __future__ import annotations

from dataclasses import replace

from mtproxy.base.errors import ConfigError, Diagnostics, Severity
from mtproxy.base.location import Location
from mtproxy.base.log_settings import BUILT_IN_SINKS
from mtproxy.base.nearest import nearest
from mtproxy.config import (
    keywords_auth,
    keywords_errors,
    keywords_logforward,
    keywords_resolvers,
    registry,
)
from mtproxy.config.context import Context
from mtproxy.config.drafts import ProxyDraft, RingDraft
from mtproxy.config.known import SECTIONS_LATER
from mtproxy.config.lexer import from_text, to_text, tokenize
from mtproxy.config.model import (
    BACKEND,
    DEFAULTS,
    FRONTEND,
    GLOBAL,
    HTTP_ERRORS,
    LISTEN,
    LOG_FORWARD,
    RESOLVERS,
    RING,
    USERLIST,
    Keyword,
    Parser,
    Statement,
    Support,
    check_name,
)
from mtproxy.config.preprocessor import Preprocessor

#: sections that are no proxies, and what begins them
_OPENERS: dict[str, Parser] = {
    HTTP_ERRORS: keywords_errors.open_section,
    USERLIST: keywords_auth.open_section,
    RESOLVERS: keywords_resolvers.open_section,
    LOG_FORWARD: keywords_logforward.open_section,
}
SECTIONS = (GLOBAL, DEFAULTS, FRONTEND, LISTEN, BACKEND, RING, *_OPENERS, *SECTIONS_LATER)
_PREFIXES = ("no", "default")


class Reader:
    """Reads files into a Context's drafts."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        #: the section being read; None before the first of a file
        self.section: str | None = None
        #: what `.SECTION` says
        self.section_name = ""

    def feed(self, file: str, data: bytes) -> None:
        """Read one whole file. It must begin with a section and end with a line feed."""
        self.section = None
        self.section_name = ""
        self.ctx.current = None
        preprocessor = Preprocessor(self.ctx.environ, self.ctx.diagnostics)
        lines = data.decode("latin-1").split("\n")
        last = lines.pop()
        if last:
            lines.append(last)
        for number, text in enumerate(lines, 1):
            self._line(Location(file, number), text, preprocessor)
        if last:
            self.ctx.diagnostics.alert(
                "missing line feed on the last line, the file might have been truncated"
                f" at position {len(last)}",
                Location(file, len(lines)),
            )
        preprocessor.finish(file)

    def _line(self, location: Location, text: str, preprocessor: Preprocessor) -> None:
        diagnostics = self.ctx.diagnostics
        nul = text.find("\0")
        if nul >= 0:
            diagnostics.alert(f"stray NUL character at position {nul + 1}", location)
            return
        try:
            words = tokenize(text, lambda name: self._variable(name, location))
        except ConfigError as error:
            diagnostics.alert(
                error.message,
                location,
                column=error.column or 0,
                source=to_text(text.rstrip("\r")),
            )
            return
        if not words:
            return
        st = Statement(
            tuple(to_text(word.text) for word in words),
            location,
            columns=tuple(word.column for word in words),
        )
        try:
            if not (preprocessor.line(st) or preprocessor.skipping):
                self._statement(self._until_empty(st))
        except ConfigError as error:
            self.ctx.report(st, error)

    def _until_empty(self, st: Statement) -> Statement:
        """An empty word (`"${UNSET}"`) ends a statement, as in HAProxy; never silently."""
        if "" not in st.words:
            return st
        end = st.words.index("")
        if end and any(st.words[end:]):
            self.ctx.warn(
                st.location,
                f"the word at position {st.columns[end]} is empty and ends the statement:"
                " everything behind it is ignored",
            )
        return replace(st, words=st.words[:end], columns=st.columns[:end])

    def _variable(self, name: str, location: Location) -> str | None:
        if name == ".LINE":
            return str(location.line)
        if name == ".FILE":
            return from_text(location.file)
        if name == ".SECTION":
            return from_text(self.section_name)
        value = self.ctx.environ.get(name)
        return None if value is None else from_text(value)

    # -- sections ----------------------------------------------------------------------------

    def _statement(self, st: Statement) -> None:
        if not st.words:
            return
        word = st.words[0]
        if word in SECTIONS and not (word == "cache" and self.section not in SECTIONS):
            self._open(word, st)
        elif self.section is None:
            raise ConfigError(
                f"unknown keyword '{word}' out of section",
                word=word,
                suggestion=nearest(word, SECTIONS),
            )
        elif self.section not in SECTIONS_LATER:
            self._keyword(st)

    def _open(self, section: str, st: Statement) -> None:
        self.section = section
        self.section_name = section
        self.ctx.current = None
        if section in SECTIONS_LATER:
            feature = SECTIONS_LATER[section]
            raise ConfigError(
                f"section '{section}' is known but not supported by mtproxy yet ({feature})",
                word=section,
            )
        if section == GLOBAL:
            st.at_most(0)
            return
        if section in _OPENERS:
            self.section_name = st.arg(1) or section
            _OPENERS[section](self.ctx, st)
            return
        if section == RING:
            self._open_ring(st)
            return
        self._open_proxy(section, st)

    def _open_proxy(self, section: str, st: Statement) -> None:
        ctx = self.ctx
        position = 1
        name = ""
        if section != DEFAULTS or (st.arg(1) and st.arg(1) != "from"):
            name = st.arg(1)
            position = 2
        self.section_name = name or section
        draft = ProxyDraft(section, name, st.location)
        ctx.current = draft
        if section == DEFAULTS:
            ctx.defaults.append(draft)
        else:
            ctx.proxies.append(draft)
            ctx.proxies_by_name.setdefault(name, []).append(draft)
        base = self._inherited(st, position, draft)
        if base is not None:
            self._check_heir(st, draft, base)
            draft.inherit(base)
        if section != DEFAULTS and not name:
            raise ConfigError(f"'{section}' expects a name as argument")
        check_name(name, section)
        if section != DEFAULTS:
            self._check_name(draft)
        rest = position if st.arg(position) != "from" else position + 2
        if st.arg(rest):
            hint = ": please use the 'bind' keyword for listening addresses"
            raise ConfigError(
                f"'{section}' cannot handle unexpected argument '{st.arg(rest)}'"
                + (hint if section in (FRONTEND, LISTEN) else ""),
                word=st.arg(rest),
            )

    def _check_heir(self, st: Statement, draft: ProxyDraft, base: ProxyDraft) -> None:
        """Rules of a defaults section are not for every section that may begin with it."""
        found = {name for name, rules in base.rules.sets.items() if rules}
        what = ""
        if draft.kind in (DEFAULTS, LISTEN) and found:
            what = "TCP/HTTP rules"
        elif draft.kind == BACKEND and found & {"tcp-request connection", "tcp-request session"}:
            what = "'tcp-request connection' or 'tcp-request session' rules"
        elif draft.kind == FRONTEND and "tcp-response content" in found:
            what = "'tcp-response content' rules"
        if what:
            error = ConfigError(
                f"a {draft.kind} section cannot inherit from a defaults section defining {what}"
                f" (defaults section at {base.location.file}:{base.location.line})",
                word=base.name or None,
            )
            self.ctx.report(st, error)

    def _open_ring(self, st: Statement) -> None:
        ctx = self.ctx
        name = st.arg(1)
        self.section_name = name or RING
        backend = ProxyDraft(BACKEND, name, st.location)
        ctx.current_ring = draft = RingDraft(name, st.location, backend)
        if not name:
            raise ConfigError("'ring' expects a name as argument")
        check_name(name, RING)
        if name in BUILT_IN_SINKS or any(other.name == name for other in ctx.rings):
            raise ConfigError(f"a ring or sink named '{name}' already exists", word=name)
        ctx.rings.append(draft)
        st.at_most(1)

    def _inherited(self, st: Statement, position: int, draft: ProxyDraft) -> ProxyDraft | None:
        """The defaults that a section starts from: those named, or the last ones before it."""
        defaults = [other for other in self.ctx.defaults if other is not draft]
        if st.arg(position) != "from":
            if draft.kind == DEFAULTS:
                return None
            return defaults[-1] if defaults else None
        name = st.arg(position + 1)
        if not name:
            self.ctx.report(st, ConfigError("'from' expects the name of a defaults section"))
            return None
        found = [other for other in defaults if other.name == name]
        if not found:
            known = [other.name for other in defaults if other.name]
            error = ConfigError(
                f"defaults section '{name}' not found for {draft.title()}",
                word=name,
                suggestion=nearest(name, known),
            )
            self.ctx.report(st, error)
            return None
        if len(found) > 1:
            places = " and ".join(f"{d.location.file}:{d.location.line}" for d in found[-2:])
            error = ConfigError(
                f"ambiguous defaults section name '{name}' referenced by {draft.title()}"
                f" exists at least at {places}",
                word=name,
            )
            self.ctx.report(st, error)
        return found[-1]

    def _check_name(self, draft: ProxyDraft) -> None:
        for other in self.ctx.proxies_by_name[draft.name]:
            if other is draft:
                continue
            both_front = other.is_frontend and draft.is_frontend
            both_back = other.is_backend and draft.is_backend
            if both_front or both_back:
                place = f"{other.location.file}:{other.location.line}"
                raise ConfigError(
                    f"{draft.title()} has the same name as {other.title()} declared at {place}",
                    word=draft.name,
                )

    # -- keywords ----------------------------------------------------------------------------

    def _keyword(self, st: Statement) -> None:
        assert self.section is not None
        section = self.section
        if st.words[0] in _PREFIXES:
            if len(st.words) == 1:
                raise ConfigError(f"'{st.words[0]}' expects the keyword that it is about")
            st = replace(st, words=st.words[1:], columns=st.columns[1:], prefix=st.words[0])
        keyword = registry.find(section, st.words)
        if keyword is None:
            raise self._unknown(section, st)
        if st.prefix and not self._prefix_allowed(keyword, st.prefix):
            raise ConfigError(
                f"negation/default is not supported for '{keyword.name}'", word=st.prefix
            )
        if keyword.parse is None:
            raise self._unsupported(keyword)
        if section == GLOBAL:
            self.ctx.current = None
        elif section not in keyword.sections:
            self._misplaced(section, keyword, st)
            return
        keyword.parse(self.ctx, st)

    def _prefix_allowed(self, keyword: Keyword, prefix: str) -> bool:
        if not keyword.negatable:
            return False
        return prefix == "no" or keyword.words[0] == "option"

    def _unsupported(self, keyword: Keyword) -> ConfigError:
        if keyword.support is Support.REMOVED:
            return ConfigError(
                f"'{keyword.name}' is not supported any more: {keyword.note}", word=keyword.name
            )
        return ConfigError(
            f"'{keyword.name}' is known but not supported by mtproxy yet ({keyword.note})",
            word=keyword.name,
        )

    def _misplaced(self, section: str, keyword: Keyword, st: Statement) -> None:
        """A proxy keyword in a proxy that cannot use it."""
        if section == DEFAULTS:
            raise ConfigError(f"'{keyword.name}' not allowed in 'defaults' section")
        missing = "backend" if section == FRONTEND else "frontend"
        title = self.ctx.proxy.title()
        if keyword.strict:
            raise ConfigError(
                f"'{keyword.name}' not allowed because {title} has no {missing} capability"
            )
        message = f"'{keyword.name}' ignored because {title} has no {missing} capability"
        if keyword.quiet:
            self.ctx.diagnostics.diag(message, st.location)
        else:
            self.ctx.warn(st.location, message)
        self._parse_aside(keyword, st)

    def _parse_aside(self, keyword: Keyword, st: Statement) -> None:
        """What is ignored has to be right all the same: it is read into a proxy that is dropped.

        Raises ConfigError.
        """
        assert keyword.parse is not None
        ctx = self.ctx
        real, found = ctx.proxy, ctx.diagnostics
        aside = ProxyDraft(LISTEN, real.name, real.location, mode=real.mode)
        aside.rules.acls = real.rules.acls
        ctx.current, ctx.diagnostics = aside, Diagnostics()
        try:
            keyword.parse(ctx, st)
        finally:
            dropped, ctx.current, ctx.diagnostics = ctx.diagnostics, real, found
        found.extend(item for item in dropped if item.severity is Severity.ALERT)

    def _unknown(self, section: str, st: Statement) -> ConfigError:
        first, second = st.words[0], st.arg(1)
        seconds = registry.family(section, first)
        if seconds:
            if not second:
                return ConfigError(f"'{first}' expects a name as argument")
            return ConfigError(
                f"unknown {first} '{second}' in '{section}' section",
                word=second,
                suggestion=nearest(second, seconds),
            )
        if registry.elsewhere(section, st.words) is not None:
            right = "a proxy" if section == GLOBAL else "the 'global'"
            return ConfigError(
                f"unknown keyword '{first}' in '{section}' section:"
                f" it belongs into {right} section",
                word=first,
            )
        return ConfigError(
            f"unknown keyword '{first}' in '{section}' section",
            word=first,
            suggestion=nearest(first, registry.first_words(section) | set(SECTIONS)),
        )

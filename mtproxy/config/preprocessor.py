"""Conditional blocks and messages: `.if .elif .else .endif .diag .notice .warning .alert`.

`Preprocessor.line` is fed every statement of a file and says whether it is to be parsed. One
instance per file: blocks do not reach over its end. Main thread only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mtproxy.base.errors import ConfigError, Diagnostic, Diagnostics, Severity
from mtproxy.base.location import Location
from mtproxy.base.nearest import nearest
from mtproxy.config.conditions import evaluate
from mtproxy.config.model import Statement

#: deeper blocks are refused, as in HAProxy
MAX_NESTING = 99

_MESSAGES = {
    ".diag": Severity.DIAG,
    ".notice": Severity.NOTICE,
    ".warning": Severity.WARNING,
    ".alert": Severity.ALERT,
}
DIRECTIVES = (".if", ".elif", ".else", ".endif", *_MESSAGES)


@dataclass(slots=True)
class _Block:
    """One open `.if`."""

    location: Location
    #: this branch is read
    active: bool
    #: no further branch may be read: one was, or the whole block lies in a skipped one
    done: bool
    seen_else: bool = False


class Preprocessor:
    """State of the conditional blocks of one file."""

    def __init__(self, environ: Mapping[str, str], diagnostics: Diagnostics) -> None:
        self._environ = environ
        self._diagnostics = diagnostics
        self._blocks: list[_Block] = []

    @property
    def skipping(self) -> bool:
        """Statements are not to be read now."""
        return bool(self._blocks) and not self._blocks[-1].active

    def line(self, st: Statement) -> bool:
        """Take a directive (True: the statement is used up), leave anything else to the caller."""
        word = st.words[0]
        if not word.startswith("."):
            return False
        if word == ".if":
            self._if(st)
        elif word == ".elif":
            self._elif(st)
        elif word == ".else":
            self._else(st)
        elif word == ".endif":
            self._endif(st)
        elif word in _MESSAGES:
            self._message(st, _MESSAGES[word])
        elif not self.skipping:
            raise ConfigError(
                f"unknown directive '{word}'", word=word, suggestion=nearest(word, DIRECTIVES)
            )
        return True

    def finish(self, file: str) -> None:
        """The file is over: every block must be closed."""
        for block in self._blocks:
            self._diagnostics.alert(
                "'.if' without '.endif' until the end of the file", block.location
            )
        self._blocks.clear()

    def _condition(self, st: Statement) -> bool:
        # Quotes are gone by now: `.if streq("$A",x) && 1` is one expression again.
        return evaluate(" ".join(st.words[1:]), self._environ)

    def _if(self, st: Statement) -> None:
        outer = self.skipping
        block = _Block(st.location, active=False, done=True)
        # The block is opened even when its condition is wrong: its .endif follows.
        if len(self._blocks) >= MAX_NESTING:
            self._blocks.append(block)
            raise ConfigError(f"too many nested '.if' (at most {MAX_NESTING})")
        self._blocks.append(block)
        if outer:
            return
        block.active = self._condition(st)
        block.done = block.active

    def _innermost(self, name: str) -> _Block:
        if not self._blocks:
            raise ConfigError(f"'{name}' without a matching '.if'", word=name)
        return self._blocks[-1]

    def _elif(self, st: Statement) -> None:
        block = self._innermost(".elif")
        if block.seen_else:
            raise ConfigError("'.elif' after '.else' is not permitted", word=".elif")
        block.active = False
        if not block.done:
            block.active = self._condition(st)
            block.done = block.active

    def _else(self, st: Statement) -> None:
        self._no_argument(st)
        block = self._innermost(".else")
        if block.seen_else:
            raise ConfigError("'.else' after '.else' is not permitted", word=".else")
        block.seen_else = True
        block.active = not block.done
        block.done = True

    def _endif(self, st: Statement) -> None:
        self._no_argument(st)
        self._innermost(".endif")
        self._blocks.pop()

    def _no_argument(self, st: Statement) -> None:
        if st.arg(1):
            raise ConfigError(f"unexpected argument '{st.words[1]}' for '{st.words[0]}'")

    def _message(self, st: Statement, severity: Severity) -> None:
        if self.skipping:
            return
        if st.arg(2):
            raise ConfigError(
                f"unexpected argument '{st.words[2]}' for '{st.words[0]}':"
                " use quotes if the message should contain spaces"
            )
        self._diagnostics.add(Diagnostic(severity, f"'{st.arg(1)}'", st.location))

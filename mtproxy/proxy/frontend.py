"""Frontend: one thread's side of a frontend. Owner thread only, apart from reading counters."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from mtproxy.proxy.counters import FrontendCounters
from mtproxy.proxy.load import Load

if TYPE_CHECKING:
    from collections.abc import Callable

    from mtproxy.base.settings import ProxySettings
    from mtproxy.proxy.capture import BadCapture


class Frontend:
    """What a stream needs of its frontend.

    `log` is called once per session or transaction with its finished log record; it is None when
    the frontend has no log target. `log_text` sends a text at a level of syslog.
    """

    __slots__ = (
        "counters",
        "errors",
        "last_error",
        "load",
        "log",
        "log_text",
        "log_unparsed",
        "name",
        "settings",
        "side_counters",
        "tid",
    )

    def __init__(
        self,
        settings: ProxySettings,
        tid: int,
        log: Callable[[Any], None] | None,
        side_counters: list[FrontendCounters],
    ) -> None:
        self.settings = settings
        self.name = sys.intern(settings.name)  # immortal: shared without a count
        self.tid = tid
        self.log = log
        #: logs what was no request, where `error-log-format` says how; None: as everything else
        self.log_unparsed: Callable[[Any], None] | None = None
        self.log_text: Callable[[int, str], None] | None = None
        self.counters = FrontendCounters()
        side_counters.append(self.counters)
        #: the counters of all threads; complete before traffic starts
        self.side_counters = side_counters
        #: replies in place of the built-in ones by status, see rules.reply
        self.errors: dict[int, Any] = {}
        #: the last request that was refused
        self.last_error: BadCapture | None = None
        self.load = Load(self.counters, side_counters)

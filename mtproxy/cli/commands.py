"""The one place that names all tables of runtime commands."""

from __future__ import annotations

from mtproxy.cli import (
    commands_absent,
    commands_activity,
    commands_dynamic,
    commands_events,
    commands_frontends,
    commands_health,
    commands_locks,
    commands_patterns,
    commands_process,
    commands_profiling,
    commands_resolvers,
    commands_servers,
    commands_session,
    commands_sessions,
    commands_stats,
    commands_support,
    commands_tables,
    commands_threads,
    commands_variables,
)
from mtproxy.cli.runtime import CommandTable

COMMANDS = CommandTable(
    [
        *commands_session.COMMANDS,
        *commands_stats.COMMANDS,
        *commands_process.COMMANDS,
        *commands_events.COMMANDS,
        *commands_threads.COMMANDS,
        *commands_profiling.COMMANDS,
        *commands_activity.COMMANDS,
        *commands_locks.COMMANDS,
        *commands_servers.COMMANDS,
        *commands_health.COMMANDS,
        *commands_dynamic.COMMANDS,
        *commands_sessions.COMMANDS,
        *commands_resolvers.COMMANDS,
        *commands_frontends.COMMANDS,
        *commands_support.COMMANDS,
        *commands_absent.COMMANDS,
        *commands_tables.COMMANDS,
        *commands_patterns.COMMANDS,
        *commands_variables.COMMANDS,
    ]
)

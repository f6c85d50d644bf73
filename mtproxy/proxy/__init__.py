"""Frontends, backends, servers: balancing, health checks, server state, counters."""

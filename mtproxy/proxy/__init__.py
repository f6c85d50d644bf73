"""Frontends, backends, servers: what is balanced, checked and counted."""

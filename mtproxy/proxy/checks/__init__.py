"""Health checks that say something: scripts of connect, send and expect steps, and their engine."""

"""The command line, the runtime socket and the client commands."""

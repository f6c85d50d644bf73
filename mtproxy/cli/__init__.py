"""The command line, the runtime socket's commands, and the client commands."""

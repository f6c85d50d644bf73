"""Sockets: the connection, listeners, connecting, splicing."""

"""The way of a connection and of a request: sessions, transactions, forwarding."""

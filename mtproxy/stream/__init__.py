"""The way of a connection and of a request through the proxy: sessions, transactions, forwarding."""

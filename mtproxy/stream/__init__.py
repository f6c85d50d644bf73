"""The way of a connection and a request through the proxy: session, transaction, forwarding."""

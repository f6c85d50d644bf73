"""The rule language of haproxy.cfg: samples, ACLs, maps, variables, log-format, actions.

Knows bytes and records, no sockets and no loops: what a rule reads of a connection or a request it
reads through the `view.View` that it is given. Families of fetches, converters and actions are one
module each, exporting a table; `registry` lists the tables.
"""

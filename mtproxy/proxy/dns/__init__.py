"""Names of servers while the proxy runs (manual 5.3): what is asked, what is learnt, what follows.

`wire` knows messages, `channel` name servers, `records` what names are known to stand for,
`section` asks at its times, `servers` has the servers follow.
"""

"""`mtproxy top`: a live view of a running proxy in the terminal, over its runtime socket.

`figures` reads answers and works out rates, `tables` says which columns there are, `app` draws,
`main` is the command. Independent of the proxy itself, like `cli.client`.
"""

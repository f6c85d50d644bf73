"""HTTP/1 messages: a strict sans-I/O codec, header lists and the built-in replies.

Pure functions and small objects over bytes; nothing here knows sockets, threads or configuration.
"""

"""`mtproxy profile`: where the threads of a running proxy spend their time.

A client: nothing of the proxy is imported. `main` chooses a sampler (`builtin` asks the proxy for
stacks over its runtime socket, `pyspy` drives py-spy), both give a `stacks.Profile`, and the
renderers make text, JSON or HTML of it.
"""

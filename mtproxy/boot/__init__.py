"""Boot: the one place where everything is put together.

`run.run(settings, options)` takes a valid configuration to a running process.
"""

"""Benchmarks against HAProxy on the same configuration: `python -m perf http|tcp|start`.

Ratios are the result: both programs serve the same client and origin in turns, round by round, so
that whatever else the machine does hits both. Absolute figures belong to one machine and one day.
"""

"""Converters, one module per family (manual 7.3.1)."""

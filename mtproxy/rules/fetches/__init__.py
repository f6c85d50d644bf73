"""Sample fetches, one module per family (manual 7.3)."""

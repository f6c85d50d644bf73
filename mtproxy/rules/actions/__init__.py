"""Actions of rule sets, one module per family (manual 4.2)."""

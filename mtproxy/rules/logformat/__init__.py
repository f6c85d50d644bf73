"""The log-format language (manual 8.2.6): log lines, and texts in rules."""

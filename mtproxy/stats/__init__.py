"""What the process counts, as typed fields: CSV, typed text, JSON."""

"""Traffic and state-change logs: line formats, syslog headers and senders that never block."""

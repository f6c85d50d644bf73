"""Tools for the project's own tests: a mock clock, a lock-step sequencer, scripted peers."""

"""Tools for tests: nothing else imports this package."""

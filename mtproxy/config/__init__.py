"""haproxy.cfg in, immutable Settings or diagnostics out.

The way of a file: `load` opens it, `lexer` cuts lines into words, `preprocessor` follows `.if`
blocks, `sections` finds each statement's keyword in `registry`, the keyword's parser (in the
`keywords_*` tables) changes a draft, `validate` checks the whole and freezes it.
"""

from mtproxy.config.load import load
from mtproxy.config.validate import has_listener

__all__ = ["has_listener", "load"]

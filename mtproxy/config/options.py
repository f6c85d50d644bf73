"""Words behind the address of a `bind`, `stats socket`, `server` or `default-server` line.

`Option` is an entry of such a table; `read` goes through a line. `T` is what the options change.
Main thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.config.context import Context
from mtproxy.config.model import Args, Statement, Support


@dataclass(frozen=True, slots=True)
class Option[T]:
    """A word that may stand there. Without `apply` it is known and not supported yet."""

    name: str
    apply: Callable[[Context, Args, T], None] | None = None
    support: Support = Support.YES
    #: why there is no effect, or which feature it waits for
    note: str = ""
    #: words that it takes, to step over them when it is refused
    arguments: int = 0
    #: may stand on a `default-server` line
    in_default: bool = True


def read[T](
    ctx: Context,
    st: Statement,
    start: int,
    title: str,
    options: Mapping[str, Option[T]],
    target: T,
) -> None:
    """Apply the options from word `start` to `target`. Every fault of the line is reported."""
    args = Args(st.words, start)
    in_default = st.words[0] == "default-server"
    #: feature -> words that wait for it, for one message each
    waiting: dict[str, list[str]] = {}
    while args.more():
        word = args.next()
        option = options.get(word)
        if option is None:
            error = ConfigError(
                f"unknown keyword '{word}'", word=word, suggestion=nearest(word, options)
            )
            ctx.report(st, error, title)
            # What follows may be the argument of the unknown word.
            break
        args.name = word
        if option.apply is None:
            waiting.setdefault(option.note, []).append(word)
            args.position += option.arguments
            continue
        try:
            if in_default and not option.in_default:
                args.position += option.arguments
                raise ConfigError(f"'{word}' is not allowed in a 'default-server' line", word=word)
            option.apply(ctx, args, target)
        except ConfigError as error:
            ctx.report(st, error, title)
    for feature, words in waiting.items():
        named = ", ".join(f"'{word}'" for word in words)
        text = f"{named} : known but not supported by mtproxy yet ({feature})"
        ctx.report(st, ConfigError(text, word=words[0]), title)

"""Log formats of proxies: from the texts of the statements to pieces, when the mode is known.

HAProxy reads them at the end as well: a format of a `defaults` section is judged in every proxy
that uses it. Main thread, at load.
"""

from __future__ import annotations

from collections.abc import Callable

from mtproxy.base.errors import ConfigError
from mtproxy.config.context import Context
from mtproxy.config.drafts import FormatText, ProxyDraft
from mtproxy.rules import points
from mtproxy.rules.logformat import strings
from mtproxy.rules.reader import RuleReader


def read_formats(ctx: Context, proxy: ProxyDraft) -> None:
    """Fill in `proxy.formats`; what is wrong becomes an alert where the statement stands.

    Formats of log lines count in frontends alone.
    """
    for name, text in proxy.format_texts.items():
        unique_id = name == "unique-id-format"
        if not unique_id and not proxy.is_frontend:
            continue
        point = points.UNIQUE_ID if unique_id else points.LOG
        flags = strings.HEADER if unique_id else strings.LINE
        reader = RuleReader(
            (),
            text.location,
            point,
            proxy=proxy.name,
            kind=proxy.kind,
            mode=proxy.mode,
            title=name,
            acls=proxy.rules.acls,
            references=proxy.rules.references,
            warn=_warner(ctx, text),
            draft=proxy,
            global_draft=ctx.global_,
        )
        try:
            proxy.formats[name] = strings.parse_format(
                reader, text.text, point, flags=flags, merge=True
            )
        except ConfigError as error:
            column = text.column + (error.offset or 0) if text.column else 0
            ctx.diagnostics.alert(
                f"failed to parse {error.message}",
                text.location,
                word=error.word,
                suggestion=error.suggestion,
                column=column,
            )


def _warner(ctx: Context, text: FormatText) -> Callable[[str], None]:
    return lambda message: ctx.warn(text.location, message)

"""`capture` and `declare capture` in frontends (manual 4.2, 8.7, 8.8).

Exports `KEYWORDS`.
"""

from __future__ import annotations

from mtproxy.base.errors import ConfigError
from mtproxy.base.ruleset import Capture, CookieCapture
from mtproxy.config.context import Context
from mtproxy.config.drafts import ProxyDraft
from mtproxy.config.model import FRONT_ONLY, Keyword, Parser, Statement, integer
from mtproxy.rules.keeping import DEFAULT_COOKIE_LENGTH

#: bytes that one captured field may take; HAProxy sets no limit but that of its memory
_MOST = 1 << 20


def _length(st: Statement, position: int, name: str, minimum: int = 0) -> int:
    """`len N` at `position`."""
    if st.arg(position) != "len" or not st.arg(position + 1):
        raise ConfigError(
            f"'{name}' expects 'len' and the most bytes to keep", word=st.arg(position) or None
        )
    return integer(name, st.arg(position + 1), minimum, _MOST)


def _capture_header(direction: str) -> Parser:
    name = f"capture {direction}"

    def parse(ctx: Context, st: Statement) -> None:
        if st.arg(2) != "header" or not st.arg(3):
            raise ConfigError(
                f"'{name}' expects 'header' <header_name> 'len' <len>", word=st.arg(2) or None
            )
        length = _length(st, 4, name)
        st.at_most(4, taken=2)
        header = st.arg(3).lower().encode("utf-8", "surrogateescape")
        proxy = ctx.proxy
        slots = proxy.request_captures if direction == "request" else proxy.response_captures
        slots.append(Capture(header, length))

    return parse


def _capture_cookie(ctx: Context, st: Statement) -> None:
    if not st.arg(2):
        raise ConfigError("'capture cookie' expects <cookie_name> 'len' <len>")
    length = _length(st, 3, "capture cookie")
    st.at_most(3, taken=2)
    name = st.arg(2).encode("utf-8", "surrogateescape")
    ctx.proxy.cookie_capture = CookieCapture(name, length)


def _declare(ctx: Context, st: Statement) -> None:
    """`declare capture request|response len N`: a slot for rules."""
    direction = st.arg(2)
    if direction not in ("request", "response"):
        raise ConfigError(
            "'declare capture' requires a direction ('request' or 'response')",
            word=direction or None,
        )
    length = _length(st, 3, "declare capture", 1)
    st.at_most(3, taken=2)
    proxy = ctx.proxy
    slots = proxy.request_captures if direction == "request" else proxy.response_captures
    slots.append(Capture(b"", length))


def check_cookie_capture(ctx: Context, proxy: ProxyDraft) -> None:
    """Say where less of a cookie will be captured than was asked for (`tune.http.cookielen`)."""
    cookie = proxy.cookie_capture
    if cookie is None:
        return
    most = int(ctx.global_.tune.get("tune.http.cookielen", DEFAULT_COOKIE_LENGTH))
    if cookie.length > most:
        ctx.warn(proxy.location, f"truncating capture length to {most} bytes for {proxy.title()}")


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("capture cookie", FRONT_ONLY, _capture_cookie),
    Keyword("capture request", FRONT_ONLY, _capture_header("request")),
    Keyword("capture response", FRONT_ONLY, _capture_header("response")),
    Keyword("declare capture", FRONT_ONLY, _declare, strict=True),
)

"""`external-check` and `option external-check` (manual 3.1, 4.2). Exports `KEYWORDS`."""

from __future__ import annotations

from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.base.server_settings import ExternalSettings
from mtproxy.config.context import Context
from mtproxy.config.drafts import ProxyDraft
from mtproxy.config.model import BACK, IN_GLOBAL, Keyword, Statement

#: where commands are looked for unless `external-check path` says so
DEFAULT_PATH = ""
_WORDS = ("command", "path")


def _allow(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    word = st.arg(1)
    if word not in ("", "preserve-env"):
        raise ConfigError(
            f"'external-check' only supports 'preserve-env' (got '{word}')",
            word=word,
            suggestion=nearest(word, ("preserve-env",)),
        )
    ctx.global_.values["external_check"] = word or "on"


def _set(ctx: Context, st: Statement) -> None:
    word = st.required(1, "'command' or 'path'")
    if word not in _WORDS:
        raise ConfigError(
            f"'external-check' only supports 'command' and 'path' (got '{word}')",
            word=word,
            suggestion=nearest(word, _WORDS),
        )
    st.at_most(1, taken=2)
    value = st.required(2, f"a {word}", taken=2)
    if word == "command":
        ctx.proxy.external_command = value
    else:
        ctx.proxy.external_path = value


def _option(ctx: Context, st: Statement) -> None:
    st.at_most(0, taken=2)
    ctx.proxy.options.add("external-check")
    ctx.proxy.checks.choose("", [])


def _no_path(command: str) -> str:
    return f"'{command}' does not have a leading '/' and 'external-check path' is not set"


def check_external(ctx: Context, proxy: ProxyDraft) -> None:
    """What `option external-check` needs is there; what needs it is not ignored silently."""
    if not proxy.is_backend:
        return
    title = proxy.title()
    command = proxy.external_command
    if "external-check" not in proxy.options:
        for word, value in (("command", proxy.external_command), ("path", proxy.external_path)):
            if value:
                ctx.warn(
                    proxy.location,
                    f"'external-check {word}' will be ignored for {title}"
                    " (requires 'option external-check')",
                )
        if command and not command.startswith("/") and not proxy.external_path:
            ctx.diagnostics.alert(f"{title} : {_no_path(command)}", proxy.location, word=command)
        return
    if "external_check" not in ctx.global_.values:
        fault = "'option external-check' unable to find required 'global.external-check'"
    elif not command:
        fault = "'option external-check' unable to find required 'external-check command'"
    elif not command.startswith("/") and not proxy.external_path:
        fault = _no_path(command)
    else:
        preserve = ctx.global_.values["external_check"] == "preserve-env"
        proxy.external = ExternalSettings(
            command, proxy.external_path or DEFAULT_PATH, preserve_env=preserve
        )
        return
    ctx.diagnostics.alert(f"{title} : {fault}", proxy.location, word="external-check")


KEYWORDS: tuple[Keyword, ...] = (
    Keyword("external-check", IN_GLOBAL, _allow),
    Keyword("external-check", BACK, _set),
    Keyword("option external-check", BACK, _option),
)

"""Statements of the global section, `tune.*`, `log` and `stats` aside (manual 3.1 to 3.3).

Exports `KEYWORDS`.
"""

from __future__ import annotations

import grp
import pwd
from pathlib import Path

from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.config.context import Context
from mtproxy.config.cpumap import MAX_THREADS, parse_cpu_map
from mtproxy.config.default_path import MODES as DEFAULT_PATHS
from mtproxy.config.model import (
    IN_GLOBAL,
    Keyword,
    Parser,
    Statement,
    Support,
    choice,
    integer,
    time,
)

#: the largest user or group id: one more means "leave it" to the kernel
_ID_MAX = 0xFFFFFFFE


def _number(field: str, minimum: int, maximum: int | None = None) -> Parser:
    def parse(ctx: Context, st: Statement) -> None:
        st.at_most(1)
        name = st.words[0]
        ctx.global_.values[field] = integer(name, st.required(1, "a number"), minimum, maximum)

    return parse


def _number_or_unset(field: str) -> Parser:
    """Zero stands for "not set". The first one that is set holds, as in HAProxy."""

    def parse(ctx: Context, st: Statement) -> None:
        st.at_most(1)
        name = st.words[0]
        if ctx.global_.values.get(field):
            ctx.warn(st.location, f"'{name}' already specified, ignored")
            return
        ctx.global_.values[field] = integer(name, st.required(1, "a number"), 0) or None

    return parse


def _time(field: str) -> Parser:
    def parse(ctx: Context, st: Statement) -> None:
        st.at_most(1)
        ctx.global_.values[field] = time(st.words[0], st.required(1, "a time"))

    return parse


def _default_path(ctx: Context, st: Statement) -> None:
    mode = st.required(1, f"one of {', '.join(DEFAULT_PATHS)}")
    if mode not in DEFAULT_PATHS:
        raise ConfigError(
            f"unsupported default-path mode '{mode}' for 'default-path', supported modes include "
            "'current', 'config', 'parent', and 'origin'.",
            word=mode,
            suggestion=nearest(mode, DEFAULT_PATHS),
        )
    origin = st.required(2, "a directory") if mode == "origin" else ""
    st.at_most(2 if origin else 1)
    ctx.default_path.mode, ctx.default_path.origin = mode, origin
    try:
        ctx.default_path.apply(st.location.file)
    except OSError as error:
        raise ConfigError(
            f"couldn't set 'default-path' to '{origin or mode}': {error.strerror}",
            word=origin or mode,
        ) from None


def _close_spread_time(ctx: Context, st: Statement) -> None:
    """`infinite`: connections are not asked to end."""
    st.at_most(1)
    word = st.required(1, "a time or 'infinite'")
    value = -1 if word == "infinite" else time(st.words[0], word)
    ctx.global_.values["close_spread_time"] = value


def _text(field: str, what: str) -> Parser:
    def parse(ctx: Context, st: Statement) -> None:
        st.at_most(1)
        ctx.global_.values[field] = st.required(1, what)

    return parse


def _flag(field: str) -> Parser:
    def parse(ctx: Context, st: Statement) -> None:
        st.at_most(0)
        ctx.global_.values[field] = not st.prefix

    return parse


def _experimental(ctx: Context, st: Statement) -> None:
    st.at_most(0)
    ctx.global_.experimental = True


def _feature_off(ctx: Context, st: Statement) -> None:
    st.at_most(0)
    ctx.global_.disabled_features.add(st.words[0])


def _no_argument(ctx: Context, st: Statement) -> None:
    st.at_most(0)


def _one_argument(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    st.required(1, "a value")


def _any_arguments(ctx: Context, st: Statement) -> None:
    st.required(1, "a value")


def _once(parser: Parser, field: str) -> Parser:
    """The first `user` or `uid` holds, as in HAProxy; a later one is a mistake worth a warning."""

    def parse(ctx: Context, st: Statement) -> None:
        if ctx.global_.values.get(field):
            ctx.warn(st.location, f"'{st.words[0]}' : {field} already specified, ignored")
            return
        parser(ctx, st)

    return parse


def _user(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    name = st.required(1, "a user name")
    try:
        ctx.global_.values["uid"] = pwd.getpwnam(name).pw_uid
    except KeyError:
        raise ConfigError(f"cannot find user id for '{name}'", word=name) from None
    ctx.global_.values["user"] = name


def _group(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    name = st.required(1, "a group name")
    try:
        ctx.global_.values["gid"] = grp.getgrnam(name).gr_gid
    except KeyError:
        raise ConfigError(f"cannot find group id for '{name}'", word=name) from None
    ctx.global_.values["group"] = name


def _description(ctx: Context, st: Statement) -> None:
    st.required(1, "a text")
    ctx.global_.values["description"] = " ".join(st.words[1:])


def _node(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    name = st.required(1, "a name")
    if not all(char.isascii() and (char.isalnum() or char in "-_.") for char in name):
        raise ConfigError(
            f"'node' : '{name}' may only have letters, digits, '-', '_' and '.'", word=name
        )
    ctx.global_.values["node"] = name


def _thread_groups(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    if integer("thread-groups", st.required(1, "a number"), 1) != 1:
        raise ConfigError("'thread-groups' : only 1 is supported by mtproxy", word=st.arg(1))


def _cpu_map(ctx: Context, st: Statement) -> None:
    ctx.global_.cpu_map.update(parse_cpu_map(st.words[1:]))


def _localpeer(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    name = st.required(1, "a name")
    # -L on the command line wins.
    if ctx.cmdline.local_peer is None:
        ctx.global_.values["localpeer"] = name
        ctx.environ["HAPROXY_LOCALPEER"] = name


def _setenv(ctx: Context, st: Statement) -> None:
    """`setenv` always sets, `presetenv` only what is not set yet."""
    name = st.required(1, "a variable name")
    if len(st.words) < 3:
        raise ConfigError(f"'{st.words[0]}' expects a name and a value")
    st.at_most(2)
    if "=" in name:
        raise ConfigError(f"'{st.words[0]}' : '{name}' is no name of a variable", word=name)
    if st.words[0] == "presetenv" and name in ctx.environ:
        return
    ctx.environ[name] = st.words[2]


def _unsetenv(ctx: Context, st: Statement) -> None:
    st.required(1, "at least one variable name")
    for name in st.words[1:]:
        ctx.environ.pop(name, None)


def _resetenv(ctx: Context, st: Statement) -> None:
    """Only the variables named survive."""
    kept = set(st.words[1:])
    for name in list(ctx.environ):
        if name not in kept:
            del ctx.environ[name]


def _numa(ctx: Context, st: Statement) -> None:
    st.at_most(0)


def _stats_maxconn(ctx: Context, st: Statement) -> None:
    st.at_most(1, taken=2)
    text = st.required(2, "a number", taken=2)
    ctx.note_stats()
    ctx.global_.values["stats_maxconn"] = integer("stats maxconn", text, 1)


def _insecure_fork(ctx: Context, st: Statement) -> None:
    st.at_most(0)


def _profiling_tasks(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    mode = choice(st.words[0], st.required(1, "a value"), ("auto", "on", "off"))
    ctx.global_.values["profiling_tasks"] = mode


def _profiling_locks(ctx: Context, st: Statement) -> None:
    st.at_most(1)
    text = st.required(1, "on or off")
    ctx.global_.values["profiling_locks"] = choice(st.words[0], text, ("on", "off")) == "on"


def _add_case(ctx: Context, keyword: str, name: str, spelling: str) -> None:
    """Note how a name is spelled for peers that look at the case."""
    if name.lower() != spelling.lower():
        raise ConfigError(
            f"'{keyword}': '{name}' and '{spelling}' differ in more than the case", word=spelling
        )
    known = ctx.global_.h1_case
    key = name.lower().encode("utf-8", "surrogateescape")
    if key in known:
        raise ConfigError(f"'{keyword}': '{name}' is adjusted already", word=name)
    known[key] = spelling.encode("utf-8", "surrogateescape")


def _case_adjust(ctx: Context, st: Statement) -> None:
    """`h1-case-adjust FROM TO` (manual 3.1)."""
    st.at_most(2)
    name = st.required(1, "a header name")
    _add_case(ctx, st.words[0], name, st.required(2, "its spelling"))


def _case_adjust_file(ctx: Context, st: Statement) -> None:
    """`h1-case-adjust-file FILE`: lines of two names; empty ones and comments are skipped."""
    st.at_most(1)
    path = st.required(1, "a file")
    try:
        text = Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise ConfigError(
            f"'{st.words[0]}': cannot read '{path}': {error.strerror}", word=path
        ) from None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise ConfigError(
                f"'{st.words[0]}': line {number} of '{path}' is no pair of header names", word=path
            )
        _add_case(ctx, st.words[0], *words)


def _no_effect(name: str, parse: Parser, why: str, *, negatable: bool = False) -> Keyword:
    return Keyword(name, IN_GLOBAL, parse, Support.NO_EFFECT, why, negatable)


_TLS = "concerns TLS, whose keywords are refused"

KEYWORDS: tuple[Keyword, ...] = (
    Keyword("chroot", IN_GLOBAL, _text("chroot", "a directory")),
    Keyword("server-state-base", IN_GLOBAL, _text("server_state_base", "a directory")),
    Keyword("server-state-file", IN_GLOBAL, _text("server_state_file", "a file")),
    Keyword("cpu-map", IN_GLOBAL, _cpu_map),
    Keyword("daemon", IN_GLOBAL, _flag("daemon")),
    Keyword("description", IN_GLOBAL, _description),
    Keyword("fd-hard-limit", IN_GLOBAL, _number_or_unset("fd_hard_limit")),
    Keyword("h1-case-adjust", IN_GLOBAL, _case_adjust),
    Keyword("h1-case-adjust-file", IN_GLOBAL, _case_adjust_file),
    Keyword("gid", IN_GLOBAL, _once(_number("gid", 0, _ID_MAX), "gid")),
    Keyword("group", IN_GLOBAL, _once(_group, "gid")),
    Keyword("close-spread-time", IN_GLOBAL, _close_spread_time),
    Keyword("default-path", IN_GLOBAL, _default_path),
    Keyword("grace", IN_GLOBAL, _time("grace")),
    Keyword("hard-stop-after", IN_GLOBAL, _time("hard_stop_after")),
    Keyword("localpeer", IN_GLOBAL, _localpeer),
    Keyword("max-spread-checks", IN_GLOBAL, _time("max_spread_checks")),
    Keyword("maxconn", IN_GLOBAL, _number_or_unset("maxconn")),
    Keyword("maxconnrate", IN_GLOBAL, _number("maxconnrate", 0)),
    Keyword("maxsessrate", IN_GLOBAL, _number("maxsessrate", 0)),
    Keyword("maxpipes", IN_GLOBAL, _number("maxpipes", 0)),
    Keyword("nbthread", IN_GLOBAL, _number("nbthread", 1, MAX_THREADS)),
    Keyword("node", IN_GLOBAL, _node),
    Keyword("noepoll", IN_GLOBAL, _feature_off),
    Keyword("nogetaddrinfo", IN_GLOBAL, _feature_off),
    Keyword("nopoll", IN_GLOBAL, _feature_off),
    Keyword("noreuseport", IN_GLOBAL, _feature_off),
    Keyword("nosplice", IN_GLOBAL, _feature_off),
    Keyword("pidfile", IN_GLOBAL, _text("pidfile", "a file name")),
    Keyword("profiling.tasks", IN_GLOBAL, _profiling_tasks),
    Keyword("presetenv", IN_GLOBAL, _setenv),
    Keyword("profiling.locks", IN_GLOBAL, _profiling_locks),
    Keyword("quiet", IN_GLOBAL, _flag("quiet")),
    Keyword("resetenv", IN_GLOBAL, _resetenv),
    Keyword("set-dumpable", IN_GLOBAL, _flag("set_dumpable"), negatable=True),
    Keyword("setenv", IN_GLOBAL, _setenv),
    Keyword("spread-checks", IN_GLOBAL, _number("spread_checks", 0, 50)),
    Keyword("stats maxconn", IN_GLOBAL, _stats_maxconn),
    Keyword("pp2-never-send-local", IN_GLOBAL, _flag("pp2_never_send_local")),
    Keyword("strict-limits", IN_GLOBAL, _flag("strict_limits"), negatable=True),
    Keyword("thread-groups", IN_GLOBAL, _thread_groups),
    Keyword("uid", IN_GLOBAL, _once(_number("uid", 0, _ID_MAX), "uid")),
    Keyword("ulimit-n", IN_GLOBAL, _number_or_unset("ulimit_n")),
    Keyword("unsetenv", IN_GLOBAL, _unsetenv),
    Keyword("user", IN_GLOBAL, _once(_user, "uid")),
    Keyword("zero-warning", IN_GLOBAL, _flag("zero_warning")),
    _no_effect("ca-base", _one_argument, _TLS),
    _no_effect("crt-base", _one_argument, _TLS),
    Keyword("expose-experimental-directives", IN_GLOBAL, _experimental),
    _no_effect("expose-deprecated-directives", _no_argument, "deprecated directives are refused"),
    _no_effect("harden.reject-privileged-ports.quic", _one_argument, "QUIC is refused"),
    _no_effect("harden.reject-privileged-ports.tcp", _one_argument, "no port is reserved"),
    _no_effect("insecure-fork-wanted", _insecure_fork, "forking is not prevented", negatable=True),
    _no_effect(
        "insecure-setuid-wanted", _insecure_fork, "set-uid programs are not run", negatable=True
    ),
    _no_effect("issuers-chain-path", _one_argument, _TLS),
    _no_effect("key-base", _one_argument, _TLS),
    _no_effect("limited-quic", _no_argument, "QUIC is refused"),
    _no_effect("maxsslconn", _one_argument, _TLS),
    _no_effect("maxsslrate", _one_argument, _TLS),
    _no_effect("maxcompcpuusage", _one_argument, "compression is refused"),
    _no_effect("maxcomprate", _one_argument, "compression is refused"),
    _no_effect("maxzlibmem", _one_argument, "compression is refused"),
    _no_effect("no-memory-trimming", _no_argument, "memory is never trimmed"),
    _no_effect("no-quic", _no_argument, "QUIC is refused"),
    _no_effect("noevports", _no_argument, "Linux has epoll and poll only"),
    _no_effect("nokqueue", _no_argument, "Linux has epoll and poll only"),
    _no_effect(
        "numa-cpu-mapping", _numa, "threads are spread by the kernel or cpu-map", negatable=True
    ),
    _no_effect("profiling.memory", _one_argument, "the profiler counts HAProxy's allocator calls"),
    _no_effect("ssl-default-bind-ciphers", _any_arguments, _TLS),
    _no_effect("ssl-default-bind-ciphersuites", _any_arguments, _TLS),
    _no_effect("ssl-default-bind-client-sigalgs", _any_arguments, _TLS),
    _no_effect("ssl-default-bind-curves", _any_arguments, _TLS),
    _no_effect("ssl-default-bind-options", _any_arguments, _TLS),
    _no_effect("ssl-default-bind-sigalgs", _any_arguments, _TLS),
    _no_effect("ssl-default-server-ciphers", _any_arguments, _TLS),
    _no_effect("ssl-default-server-ciphersuites", _any_arguments, _TLS),
    _no_effect("ssl-default-server-client-sigalgs", _any_arguments, _TLS),
    _no_effect("ssl-default-server-curves", _any_arguments, _TLS),
    _no_effect("ssl-default-server-options", _any_arguments, _TLS),
    _no_effect("ssl-default-server-sigalgs", _any_arguments, _TLS),
    _no_effect("ssl-dh-param-file", _one_argument, _TLS),
    _no_effect("ssl-load-extra-del-ext", _no_argument, _TLS, negatable=True),
    _no_effect("ssl-load-extra-files", _any_arguments, _TLS),
    _no_effect("ssl-mode-async", _no_argument, _TLS),
    _no_effect("ssl-server-verify", _one_argument, _TLS),
    _no_effect("ssl-skip-self-issued-ca", _no_argument, _TLS),
)

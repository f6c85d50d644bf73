"""`load`: configuration files in, immutable Settings or diagnostics out.

Main thread only, before the others start. Reads files and the environment, changes neither: what
`setenv` does is in `Settings.environment`. The process's directory changes with `default-path`
while a file is read.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from mtproxy.base.address import Resolver
from mtproxy.base.commandline import CommandLine
from mtproxy.base.errors import Diagnostics, Severity
from mtproxy.base.settings import Settings
from mtproxy.config.context import Context
from mtproxy.config.sections import Reader
from mtproxy.config.validate import check, freeze


def expand_paths(paths: Sequence[str], diagnostics: Diagnostics) -> list[str]:
    """Files as given; a directory stands for its `*.cfg`, hidden ones aside, in byte order."""
    files: list[str] = []
    for path in paths:
        try:
            if Path(path).is_dir():
                names = [
                    name
                    for name in os.listdir(path)
                    if name.endswith(".cfg") and not name.startswith(".")
                ]
                files.extend(os.path.join(path, name) for name in sorted(names, key=os.fsencode))
            else:
                files.append(path)
        except (OSError, ValueError) as error:
            diagnostics.alert(f"cannot open configuration directory {path} : {_reason(error)}")
    return files


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def load(
    paths: Sequence[str],
    cmdline: CommandLine | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    resolver: Resolver | None = None,
) -> tuple[Settings | None, Diagnostics]:
    """Read `paths` (files and directories, in order). Settings is None when there is an alert.

    `environ` defaults to the process's environment, `resolver` to the C library. With
    `zero-warning` or -dW a warning makes the configuration unusable too.
    """
    cmdline = cmdline or CommandLine()
    ctx = Context(
        cmdline, dict(os.environ if environ is None else environ), given_resolver=resolver
    )
    diagnostics = ctx.diagnostics
    files = expand_paths(paths, diagnostics)
    if not files and not diagnostics.errors:
        diagnostics.alert(f"no configuration file (*.cfg) in {', '.join(paths) or 'no path'}")
    local_peer = cmdline.local_peer or socket.gethostname()
    ctx.environ["HAPROXY_LOCALPEER"] = local_peer
    ctx.environ["HAPROXY_CFGFILES"] = ";".join(files)
    reader = Reader(ctx)
    for file in files:
        try:
            data = Path(file).read_bytes()
        except (OSError, ValueError) as error:
            diagnostics.alert(f"cannot open configuration file {file} : {_reason(error)}")
            continue
        try:
            with ctx.default_path.reading(file):
                reader.feed(file, data)
        except OSError as error:
            diagnostics.alert(f"couldn't apply 'default-path' for {file} : {_reason(error)}")
    return finish(ctx, tuple(files))


def _cross_check(ctx: Context) -> None:
    """Checks between sections; behind errors their warnings would mostly be echoes of those."""
    found, ctx.diagnostics = ctx.diagnostics, Diagnostics()
    check(ctx)
    cross, ctx.diagnostics = ctx.diagnostics, found
    quiet = found.errors > 0
    found.extend(item for item in cross if not quiet or item.severity is Severity.ALERT)


def finish(ctx: Context, files: tuple[str, ...]) -> tuple[Settings | None, Diagnostics]:
    """Cross checks, the command line's own values, and the immutable result."""
    diagnostics = ctx.diagnostics
    cmdline = ctx.cmdline
    _cross_check(ctx)
    values = ctx.global_.values
    overrides: dict[str, object] = {
        "localpeer": cmdline.local_peer or values.get("localpeer") or socket.gethostname(),
        "pidfile": cmdline.pidfile or values.get("pidfile"),
        "maxconn": cmdline.maxconn or values.get("maxconn"),
        "daemon": (cmdline.daemon or bool(values.get("daemon")))
        and not (cmdline.debug or cmdline.foreground),
        "quiet": (cmdline.quiet or bool(values.get("quiet"))) and not cmdline.verbose,
        "zero_warning": cmdline.zero_warning or bool(values.get("zero_warning")),
    }
    values.update(overrides)
    ctx.global_.disabled_features |= cmdline.disabled_features
    if cmdline.proxy_maxconn:
        for proxy in ctx.proxies:
            proxy.maxconn = proxy.maxconn or cmdline.proxy_maxconn
    if values["zero_warning"] and diagnostics.warnings and not diagnostics.errors:
        diagnostics.alert("some warnings were found and 'zero-warning' is set: aborting")
    if diagnostics.errors:
        return None, diagnostics
    return freeze(ctx, files), diagnostics

"""Modules that are imported when they are first needed, while their files can still be seen.

A process that changes its root directory or its user may not find a file of Python's or of a
library's any more: a log format that needs a codec would stop it. Main thread, at start.
"""

from __future__ import annotations

import importlib

from mtproxy.base.settings import Settings

#: codecs (names of hosts, texts of formats), tracebacks, what a profile and a Python service need
_ALWAYS = (
    "encodings.ascii",
    "encodings.idna",
    "encodings.latin_1",
    "encodings.unicode_escape",
    "encodings.utf_8",
    "http",
    "linecache",
    "mtproxy.sched.polllines",
    "traceback",
)
#: dnspython imports the module of a record's type when it reads one
_DNS = (
    "dns.exception",
    "dns.message",
    "dns.rdtypes.ANY.CNAME",
    "dns.rdtypes.ANY.DNAME",
    "dns.rdtypes.ANY.OPT",
    "dns.rdtypes.ANY.SOA",
    "dns.rdtypes.ANY.TSIG",
    "dns.rdtypes.IN.A",
    "dns.rdtypes.IN.AAAA",
    "dns.rdtypes.IN.SRV",
)


def needed(settings: Settings) -> tuple[str, ...]:
    """The names of the modules that the configuration may need while it runs; () where their files
    stay in sight.
    """
    glob = settings.global_
    if all(one is None for one in (glob.chroot, glob.user, glob.uid)):
        return ()
    return _ALWAYS + (_DNS if settings.resolvers else ())


def preload(settings: Settings) -> None:
    """Import them. Raises ImportError when an installation is not complete."""
    for name in needed(settings):
        importlib.import_module(name)

"""What this program is: its version, HAProxy's version whose language it follows, its features.

Constants only. `feature(NAME)` and `version_atleast(VERSION)` in a configuration, `mtproxy -vv` and
the runtime socket's `show version` all answer from here.
"""

from __future__ import annotations

import re

from mtproxy.base.units import decimal

#: The language followed is that of HAProxy 2.6 (the long-term branch of Debian 12), with later
#: additions where they are harmless. Configurations test this one number.
HAPROXY_LEVEL = "2.6.12"

#: HAProxy's build features: present (True) or not
FEATURES: dict[str, bool] = {
    "51DEGREES": False,
    "ACCEPT4": True,
    "BACKTRACE": True,
    "CLOSEFROM": False,
    "CPU_AFFINITY": True,
    "CRYPT_H": False,
    "DEVICEATLAS": False,
    "DL": False,
    "ENGINE": False,
    "EPOLL": True,
    "EVPORTS": False,
    "GETADDRINFO": True,
    "KQUEUE": False,
    "LIBCRYPT": False,
    "LINUX_SPLICE": True,
    "LINUX_TPROXY": False,
    "LUA": False,
    "MEMORY_PROFILING": False,
    "NETFILTER": False,
    "NS": False,
    "OBSOLETE_LINKER": False,
    "OPENSSL": False,
    "OT": False,
    "PCRE": False,
    "PCRE2": True,
    "PCRE2_JIT": True,
    "PCRE_JIT": False,
    "POLL": True,
    "PRCTL": False,
    "PROCCTL": False,
    "PROMEX": True,
    "QUIC": False,
    "RT": False,
    "SLZ": False,
    "STATIC_PCRE": False,
    "STATIC_PCRE2": False,
    "SYSTEMD": False,
    "TFO": True,
    "THREAD": True,
    "THREAD_DUMP": True,
    "TPROXY": False,
    "WURFL": False,
    "ZLIB": False,
}

_VERSION = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?(?:-dev([0-9]*))?(?:[-+~].*)?")

#: greater than every development number: a release comes after its development versions
_RELEASE = 1 << 30


def parse_version(text: str) -> tuple[int, int, int, int]:
    """`2.4`, `2.4.1`, `2.4-dev19`, `2.6.12-1+deb12u4`; missing parts are zero.

    The fourth part is the development number. Raises ValueError for anything else.
    """
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is not a version")
    major, minor, patch, dev = found.groups()
    number = _RELEASE if dev is None else decimal(dev or "0")
    return decimal(major), decimal(minor or "0"), decimal(patch or "0"), number


def feature_list() -> str:
    """`+EPOLL -OPENSSL ...` as in `-vv`."""
    return " ".join(f"{'+' if on else '-'}{name}" for name, on in FEATURES.items())

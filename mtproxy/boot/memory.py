"""`-m`: the limit of memory (management guide, section 3). Main thread, at start.

HAProxy limits its address space. A free-threaded Python reserves a gigabyte of that before it runs
the first line, so what is limited here is the data segment: private memory that may be written. The
allocator counts its reserve as that too unless it is told otherwise when the process starts;
therefore `-m` makes the program execute itself once more, with the allocator's switch in its
environment.
"""

from __future__ import annotations

import os
import resource
import sys
import sysconfig

from mtproxy.boot.limits import LimitError

#: the allocator's switch: memory becomes data when it is used, not when it is reserved
_SWITCH = "MIMALLOC_ARENA_EAGER_COMMIT"
#: what one more thread takes at once: a segment of the allocator and its stack, bytes
_PER_THREAD = 48 << 20
MB = 1 << 20


def restart_if_needed() -> None:
    """Execute the program anew so that a limit of memory can hold. Does not return then.

    To be called before anything was read, opened or said.
    """
    if sysconfig.get_config_var("Py_GIL_DISABLED") and os.environ.get(_SWITCH) != "0":
        os.environ[_SWITCH] = "0"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def data_bytes() -> int:
    """Private memory that the process may write to, whether it was used or not."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    raise AssertionError("/proc/self/status has no VmData")


def limit(megabytes: int, nbthread: int, tables: int = 0) -> None:
    """Let the process have `megabytes` of data, of which it needs `tables` bytes besides threads.

    Raises LimitError when it could not even start.
    """
    needed = data_bytes() + nbthread * _PER_THREAD + tables
    if megabytes * MB < needed:
        threads = f"{nbthread} thread{'s' * (nbthread > 1)}"
        raise LimitError(
            f"{megabytes} MB of memory (-m) are not enough for {threads}: "
            f"at least {-(-needed // MB)} MB are needed"
        )
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    size = megabytes * MB
    if hard != resource.RLIM_INFINITY:
        size = min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))

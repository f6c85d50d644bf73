"""Files that a configuration names: read whole, without waiting or filling the memory.

Whatever stands under the name, reading it ends: pipes that nobody fills, terminals and devices
without an end are errors. Any thread; blocks on the disk, and up to `PATIENCE_MS` on a pipe.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from typing import Final

#: ms that a pipe or a terminal may keep silent
PATIENCE_MS: Final = 2000
#: the most that is read of what is no regular file, bytes
STREAM_LIMIT: Final = 16 << 20


def read_whole(path: str) -> bytes:
    """The bytes of a file. Raises OSError, and ValueError for what cannot be a name."""
    # without O_NONBLOCK a pipe would have to have a writer before it could be opened
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            with os.fdopen(fd, "rb", closefd=False) as file:
                return file.read()
        return _read_stream(fd)
    finally:
        os.close(fd)


def _read_stream(fd: int) -> bytes:
    """A pipe or a device up to its end. A pipe that nobody has open for writing is empty."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            if not poll.poll(PATIENCE_MS):
                raise OSError(errno.ETIMEDOUT, "nothing comes, and no end of it") from None
            continue
        if not data:
            return b"".join(parts)
        size += len(data)
        if size > STREAM_LIMIT:
            raise OSError(errno.EFBIG, "it has no end")
        parts.append(data)

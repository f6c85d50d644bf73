"""What a converter may make of a value: as much as fits a buffer (`tune.bufsize`, manual 3.2).

HAProxy builds results in buffers of that size. As there, a result that does not fit is cut off
(texts put together, hex dumps) or does not exist (encodings that would be wrong when cut); each
converter says which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mtproxy.rules.build import Build

_DEFAULT = 16384


def buffer_size(build: Build) -> int:
    """Bytes of a buffer."""
    size = build.shared.settings.global_.tune.get("tune.bufsize", _DEFAULT)
    return size if isinstance(size, int) else _DEFAULT

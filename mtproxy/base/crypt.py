"""crypt(3) of the system's libcrypt: hashes of passwords as /etc/shadow has them.

Which methods exist is the library's choice: with libxcrypt yescrypt, bcrypt, SHA-512, SHA-256, MD5,
DES and others. Any thread: each call has data of its own (crypt_r), and other threads go on while
one computes.
"""

from __future__ import annotations

import ctypes
import hmac
from typing import Any

#: bytes of a `struct crypt_data`: 32768 in libxcrypt; glibc's older one had more
_DATA_SIZE = 1 << 18


def _load() -> Any:
    for name in ("libcrypt.so.1", "libcrypt.so.2", "libcrypt.so"):
        try:
            function = ctypes.CDLL(name).crypt_r
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_char_p
        function.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
        return function
    return None


_crypt_r: Any = _load()


def available() -> bool:
    """Whether there is a libcrypt; without one no password matches a hash."""
    return _crypt_r is not None


def hash_password(password: bytes, setting: bytes) -> bytes | None:
    """`password` hashed with method, cost and salt of `setting` (a hash or its beginning).

    None where the library does not know the method, or where either holds a NUL.
    """
    if _crypt_r is None or b"\0" in password or b"\0" in setting:
        return None
    data = ctypes.create_string_buffer(_DATA_SIZE)
    result: bytes | None = _crypt_r(password, setting, data)
    if result is None or result.startswith(b"*"):
        return None
    return result


def matches(password: bytes, hashed: bytes) -> bool:
    """Whether `hashed` is the hash of `password`. Takes as long as the method wants: to 100 ms."""
    result = hash_password(password, hashed)
    return result is not None and hmac.compare_digest(result, hashed)

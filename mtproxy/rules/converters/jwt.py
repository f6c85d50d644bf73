"""JSON Web Tokens (manual 7.3.1: jwt_header_query, jwt_payload_query, jwt_verify; RFC 7515, 7518).

Secrets of HMAC are texts; RSA and ECDSA take a file in PEM with a public key, which is read at
load. A file that only a variable names is known if some rule names it in the configuration.
`_keys` is filled by the main thread, before the others start, and read by all.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any, Final

from mtproxy.base.files import read_whole
from mtproxy.rules import libcrypto
from mtproxy.rules.converters.crypto import is_variable, text_argument
from mtproxy.rules.converters.encodings import decode_base64url
from mtproxy.rules.converters.json import check_query, query
from mtproxy.rules.converters.limits import buffer_size
from mtproxy.rules.tables import ArgKind, Converter, optional, required
from mtproxy.rules.types import Binary, Type, Value

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View

_DIGESTS: Final = {b"256": "sha256", b"384": "sha384", b"512": "sha512"}
_FAMILIES: Final = (b"HS", b"RS", b"ES", b"PS")
#: results of jwt_verify
_GOOD, _WRONG = 1, 0
_UNKNOWN_ALGORITHM, _UNMANAGED, _INVALID, _UNKNOWN_KEY = -1, -2, -3, -5

#: public keys by the name of their file
_keys: Final[dict[bytes, libcrypto.PublicKey]] = {}


# --- queries


def _query(part: int) -> Any:
    def make(args: tuple[Any, ...], build: Build) -> Convert:
        read = query(args[0], bool(args[1]), buffer_size(build)) if args[0] is not None else None

        def convert(value: Any, _view: View) -> Value | None:
            parts: list[bytes] = value.split(b".", part + 1)
            decoded = decode_base64url(parts[part]) if len(parts) > part else None
            if decoded is None:
                return None
            text = bytes(decoded)
            return text if read is None else read(text)

        return convert

    return make


# --- verification


def _algorithm(text: bytes) -> tuple[bytes, str] | None:
    """The family of an algorithm and its digest; None if RFC 7518 does not know it."""
    if text == b"none":
        return text, ""
    family, digest = text[:2], _DIGESTS.get(text[2:])
    return (family, digest) if family in _FAMILIES and digest is not None else None


def verify(token: bytes, algorithm: bytes, key: bytes) -> int:
    """1 for a good signature, 0 for a wrong one, and what the manual says for everything else."""
    known = _algorithm(algorithm)
    if known is None:
        return _UNKNOWN_ALGORITHM
    family, digest = known
    parts = token.split(b".")
    if len(parts) != 3 and not (len(parts) == 2 and family == b"none"):
        return _INVALID
    encoded = parts[2] if len(parts) == 3 else b""
    if family == b"none":
        return _WRONG if encoded else _GOOD
    signature = decode_base64url(encoded) if encoded else None
    if signature is None:
        return _INVALID
    signed = token[: len(parts[0]) + len(parts[1]) + 1]
    if family == b"HS":
        same = hmac.compare_digest(hmac.digest(key, signed, digest), signature)
        return _GOOD if same else _WRONG
    return _verify_public(family, digest, key, signed, signature)


def _verify_public(family: bytes, digest: str, key: bytes, signed: bytes, signature: Binary) -> int:
    if family == b"PS":
        return _UNMANAGED
    public = _keys.get(key.partition(b"\0")[0])
    if public is None:
        return _UNKNOWN_KEY
    usable: bytes | None = signature
    if family == b"ES":
        usable = libcrypto.ecdsa_der(signature)
        if usable is None:
            return _INVALID
    return _GOOD if public.verifies(digest, signed, usable or b"") else _WRONG


def _jwt_verify(args: tuple[Any, ...], build: Build) -> Convert:
    algorithm, key = text_argument(args[0], build), text_argument(args[1], build)

    def convert(value: Any, view: View) -> int | None:
        chosen, secret = algorithm(view), key(view)
        return None if chosen is None or secret is None else verify(value, chosen, secret)

    return convert


def _check_verify(args: tuple[Any, ...]) -> str | None:
    name = args[0].decode("latin-1")
    known = None
    if not is_variable(name):
        known = _algorithm(args[0])
        if known is None:
            return f"unknown JWT algorithm: {name}"
        if known[0] == b"PS":
            return "RSASSA-PSS JWS signing not managed yet"
    file = args[1].decode("utf-8", "surrogateescape")
    if is_variable(file) or (known is not None and known[0] in (b"HS", b"none")):
        return None
    return _load(args[1], file, must=known is not None)


def _load(name: bytes, path: str, *, must: bool) -> str | None:
    """Read a key; `must`: it is a file for sure, where a variable chooses it may be a secret."""
    if name in _keys:
        return None
    try:
        _keys[name] = libcrypto.PublicKey(read_whole(path))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return f"cannot read the public key '{path}' : {reason}" if must else None
    return None


_QUERY = optional(ArgKind.STR, ArgKind.STR)
_LATER = "encrypted and certificate-bound tokens"

CONVERTERS: tuple[Converter, ...] = (
    Converter("jwt_header_query", Type.BIN, Type.ANY, _query(0), _QUERY, check_query),
    Converter("jwt_payload_query", Type.BIN, Type.ANY, _query(1), _QUERY, check_query),
    Converter(
        "jwt_verify",
        Type.BIN,
        Type.SINT,
        _jwt_verify,
        required(ArgKind.STR, ArgKind.STR),
        _check_verify,
    ),
    *(
        Converter(name, Type.BIN, Type.ANY, later=_LATER)
        for name in (
            "jwt_verify_cert",
            "jwt_decrypt_cert",
            "jwt_decrypt_jwk",
            "jwt_decrypt_secret",
        )
    ),
)

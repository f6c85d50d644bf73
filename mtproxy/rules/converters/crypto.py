"""Digests, keyed digests and AES (manual 7.3.1: sha1, sha2, digest, hmac, aes_gcm_dec, ...).

Keys, nonces and tags are base64 texts, or variables that hold such texts. A key that does not fit,
or a tag that is wrong, gives no sample. Functions belong to the thread that made them.
"""

from __future__ import annotations

import hashlib
import hmac
from binascii import b2a_base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mtproxy.base.errors import ConfigError
from mtproxy.rules import libcrypto
from mtproxy.rules.arguments import SCOPES, check_variable
from mtproxy.rules.casts import dynamic, to_text
from mtproxy.rules.converters.encodings import decode_base64
from mtproxy.rules.tables import ArgKind, Converter, optional, required
from mtproxy.rules.types import Binary, Type
from mtproxy.rules.variables import reader, writer

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View

type Bytes = Callable[[View], bytes | None]

#: lengths of digests that may have any; those that OpenSSL gives
_EXTENDABLE = {"shake_128": 16, "shake_256": 32}
_OTHER_NAMES = {
    "shake128": "shake_128",
    "shake256": "shake_256",
    "blake2b512": "blake2b",
    "blake2s256": "blake2s",
    "ripemd": "ripemd160",
    "rmd160": "ripemd160",
    "sha512-224": "sha512_224",
    "sha512-256": "sha512_256",
    "ssl3-sha1": "sha1",
    "ssl3-md5": "md5",
}


def _digest_name(text: str) -> str | None:
    """OpenSSL's name of a digest as Python knows it; None if there is no such digest."""
    name = text.lower().removeprefix("rsa-").removesuffix("withrsaencryption")
    if "_" in name:
        return None
    if name.startswith(("sha2-", "sha-")):
        name = "sha" + name.partition("-")[2].replace("/", "-")
    name = _OTHER_NAMES.get(name, name)
    if name.startswith("sha3-"):
        name = name.replace("-", "_")
    return name if name in hashlib.algorithms_available else None


def is_variable(text: str) -> bool:
    """Whether an argument that may be a value is the name of a variable."""
    if text.partition(".")[0] not in SCOPES:
        return False
    try:
        check_variable(text)
    except ConfigError:
        return False
    return True


def text_argument(argument: bytes, build: Build) -> Bytes:
    """A text given in the configuration, or what a variable holds."""
    name = argument.decode("latin-1")
    if not is_variable(name):
        return lambda _view: argument
    read = reader(name, build)

    def text(view: View) -> bytes | None:
        value = read(view)
        return None if value is None else to_text(value)

    return text


def _secret(argument: bytes, build: Build) -> Bytes:
    """Bytes given in base64, in the configuration or in a variable."""
    if not is_variable(argument.decode("latin-1")):
        decoded = decode_base64(argument)
        return lambda _view: decoded
    text = text_argument(argument, build)

    def secret(view: View) -> bytes | None:
        encoded = text(view)
        return None if encoded is None else decode_base64(encoded)

    return secret


def _wrong_secret(what: str, argument: bytes | None) -> str | None:
    if not argument or is_variable(argument.decode("latin-1")):
        return None
    if decode_base64(argument) is None:
        return f"failed to parse {what} : needs to be base64 encoded, or a variable"
    return None


# --- digests


def _sha1(value: Any, _view: View) -> Binary:
    return Binary(hashlib.sha1(value, usedforsecurity=False).digest())


def _sha2(args: tuple[Any, ...], _build: Build) -> Convert:
    digest = getattr(hashlib, f"sha{args[0] or 256}")
    return lambda value, _view: Binary(digest(value).digest())


def _check_sha2(args: tuple[Any, ...]) -> str | None:
    # 0 and nothing stand for the default
    return None if args[0] in (None, 224, 256, 384, 512) else f"unsupported bits: {args[0]}"


def _digest(args: tuple[Any, ...], _build: Build) -> Convert:
    name = _digest_name(args[0].decode())
    assert name is not None
    length = _EXTENDABLE.get(name)
    make: Any = getattr(hashlib, name, None)
    if length is not None:
        return lambda value, _view: Binary(make(value).digest(length))
    if make is not None:
        return lambda value, _view: Binary(make(value, usedforsecurity=False).digest())

    def by_name(value: Any, _view: View) -> Binary:
        return Binary(hashlib.new(name, value, usedforsecurity=False).digest())

    return by_name


def _check_digest(args: tuple[Any, ...]) -> str | None:
    if _digest_name(args[0].decode(errors="replace")) is None:
        return "algorithm must be a valid OpenSSL message digest name"
    return None


def _hmac(args: tuple[Any, ...], build: Build) -> Convert:
    name = _digest_name(args[0].decode())
    assert name is not None
    key = _secret(args[1], build)

    def keyed(value: Any, view: View) -> Binary | None:
        secret = key(view)
        return None if secret is None else Binary(hmac.digest(secret, value, name))

    return keyed


def _check_hmac(args: tuple[Any, ...]) -> str | None:
    wrong = _check_digest(args)
    if wrong is None and _digest_name(args[0].decode()) in _EXTENDABLE:
        wrong = "this digest has no fixed length"
    return wrong or _wrong_secret("key", args[1])


def _secure_memcmp(args: tuple[Any, ...], build: Build) -> Convert:
    read = reader(args[0], build)

    def same(value: Any, view: View) -> bool | None:
        found = read(view)
        if found is None:
            return None
        other: Any = found if isinstance(found, bytes) else dynamic(found, Type.BIN)
        return hmac.compare_digest(value, other)

    return same


# --- AES


def _check_aes(args: tuple[Any, ...]) -> str | None:
    if not libcrypto.available():
        return "needs OpenSSL's libcrypto, which was not found"
    if args[0] not in (128, 192, 256):
        return "key size must be 128, 192 or 256 (bits)"
    return _wrong_secret("nonce", args[1]) or _wrong_secret("key", args[2])


def _check_gcm_dec(args: tuple[Any, ...]) -> str | None:
    return _check_aes(args) or _wrong_secret("aead_tag", args[3]) or _wrong_secret("aad", args[4])


def _check_gcm_enc(args: tuple[Any, ...]) -> str | None:
    return _check_aes(args) or _wrong_secret("aad", args[4])


def _aad(argument: bytes | None, build: Build) -> Bytes:
    return _secret(argument, build) if argument else (lambda _view: b"")


def _key_of(bits: int, key: bytes) -> bytes | None:
    """As many bytes as the size of the key asks for; None if there are fewer."""
    size = bits // 8
    return key[:size] if len(key) >= size else None


def _gcm_dec(args: tuple[Any, ...], build: Build) -> Convert:
    bits = args[0]
    nonce, key, tag = (_secret(argument, build) for argument in args[1:4])
    aad = _aad(args[4], build)

    def decrypt(value: Any, view: View) -> Binary | None:
        parts = (nonce(view), key(view), tag(view), aad(view))
        if None in parts:
            return None
        used: Any = parts
        fitting = _key_of(bits, used[1])
        if fitting is None:
            return None
        plain = libcrypto.aes_gcm_decrypt(value, fitting, used[0], used[2], used[3])
        return None if plain is None else Binary(plain)

    return decrypt


def _gcm_enc(args: tuple[Any, ...], build: Build) -> Convert:
    bits = args[0]
    nonce, key = _secret(args[1], build), _secret(args[2], build)
    keep_tag = writer(args[3], build)
    aad = _aad(args[4], build)

    def encrypt(value: Any, view: View) -> Binary | None:
        parts = (nonce(view), key(view), aad(view))
        if None in parts:
            return None
        used: Any = parts
        fitting = _key_of(bits, used[1])
        made = (
            None if fitting is None else libcrypto.aes_gcm_encrypt(value, fitting, used[0], used[2])
        )
        if made is None:
            return None
        keep_tag(view, b2a_base64(made[1], newline=False))
        return Binary(made[0])

    return encrypt


def _cbc(encrypt: bool) -> Callable[[tuple[Any, ...], Build], Convert]:
    def make(args: tuple[Any, ...], build: Build) -> Convert:
        bits = args[0]
        nonce, key = _secret(args[1], build), _secret(args[2], build)

        def convert(value: Any, view: View) -> Binary | None:
            start, secret = nonce(view), key(view)
            if start is None or secret is None:
                return None
            fitting = _key_of(bits, secret)
            if fitting is None:
                return None
            result = libcrypto.aes_cbc(value, fitting, start, encrypt=encrypt)
            return None if result is None else Binary(result)

        return convert

    return make


_SIZE_NONCE_KEY = required(ArgKind.SINT, ArgKind.STR, ArgKind.STR)
_AAD = optional(ArgKind.STR)

CONVERTERS: tuple[Converter, ...] = (
    Converter("sha1", Type.BIN, Type.BIN, lambda _args, _build: _sha1),
    Converter("sha2", Type.BIN, Type.BIN, _sha2, optional(ArgKind.SINT), _check_sha2),
    Converter("digest", Type.BIN, Type.BIN, _digest, required(ArgKind.STR), _check_digest),
    Converter("hmac", Type.BIN, Type.BIN, _hmac, required(ArgKind.STR, ArgKind.STR), _check_hmac),
    Converter("secure_memcmp", Type.BIN, Type.BOOL, _secure_memcmp, required(ArgKind.VARIABLE)),
    Converter(
        "aes_gcm_dec",
        Type.BIN,
        Type.BIN,
        _gcm_dec,
        (*_SIZE_NONCE_KEY, *required(ArgKind.STR), *_AAD),
        _check_gcm_dec,
    ),
    Converter(
        "aes_gcm_enc",
        Type.BIN,
        Type.BIN,
        _gcm_enc,
        (*_SIZE_NONCE_KEY, *required(ArgKind.VARIABLE), *_AAD),
        _check_gcm_enc,
    ),
    Converter("aes_cbc_dec", Type.BIN, Type.BIN, _cbc(False), _SIZE_NONCE_KEY, _check_aes),
    Converter("aes_cbc_enc", Type.BIN, Type.BIN, _cbc(True), _SIZE_NONCE_KEY, _check_aes),
)

"""OpenSSL's libcrypto, for what Python's own modules do not offer: AES, and signatures of tokens.

The system's library is called through ctypes; `available` says whether there is one. Every call
makes and frees the objects that it needs, so that all functions may be called by any thread; a
`PublicKey` is only read after its making. A call costs some microseconds.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_long, c_size_t, c_void_p, create_string_buffer
from typing import Any, Final, Protocol

_SET_IV_LENGTH: Final = 0x9
_GET_TAG: Final = 0x10
_SET_TAG: Final = 0x11
#: bytes of the tag that `aes_gcm_encrypt` makes
TAG_SIZE: Final = 16


class _Functions:
    """The library's functions, with their types. Immutable."""

    def __init__(self, library: ctypes.CDLL) -> None:
        def function(name: str, result: Any, *arguments: Any) -> Any:
            found = library[name]
            found.restype = result
            found.argtypes = arguments
            return found

        self.new_cipher = function("EVP_CIPHER_CTX_new", c_void_p)
        self.free_cipher = function("EVP_CIPHER_CTX_free", None, c_void_p)
        self.cipher_by_name = function("EVP_get_cipherbyname", c_void_p, c_char_p)
        self.cipher_init = function(
            "EVP_CipherInit_ex", c_int, c_void_p, c_void_p, c_void_p, c_char_p, c_char_p, c_int
        )
        self.cipher_control = function(
            "EVP_CIPHER_CTX_ctrl", c_int, c_void_p, c_int, c_int, c_void_p
        )
        self.cipher_update = function(
            "EVP_CipherUpdate", c_int, c_void_p, c_void_p, POINTER(c_int), c_char_p, c_int
        )
        self.cipher_final = function(
            "EVP_CipherFinal_ex", c_int, c_void_p, c_void_p, POINTER(c_int)
        )
        self.digest_by_name = function("EVP_get_digestbyname", c_void_p, c_char_p)
        self.new_digest = function("EVP_MD_CTX_new", c_void_p)
        self.free_digest = function("EVP_MD_CTX_free", None, c_void_p)
        self.verify_init = function(
            "EVP_DigestVerifyInit", c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p
        )
        self.verify = function(
            "EVP_DigestVerify", c_int, c_void_p, c_char_p, c_size_t, c_char_p, c_size_t
        )
        self.memory = function("BIO_new_mem_buf", c_void_p, c_char_p, c_int)
        self.free_memory = function("BIO_free", c_int, c_void_p)
        self.read_key = function(
            "PEM_read_bio_PUBKEY", c_void_p, c_void_p, c_void_p, c_void_p, c_void_p
        )
        self.read_certificate = function(
            "PEM_read_bio_X509", c_void_p, c_void_p, c_void_p, c_void_p, c_void_p
        )
        self.key_of_certificate = function("X509_get_pubkey", c_void_p, c_void_p)
        self.free_certificate = function("X509_free", None, c_void_p)
        self.clear_errors = function("ERR_clear_error", None)
        self.version = function("OpenSSL_version_num", c_long)


def _load() -> _Functions | None:
    for name in ("libcrypto.so.3", "libcrypto.so.1.1"):
        try:
            return _Functions(ctypes.CDLL(name))
        except (OSError, AttributeError):
            continue
    return None


_crypto: Final = _load()


def available() -> bool:
    """Whether the library was found."""
    return _crypto is not None


# --- AES


class Cipher(Protocol):
    """Encrypts or decrypts: data, key, nonce -> data, or None."""

    def __call__(self, data: bytes, key: bytes, nonce: bytes) -> bytes | None: ...


def aes_gcm_decrypt(
    data: bytes, key: bytes, nonce: bytes, tag: bytes, aad: bytes = b""
) -> bytes | None:
    """The plain text; None if a key of this length is unknown, or the tag does not fit."""
    result = _aes("GCM", data, key, nonce, aad, tag=tag, encrypt=False)
    return None if result is None else result[0]


def aes_gcm_encrypt(
    data: bytes, key: bytes, nonce: bytes, aad: bytes = b""
) -> tuple[bytes, bytes] | None:
    """The encrypted text and its tag of 16 bytes; None if a key of this length is unknown."""
    return _aes("GCM", data, key, nonce, aad, tag=None, encrypt=True)


def aes_cbc(data: bytes, key: bytes, nonce: bytes, *, encrypt: bool) -> bytes | None:
    """Encryption or decryption with PKCS #7 padding; None for lengths or padding that are wrong."""
    if len(nonce) != 16:
        return None
    result = _aes("CBC", data, key, nonce, b"", tag=None, encrypt=encrypt)
    return None if result is None else result[0]


def _aes(
    mode: str,
    data: bytes,
    key: bytes,
    nonce: bytes,
    aad: bytes,
    *,
    tag: bytes | None,
    encrypt: bool,
) -> tuple[bytes, bytes] | None:
    crypto = _crypto
    if crypto is None or len(key) not in (16, 24, 32) or not nonce:
        return None
    cipher = crypto.cipher_by_name(f"AES-{8 * len(key)}-{mode}".encode())
    context = crypto.new_cipher()
    if not cipher or not context:
        return None
    try:
        return _run(crypto, context, cipher, mode, data, key, nonce, aad, tag, encrypt)
    finally:
        crypto.free_cipher(context)
        crypto.clear_errors()


def _run(
    crypto: _Functions,
    context: int,
    cipher: int,
    mode: str,
    data: bytes,
    key: bytes,
    nonce: bytes,
    aad: bytes,
    tag: bytes | None,
    encrypt: bool,
) -> tuple[bytes, bytes] | None:
    if crypto.cipher_init(context, cipher, None, None, None, int(encrypt)) != 1:
        return None
    gcm = mode == "GCM"
    if gcm and crypto.cipher_control(context, _SET_IV_LENGTH, len(nonce), None) != 1:
        return None
    if crypto.cipher_init(context, None, None, key, nonce, int(encrypt)) != 1:
        return None
    size = c_int()
    if aad and crypto.cipher_update(context, None, byref(size), aad, len(aad)) != 1:
        return None
    out = create_string_buffer(len(data) + 32)
    if crypto.cipher_update(context, out, byref(size), data, len(data)) != 1:
        return None
    written = size.value
    if gcm and tag is not None:
        kept = create_string_buffer(tag, len(tag))
        if not tag or crypto.cipher_control(context, _SET_TAG, len(tag), kept) != 1:
            return None
    if crypto.cipher_final(context, byref(out, written), byref(size)) != 1:
        return None
    made = create_string_buffer(TAG_SIZE)
    if gcm and encrypt and crypto.cipher_control(context, _GET_TAG, TAG_SIZE, made) != 1:
        return None
    return out.raw[: written + size.value], made.raw


# --- signatures


class PublicKey:
    """A public key from a PEM file: of its own, or of a certificate. Kept for good."""

    __slots__ = ("_key",)

    def __init__(self, pem: bytes) -> None:
        """Raises ValueError if there is no public key in `pem`."""
        crypto = _crypto
        if crypto is None:
            raise ValueError("there is no libcrypto to read it")
        self._key = _from_pem(crypto, pem, crypto.read_key)
        if not self._key:
            certificate = _from_pem(crypto, pem, crypto.read_certificate)
            if certificate:
                self._key = crypto.key_of_certificate(certificate)
                crypto.free_certificate(certificate)
        crypto.clear_errors()
        if not self._key:
            raise ValueError("there is no public key in it")

    def verifies(self, digest: str, data: bytes, signature: bytes) -> bool:
        """Whether `signature` is this key's for `data`, hashed by `digest` ("sha256")."""
        crypto = _crypto
        assert crypto is not None
        context = crypto.new_digest()
        try:
            algorithm = crypto.digest_by_name(digest.encode())
            if crypto.verify_init(context, None, algorithm, None, self._key) != 1:
                return False
            done = crypto.verify(context, signature, len(signature), data, len(data))
            return bool(done == 1)
        finally:
            crypto.free_digest(context)
            crypto.clear_errors()


def _from_pem(crypto: _Functions, pem: bytes, read: Any) -> int | None:
    memory = crypto.memory(pem, len(pem))
    try:
        found: int | None = read(memory, None, None, None)
        return found
    finally:
        crypto.free_memory(memory)


def ecdsa_der(signature: bytes) -> bytes | None:
    """The two numbers of an ECDSA signature (RFC 7518, 3.4) as the DER that OpenSSL wants."""
    if len(signature) % 2:
        return None
    half = len(signature) // 2
    numbers = b"".join(_der_integer(part) for part in (signature[:half], signature[half:]))
    return b"\x30" + _der_length(len(numbers)) + numbers


def _der_integer(data: bytes) -> bytes:
    number = data.lstrip(b"\0") or b"\0"
    if number[0] & 0x80:
        number = b"\0" + number
    return b"\x02" + _der_length(len(number)) + number


def _der_length(length: int) -> bytes:
    if length < 128:
        return bytes((length,))
    digits = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes((0x80 | len(digits),)) + digits

"""rules.converters.jwt: signatures by public keys, whose files are read at load."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.rules import libcrypto
from mtproxy.rules.types import Binary
from mtproxy.testing.expressions import Evaluator

pytestmark = pytest.mark.skipif(not libcrypto.available(), reason="no libcrypto")

# keys made for these tests alone; nothing else was ever signed by them
RSA = b"""\
-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA0zfMRcOu+cFMQq9v31av
US0mpewqbzy1nh0KJzuILUg6tZ3zjJPkni4KiKQFCfHyND3pXAQ8h0yc8Xt1LSzU
5q+03e3qELyMZ7ao7Dfi2B4M+U9yJB7tl6zSkmNJlq56BMcQx/tnSIOmqrKlxVT4
iLLkLmZgrubiLKvYWCy0lQlTE2/eZCtxij9kO6gWcu/dXY/4N/0yVT9nC126bNit
Nn5QRKg1tjdcWv7zLqre0yLvAhjNuFJuHWH4aDUMAuzne1spxy2kT9OXLd47beYI
XlIXb/rJMWxQemuN412yJ6pU6fBVSOiKk5W3YXODA7hnfmjdO1165ZNHsWJASrPe
BQIDAQAB
-----END PUBLIC KEY-----
"""
EC256 = b"""\
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEF9xxpJ1MBaybVBt6EboMNoGTwsVp
glgzUhKON/RTJcbGapg+G371uo3aIEw4x4YLsinT4d0vcOX+MabSVpZrwg==
-----END PUBLIC KEY-----
"""
EC384 = b"""\
-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEe6NoEBBDD/MH5QWMts8c6jpG8beD4ypW
alhbqAddbAbbFEyQE4x4v9hFpViPcljRkHiJV3OoW1iCSnHnaERyb1thzywfTW0U
JjV1CYLetKMdc+FOlxjhy3UyAT1iIvKo
-----END PUBLIC KEY-----
"""
EC512 = b"""\
-----BEGIN PUBLIC KEY-----
MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQBg8rm6rJcivNNWIsulBBEgPk9kLzP
KwQ0RmC5E8RzEyDz0wnIShQiN5fJaqmyk9OpLXiv+z68NIG9wLialKvjdUQAfsih
3roZ/Q0QCqu73HfyBsrYbIs2XdpqLUu0AerI1xz/bAojW5scu7pkalpofpZdh0+F
5KbUx+nyviovv4AYI2A=
-----END PUBLIC KEY-----
"""
CERTIFICATE = b"""\
-----BEGIN CERTIFICATE-----
MIIBczCCARmgAwIBAgIUdl2nHnMIqm4N33In2/ztPEgMBTQwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAeFw0yNjExMzAyMDQwNTVaFw0zNjExMjcyMDQwNTVa
MA8xDTALBgNVBAMMBHRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQX3HGk
nUwFrJtUG3oRugw2gZPCxWmCWDNSEo439FMlxsZqmD4bfvW6jdogTDjHhguyKdPh
3S9w5f4xptJWlmvCo1MwUTAdBgNVHQ4EFgQUzm+M7Mz+KQdc6dNeX5bZs7xiK+Uw
HwYDVR0jBBgwFoAUzm+M7Mz+KQdc6dNeX5bZs7xiK+UwDwYDVR0TAQH/BAUwAwEB
/zAKBggqhkjOPQQDAgNIADBFAiEA+7QTlFxHas3gYRL52xK4PDk1mOEirN8ZTGLZ
1EZf5eYCIGIhw0sxeyvNzRPhCTyP2l8HSR3xlzX33oTGZxCsRzY5
-----END CERTIFICATE-----
"""
RS256 = (
    "eyJhbGciOiAiUlMyNTYifQ.eyJzdWIiOiJ4In0.RncGWKrXTIbV3JFxhP-h40ukGtxtCLxHz_KfY4uhfTJ1yQCDh"
    "bEi-0qCw65z6zpCLcaUn6-CHoDkzd6nTnCEJwmT8a12Fmg5vHTRNVW4RMt0-u31Gn4tOrtX8KzWSh-sZZvX5zAaM"
    "w8HJkK7QZY0CvqIyCgc3DpQXyu_ZljLjSruYQfTeRC0y-KsUiUgvMegefrZU_H7qJ50WUA5cxhbHwAruFKi_qvGG"
    "GRE4QeawJHfJPQKXQEQOHfRVFiIDdgJV9x48B4ZuqmD5vvU7IqnEla_vfB6ttEb4K6kaD10M4H8i3pfg7CioiTba"
    "o3A1YaQdFodwH6tJiAqO5opqtOmVg"
)
RS512 = (
    "eyJhbGciOiAiUlM1MTIifQ.eyJzdWIiOiJ4In0.oVn929kj5bEQ_nc4yf0jbaV3ujuRfLloA5uhhCsB0RqyqaWS8"
    "AhPruIRsNIYC3Zk6nFxjyUReolgztnOe_iHmgeQQlZfbXCwWjtIAa8sTmjeQGa2BTv5K4KWEMdWP_KVqTRXpeIq_"
    "3X7FMHOyn3nfjb-wuhRUcCMLoHYMNVfJRrvzOVsWRdAZDr0zGwsb1dPeNAks0qDrEuvXWENzMqc9TK-ORcFq2niY"
    "NKdpx2sOjB0MRknteD6bUFCuRAkY4oPlr3AMS_rYaWCxf6fJYCzwFfK6LGrvhpFhu2f4d4ovxgb70Bp_A6J3J91g"
    "yOY2OfSeEv2swJEoyi7RJDy2Tbvug"
)
ES256 = (
    "eyJhbGciOiAiRVMyNTYifQ.eyJzdWIiOiJ4In0.6Rw7WoO1l1r1Dv1o7wdjJ_50IO8ZtmxyIeE44lS_a7pMUbDbL"
    "VKdso0hhF2N-NUkhjZj-p3hDBZ5PhxcFDE2nw"
)
ES384 = (
    "eyJhbGciOiAiRVMzODQifQ.eyJzdWIiOiJ4In0.X6DDEpw7_ayemTfaWya0aWdahZ2iY7LBWv-mw3HjSHNBduW9-"
    "b9y9ICIOknY1VPO2sJgqPUChvGj_1qHDA22LnBUbhQptGGZMdrJY2bf9dTbzaQcweAZCMKPT_Uq1edK"
)
ES512 = (
    "eyJhbGciOiAiRVM1MTIifQ.eyJzdWIiOiJ4In0.AZMcpHm5Y2DirijAZZYPxKUilAd427Gf_DmhS3H52vh1tac4B"
    "E3okpdvf2CGdGK-a8Odf5Lq1106VAwp4Hb-frGTAbT30HRrnxiAu9IuZVS8BEHPwiMDT0RQ-ZodZTwrx2_j3LwzP"
    "LCnysaSvichFtzMhMDdKzOp422iOHBMpTvE3hZX"
)

KEYS = {"RS256": RSA, "RS512": RSA, "ES256": EC256, "ES384": EC384, "ES512": EC512}
TOKENS = {"RS256": RS256, "RS512": RS512, "ES256": ES256, "ES384": ES384, "ES512": ES512}


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    return Evaluator()


def _changed(token: str) -> str:
    """The token with another payload."""
    header, payload, signature = token.split(".")
    return f"{header}.{payload[:-1]}A.{signature}"


@pytest.mark.parametrize("algorithm", KEYS)
def test_signatures(algorithm: str, evaluator: Evaluator, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(KEYS[algorithm])
    token = TOKENS[algorithm]
    assert evaluator.value(f"str({token}),jwt_verify({algorithm},{path})") == 1
    assert evaluator.value(f"str({_changed(token)}),jwt_verify({algorithm},{path})") == 0
    assert evaluator.value(f"str({token[:-8]}AAAAAAAA),jwt_verify({algorithm},{path})") == 0
    assert evaluator.value(f"str({token}!),jwt_verify({algorithm},{path})") == -3
    # another algorithm than the key's
    other = "ES256" if algorithm.startswith("RS") else "RS256"
    assert evaluator.value(f"str({token}),jwt_verify({other},{path})") == 0


def test_a_certificate_has_a_key_too(evaluator: Evaluator, tmp_path: Path) -> None:
    path = tmp_path / "certificate.pem"
    path.write_bytes(CERTIFICATE)
    assert evaluator.value(f"str({ES256}),jwt_verify(ES256,{path})") == 1


def test_a_file_without_a_key_is_an_error_where_it_must_be_one(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    path = tmp_path / "none.pem"
    path.write_text("nothing")
    with pytest.raises(ConfigError, match="no public key in it"):
        evaluator.value(f"str({ES256}),jwt_verify(ES256,{path})")
    with pytest.raises(ConfigError, match="No such file"):
        evaluator.value(f"str({ES256}),jwt_verify(ES256,{path}.more)")
    # the variable may choose an algorithm whose key this text is
    assert evaluator.value(f"str({ES256}),jwt_verify(txn.hs256,{path}.more)") == 0
    assert evaluator.value(f"str({ES256}),jwt_verify(ES256,txn.secret)") == -5


def test_without_a_path_the_whole_part_is_given(evaluator: Evaluator) -> None:
    assert evaluator.value(f"str({ES256}),jwt_payload_query") == b'{"sub":"x"}'
    assert evaluator.value(f"str({ES256}),jwt_header_query") == b'{"alg": "ES256"}'


@pytest.mark.parametrize(
    ("numbers", "der"),
    [
        ("00010002", "3006020101020102"),
        ("80007f00", "300902030080000202" + "7f00"),
        ("00000000", "3006020100020100"),
        ("", "3006020100020100"),
    ],
)
def test_the_two_numbers_of_ecdsa_in_der(numbers: str, der: str) -> None:
    result = libcrypto.ecdsa_der(bytes.fromhex(numbers))
    assert result is not None
    assert result.hex() == der


def test_an_odd_signature_is_none() -> None:
    assert libcrypto.ecdsa_der(b"abc") is None


# --- AES


@pytest.mark.parametrize("bits", [128, 192, 256])
@pytest.mark.parametrize("mode", ["gcm", "cbc"])
def test_aes_there_and_back(bits: int, mode: str, evaluator: Evaluator) -> None:
    key = "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="  # 32 bytes, of which so many count
    nonce = "MTIzNDU2Nzg5MDEyMzQ1Ng=="
    tag = ",txn.tag" if mode == "gcm" else ""
    there = f"aes_{mode}_enc({bits},{nonce},{key}{tag})"
    back = f"aes_{mode}_dec({bits},{nonce},{key}{tag})"
    for plain in ("", "hello", "x" * 16, "y" * 1000):
        assert evaluator.value(f"str({plain}),{there},{back}") == plain.encode()
        encrypted = evaluator.value(f"str({plain}),{there}")
        assert type(encrypted) is Binary
        assert encrypted != plain.encode() or (mode == "gcm" and not plain)


def test_aes_gcm_with_data_beside_it(evaluator: Evaluator) -> None:
    there = "aes_gcm_enc(128,txn.nonce,txn.aeskey,txn.tag,c2VjcmV0)"
    assert evaluator.value(f"str(x),{there}")
    for aad, plain in (("c2VjcmV0", b"x"), ("b3RoZXI=", None)):
        back = f"aes_gcm_dec(128,txn.nonce,txn.aeskey,txn.tag,{aad})"
        assert evaluator.value(f"str(x),{there},{back}") == plain
    missing = "aes_gcm_dec(128,txn.nonce,txn.aeskey,txn.tag,txn.nosuch)"
    assert evaluator.value(f"str(x),{there},{missing}") is None


def test_what_is_no_aes_gives_nothing(evaluator: Evaluator) -> None:
    nonce, key = "MTIzNDU2Nzg5MDEyMzQ1Ng==", "txn.aeskey"
    for text in (
        f"str(0123456789abcdef),aes_cbc_dec(128,{nonce},{key})",  # padding
        f"str(abc),aes_cbc_dec(128,{nonce},{key})",  # no whole block
        f"str(abc),aes_cbc_enc(128,txn.nonce,{key})",  # nonce of 12 bytes
        f"str(abc),aes_cbc_enc(256,{nonce},{key})",  # key too short
        f"str(abc),aes_gcm_enc(256,{nonce},{key},txn.tag)",
        f"str(abc),aes_gcm_enc(128,txn.nosuch,{key},txn.tag)",
    ):
        assert evaluator.value(text) is None

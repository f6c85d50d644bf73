"""Versions and features as conditions ask for them."""

from __future__ import annotations

import pytest

from mtproxy.base.features import FEATURES, HAPROXY_LEVEL, feature_list, parse_version


def test_versions_are_ordered_and_a_release_follows_its_development() -> None:
    texts = ["1.9", "2.4-dev19", "2.4", "2.4.1", "2.6.12-1+deb12u4", "2.6.13", "2.10", "v3.5-dev3"]
    versions = [parse_version(text) for text in texts]
    assert versions == sorted(versions)
    assert len(set(versions)) == len(texts)


def test_missing_parts_are_zero() -> None:
    assert parse_version("2") == parse_version("2.0.0")


@pytest.mark.parametrize("text", ["", "abc", "2.", ".1", "2.6.1.1"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a version"):
        parse_version(text)


def test_the_level_is_a_version_and_the_list_has_every_feature() -> None:
    assert parse_version(HAPROXY_LEVEL)[:2] == (2, 6)
    words = feature_list().split()
    assert "+THREAD" in words
    assert "-OPENSSL" in words
    assert len(words) == len(FEATURES)

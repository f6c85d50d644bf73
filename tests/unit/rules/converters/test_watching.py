"""rules.converters.watching: what `debug` writes, and what it says of backends and servers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.errors import ConfigError
from mtproxy.base.log_settings import RingSettings
from mtproxy.log.logger import ThreadLogs
from mtproxy.log.ring import BUF0, Ring
from mtproxy.testing.expressions import Evaluator


def _backend(active: int = 0, backup: int = 0, *options: str, queued: int = 0) -> Any:
    server = SimpleNamespace(
        settings=SimpleNamespace(name="s1"),
        side_counters=[SimpleNamespace(queue_cur=queued), SimpleNamespace(queue_cur=1)],
    )
    settings = SimpleNamespace(options=frozenset(options))
    shared = SimpleNamespace(active=active, backup=backup, settings=settings, servers=[server])
    return SimpleNamespace(shared=shared)


@pytest.fixture
def rings() -> dict[str, Ring]:
    raw = Ring(RingSettings("raw", "", format="raw", maxlen=30, size=1000))
    return {"buf0": Ring(BUF0), "raw": raw}


@pytest.fixture
def evaluator(rings: dict[str, Ring]) -> Evaluator:
    found = Evaluator()
    found.build.room = SimpleNamespace(
        thread_logs=ThreadLogs(SimpleNamespace(tid=1), rings=rings),
        backends={
            "up": _backend(2, 1, queued=4),
            "backup": _backend(0, 2),
            "all": _backend(0, 2, "allbackups"),
            "down": _backend(),
            "f": _backend(queued=2),
        },
    )
    return found


def _text(ring: Ring) -> list[bytes]:
    return list(ring.read(ring.first, 10_000, ring.end)[0])


def test_debug_writes_type_and_text_and_passes_the_value_on(
    evaluator: Evaluator, rings: dict[str, Ring]
) -> None:
    assert evaluator.value("str(a b),debug(x,raw),upper") == b"A B"
    assert evaluator.value("int(5),debug(,raw),add(1)") == 6
    assert evaluator.value("ipv6(::1),debug(,raw)") == 1
    assert evaluator.value("bin(610aff0062),debug(y,raw),length") == 3
    assert _text(rings["raw"]) == [
        b"[debug] x: type=str <a b>",
        b"[debug] : type=sint <5>",
        b"[debug] : type=ipv6 <::1>",
        b"[debug] y: type=bin <a..>",
    ]


def test_debug_writes_to_buf0_with_its_head(evaluator: Evaluator, rings: dict[str, Ring]) -> None:
    assert evaluator.value("str(x),debug") == b"x"
    (line,) = _text(rings["buf0"])
    assert line.startswith(b"<0>20")
    assert line.endswith(b" [debug] : type=str <x>")


def test_long_texts_are_cut_to_what_a_ring_takes(
    evaluator: Evaluator, rings: dict[str, Ring]
) -> None:
    evaluator.value(f"str({'x' * 100}),debug(,raw)")
    assert _text(rings["raw"]) == [b"[debug] : type=str <" + b"x" * 10]


@pytest.mark.parametrize(
    ("name", "servers"),
    [("up", 2), ("backup", 1), ("all", 2), ("down", 0), ("nosuch", None), ("", None)],
)
def test_nbsrv(name: str, servers: int | None, evaluator: Evaluator) -> None:
    assert evaluator.value(f"str({name}),nbsrv") == servers


@pytest.mark.parametrize(
    ("name", "queued"),
    [("up/s1", 5), ("s1", 3), ("up/s2", None), ("s2", None), ("nosuch/s1", None), ("", None)],
)
def test_srv_queue(name: str, queued: int | None, evaluator: Evaluator) -> None:
    assert evaluator.value(f"str({name}),srv_queue") == queued


def test_what_is_missing_says_so(evaluator: Evaluator) -> None:
    for name, what in (("da-csv-conv", "device detection"), ("x509_v_err_str", "TLS")):
        with pytest.raises(ConfigError, match=f"not supported by mtproxy yet .{what}."):
            evaluator.value(f"str(x),{name}")

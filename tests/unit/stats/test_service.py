"""The statistics page as a service: what is asked for, forms, the page's texts, its schema."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest

from mtproxy.base.ruleset import StatsPage
from mtproxy.proxy.states import FDRAIN, FMAINT, RUNNING, STOPPED, STOPPING
from mtproxy.rules.verdict import Answer
from mtproxy.stats import admin, schema
from mtproxy.stats.page import columns
from mtproxy.stats.pieces import in_pieces
from mtproxy.stats.runtime import Runtime
from mtproxy.stats.service import StatsService, parse
from mtproxy.testing.runtime import make_runtime


@pytest.fixture
def runtime() -> Runtime:
    return make_runtime()


def service(runtime: Runtime, **changes: Any) -> StatsService:
    build = SimpleNamespace(proxy=runtime.proxies[0].settings)
    return StatsService(StatsPage(**changes), runtime, build)  # type: ignore[arg-type]


def view(target: bytes, method: bytes = b"GET") -> Any:
    request = SimpleNamespace(target=target, method=method)
    return SimpleNamespace(request=request)


def text_of(made: StatsService, target: bytes) -> str:
    verdict = made.answer(view(target))
    assert isinstance(verdict, Answer)
    message = verdict.reply.message(view(target))
    assert message is not None
    assert message.pieces is not None
    return b"".join(message.pieces).decode()


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (b"", {}),
        (b";csv", {"form": "csv"}),
        (b";csv;norefresh", {"form": "csv", "no_refresh": True}),
        (b";json", {"form": "json"}),
        (b";json-schema", {"form": "json-schema"}),
        (b";typed;up", {"form": "typed", "up": True}),
        (b";no-maint", {"no_maint": True}),
        (b";st=DONE", {"state": "DONE"}),
        (b";st=DO", {}),
        (b"?scope=ab", {"scope": "ab"}),
        (b";up?scope=ab;csv", {"scope": "ab", "up": True, "form": "csv"}),
        (b"?scope=a%22", {}),
        (b"?scope=" + b"x" * 30, {"scope": "x" * 20}),
        (b"?scope=", {}),
    ],
)
def test_what_stands_behind_the_prefix(rest: bytes, expected: dict[str, Any]) -> None:
    found = parse(rest)
    for name in ("form", "up", "no_maint", "no_refresh", "state", "scope"):
        default = "html" if name == "form" else getattr(parse(b""), name)
        assert getattr(found, name) == expected.get(name, default), name


@pytest.mark.parametrize(
    ("uri", "target", "method", "wanted"),
    [
        (b"/stats", b"/stats", b"GET", True),
        (b"/stats", b"/stats;csv", b"HEAD", True),
        (b"/stats", b"/statsanything", b"POST", True),
        (b"/stats", b"/stat", b"GET", False),
        (b"/stats", b"/x/stats", b"GET", False),
        (b"/stats", b"/stats", b"PUT", False),
        (b"/stats", b"/stats", b"OPTIONS", False),
        (b"/stats", b"http://host/stats;csv", b"GET", True),
        (b"/haproxy?stats", b"/haproxy", b"GET", False),
        (b"/haproxy?stats", b"/haproxy?stats;csv", b"GET", True),
        (b"http://host/", b"http://host/", b"GET", True),
        (b"http://host/", b"/", b"GET", False),
    ],
)
def test_who_is_answered(
    runtime: Runtime, uri: bytes, target: bytes, method: bytes, wanted: bool
) -> None:
    assert service(runtime, uri=uri).wants(view(target, method)) is wanted


@pytest.mark.parametrize(
    ("scope", "asked", "names"),
    [
        ((), b"", ["web", "app", "raw", "empty"]),
        (("app",), b"", ["app"]),
        ((".", "raw"), b"", ["web", "raw"]),
        ((), b"?scope=A", ["app", "raw"]),
        (("web",), b"?scope=app", []),
    ],
)
def test_scopes(runtime: Runtime, scope: tuple[str, ...], asked: bytes, names: list[str]) -> None:
    text = text_of(service(runtime, uri=b"/s", scope=scope), b"/s;csv" + asked)
    assert list(dict.fromkeys(row.split(",")[0] for row in text.splitlines()[1:])) == names


def test_legends_are_for_pages_that_show_them(runtime: Runtime) -> None:
    plain = text_of(service(runtime, uri=b"/s"), b"/s;csv")
    assert "127.0.0.1:8001" not in plain
    told = text_of(service(runtime, uri=b"/s", legends=True), b"/s;csv")
    assert "127.0.0.1:8001" in told
    assert "127.0.0.1:8001" in text_of(service(runtime, uri=b"/s", legends=True), b"/s")
    assert json.loads(text_of(service(runtime, uri=b"/s"), b"/s;json"))
    assert text_of(service(runtime, uri=b"/s"), b"/s;typed").startswith("F.2.0.0.pxname.1:KNS:")


def test_the_schema_describes_what_is_printed(runtime: Runtime) -> None:
    found = json.loads(schema.text())
    assert found["$schema"].endswith("draft-04/schema#")
    rows = json.loads(text_of(service(runtime, uri=b"/s"), b"/s;json"))
    item = found["oneOf"][1]["items"]["items"]
    types = {one["title"] for one in found["definitions"]["typedValue"]["oneOf"]}
    tags = found["definitions"]["tags"]["properties"]
    for field in rows[0]:
        assert set(field) == set(item["required"])
        assert field["objType"] in item["properties"]["objType"]["enum"]
        assert field["value"]["type"] in types
        for name, value in field["tags"].items():
            assert value in tags[name]["enum"]


# --- the page


class Tags(HTMLParser):
    """Reads a page; every element must be closed in order."""

    VOID = frozenset({"meta", "link", "input", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[str] = []
        self.inputs: list[dict[str, str | None]] = []
        self.ids: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "tr" and "class" in found:
            self.rows.append(str(found["class"]))
        if tag == "input":
            self.inputs.append(found)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


def test_the_page_is_well_formed(runtime: Runtime) -> None:
    for _ in range(3):
        runtime.history.sample()
    runtime.history._check()
    page = text_of(service(runtime, uri=b"/s", legends=True, modules=True, node=""), b"/s;st=PART")
    tags = Tags()
    tags.feed(page)
    tags.close()
    assert not tags.open
    for kind in ("frontend", "backend", "maint", "unchecked"):
        assert kind in tags.rows
    assert {"threads", "locks", "app", "web"} <= set(tags.ids)
    assert "partially" in page
    assert " on box" in page
    assert not any(one.get("name") == "s" for one in tags.inputs)


def test_texts_are_escaped(runtime: Runtime) -> None:
    evil = "<script>alert('x')</script>\"&"
    shared = runtime.proxies[1].shared
    assert shared is not None
    shared.servers[0].check.info = evil
    made = service(runtime, uri=b'/s"<x>', description=evil, node=evil, refresh=5)
    page = text_of(made, b'/s"<x>')
    assert evil not in page
    assert "alert(" in page
    assert page.count("<script>") == 1
    assert '/s"<x>' not in page


def test_a_version_may_be_hidden(runtime: Runtime) -> None:
    assert runtime.version in text_of(service(runtime, uri=b"/s"), b"/s")
    assert runtime.version not in text_of(service(runtime, uri=b"/s", hide_version=True), b"/s")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (61, "1m1s"), (3600, "1h0m"), (90061, "1d1h"), (864000, "10d0h")],
)
def test_time_spans(seconds: int, text: str) -> None:
    assert columns.time_text(seconds) == text


# --- forms


def act(runtime: Runtime, form: bytes) -> str:
    return admin.act(runtime, runtime.pool.contexts[0], form)


@pytest.mark.parametrize(
    ("form", "state"),
    [
        (b"", "NONE"),
        (b"s=s1&action=ready", "NONE"),
        (b"b=app&action=ready", "NONE"),
        (b"s=s1&b=app", "NONE"),
        (b"s=s1&action=maint&b=app", "DONE"),
        (b"s=s1&action=maint&b=%233", "DONE"),
        (b"s=%73%31&action=maint&b=app", "DONE"),
        (b"b=app&action=maint&s=s1", "DONE"),
        (b"s=s1&s=s9&action=maint&b=app", "PART"),
        (b"s=s9&action=maint&b=app", "ERRP"),
        (b"s=s1&action=explode&b=app", "ERRP"),
        (b"s=s1&action=maint&b=nothing", "ERRP"),
        (b"s=s1&action=maint&b=web", "ERRP"),
        (b"s=s1&action=explode&action=maint&b=app", "DONE"),
        (b"s=s1&action=maint&b=nothing&b=app", "DONE"),
        (b"x=" + b"y" * 3000, "ERRP"),
        (b"s=s1&action=dagent&b=app", "NONE"),
        (b"s=s3&action=disable&b=app", "NONE"),
        (b"s=s3&action=enable&b=app", "DONE"),
    ],
)
def test_forms(runtime: Runtime, form: bytes, state: str) -> None:
    found = act(runtime, form)
    # nothing to do for a known server counts neither as done nor as asked for
    assert found == state


def test_what_forms_do(runtime: Runtime) -> None:
    shared = runtime.proxies[1].shared
    assert shared is not None
    server = shared.servers[0]
    for action, state, flags in (
        ("maint", STOPPED, FMAINT),
        ("ready", RUNNING, 0),
        ("drain", RUNNING, FDRAIN),
        ("ready", RUNNING, 0),
        ("stop", RUNNING, FDRAIN),
        ("start", RUNNING, 0),
        ("disable", STOPPED, FMAINT),
        ("enable", RUNNING, 0),
        ("hdown", STOPPED, 0),
        ("hnolb", STOPPING, 0),
        ("hrunn", RUNNING, 0),
    ):
        assert act(runtime, f"s=s1&action={action}&b=app".encode()) == "DONE", action
        assert (server.state, server.admin) == (state, flags), action
        server._check()
        shared._check()
    assert server.check.enabled
    assert act(runtime, b"s=s1&action=dhlth&b=app") == "DONE"
    assert not server.check.enabled
    assert act(runtime, b"s=s1&action=ehlth&b=app") == "DONE"
    assert server.check.enabled


def test_every_action_of_the_menu_is_known() -> None:
    from mtproxy.stats.page.report import ACTIONS

    assert {value for value, _ in ACTIONS} <= set(admin.ACTIONS)


# --- pieces


def test_pieces_hold_everything_in_order() -> None:
    texts = [f"{number}é," for number in range(60_000)]
    pieces = list(in_pieces(iter(texts)))
    assert b"".join(pieces).decode() == "".join(texts)
    assert max(len(piece) for piece in pieces) < 300_000
    assert list(in_pieces(iter([]))) == []

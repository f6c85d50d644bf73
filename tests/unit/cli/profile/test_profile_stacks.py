"""What the client makes of stacks: reading dumps, idle threads, names, and the forms of output."""

from __future__ import annotations

import faulthandler
import html.parser
import json
import os
import re
import threading
from pathlib import Path

import pytest

from mtproxy.cli.client import ClientError
from mtproxy.cli.profile import pyspy, render
from mtproxy.cli.profile.builtin import Reader
from mtproxy.cli.profile.flamegraph import flamegraph
from mtproxy.cli.profile.idle import IdleRule
from mtproxy.cli.profile.sources import Sources
from mtproxy.cli.profile.stacks import Frame, Profile, Sample, thread_order

HEADER = {
    "format": 1,
    "pid": 42,
    "python": "3.13.15",
    "rate": 100,
    "root": "/srv",
    "idle": [["/srv/loop.py", 67]],
    "pollers": ["/srv/fallback.py"],
}
THREADS = {"16": "mtproxy/2", "17": "mtproxy/1"}


def read(*lines: str, sources: Sources | None = None) -> Profile:
    reader = Reader(lambda root: sources or Sources(root))
    for line in [f"@profile {json.dumps(HEADER)}", f"@threads {json.dumps(THREADS)}", *lines]:
        reader.line(line)
    return reader.result(1.0)


END = '@end {"seconds": 2.0, "samples": 2, "dumps": 2, "dropped": 0, "cpu_us": 300}'
DUMP = (
    "Current thread 0x00000000000000ff (most recent call first):",
    '  File "/srv/sampler.py", line 1 in _run',
    "Thread 0x0000000000000010 (most recent call first):",
    '  File "/srv/a.py", line 5 in inner',
    '  File "/srv/a.py", line 9 in outer',
    "Thread 0x0000000000000011 (most recent call first):",
    '  File "/srv/loop.py", line 67 in run_loop',
)


def test_dumps_are_taken_apart() -> None:
    profile = read("@sample 10000", *DUMP, "@sample 20000", *DUMP, END)
    assert [thread.name for thread in profile.threads] == ["mtproxy/1", "mtproxy/2"]
    busy = profile.threads[1]
    assert [sample.at for sample in busy.samples] == [0.01, 0.02]
    assert busy.samples[0].stack == (Frame("outer", "a.py", 0), Frame("inner", "a.py", 0))
    assert not busy.samples[0].idle
    assert all(sample.idle for sample in profile.threads[0].samples)
    assert (profile.pid, profile.rounds, profile.seconds) == (42, 2, 2.0)
    assert profile.interval == 1.0
    shown = profile.without_idle()
    assert [thread.name for thread in shown.threads] == ["mtproxy/2"]


def test_odd_dumps() -> None:
    profile = read(
        "@sample 1",
        "Thread 0x0000000000000010 (most recent call first):",
        "  <no Python frame>",
        "Thread 0x0000000000000099 (most recent call first):",
        "  Garbage-collecting",
        '  File "/srv/a "b".py", line ??? in f',
        "  File ???, line 3 in g",
        "  ...",
        "...",
    )
    (thread,) = profile.threads
    assert thread.name == "thread 0x99"
    assert [frame.name for frame in thread.samples[0].stack] == ["(deeper)", "g", "f"]
    assert thread.samples[0].stack[2] == Frame("f", 'a "b".py', 0)
    assert profile.notes == ["the session was cut short"]


def test_rounds_without_a_dump_count() -> None:
    profile = read("@sample 1", "@sample 2", *DUMP, END)
    assert profile.rounds == 2
    assert len(profile.threads[1].samples) == 1


def test_remarks() -> None:
    few = '@end {"seconds": 2.0, "samples": 20, "dumps": 10, "dropped": 3, "cpu_us": 1000}'
    notes = read("@sample 1", *DUMP, few).notes
    assert notes[0].startswith("3 samples were lost")
    assert notes[1] == "each dump cost the proxy 100 us of CPU, 0.1 % of a CPU in all"
    assert notes[2].startswith("10 samples/s instead of 100")


def test_what_the_proxy_cannot_do() -> None:
    with pytest.raises(ClientError, match="format 2"):
        Reader(Sources).line("@profile " + json.dumps(HEADER | {"format": 2}))
    with pytest.raises(ClientError, match="OSError: no dump"):
        read('@end {"error": "OSError: no dump"}')
    reader = Reader(Sources)
    reader.line("Permission denied")
    assert reader.refusal == "Permission denied"
    assert not reader.header


def test_a_real_dump() -> None:
    """The form of faulthandler's text is not promised: this Python's is understood."""
    go, ready = threading.Event(), threading.Event()

    def waits_here() -> None:
        ready.set()
        go.wait()

    thread = threading.Thread(target=waits_here)
    thread.start()
    assert ready.wait(20)
    with open(os.memfd_create("dump"), "w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        text = file.read()
    go.set()
    thread.join()
    reader = Reader(Sources)
    reader.line("@profile " + json.dumps(HEADER))
    reader.line("@threads " + json.dumps({str(thread.ident): "it"}))
    reader.line("@sample 1")
    for line in text.splitlines():
        if line:
            reader.line(line)
    found = reader.result(1.0).thread("it").samples
    assert len(found) == 1
    names = [frame.name for frame in found[0].stack]
    assert any(name.endswith("test_a_real_dump.<locals>.waits_here") for name in names)
    assert found[0].idle  # in threading's wait


# --- idle


@pytest.mark.parametrize(
    ("frames", "idle"),
    [
        ([("/p/loop.py", 67, "run_loop")], True),
        ([("/p/loop.py", 52, "run_loop")], False),
        ([("/p/fallback.py", 60, "poll"), ("/p/loop.py", 67, "run_loop")], True),
        ([("/p/fallback.py", 60, "poll"), ("/p/loop.py", 52, "run_loop")], False),
        ([("/p/other.py", 60, "poll"), ("/p/loop.py", 67, "run_loop")], False),
        ([("/lib/threading.py", 363, "wait")], True),
        ([("/lib/threading.py", 363, "Condition.wait")], True),
        ([("/lib/threading.py", 99, "notify")], False),
        ([("/p/fallback.py", 60, "poll")], False),
        ([], True),
    ],
)
def test_idle(frames: list[tuple[str, int, str]], idle: bool) -> None:
    assert IdleRule([("/p/loop.py", 67)], ["/p/fallback.py"])(frames) is idle


# --- names

SOURCE = """\
class Outer:
    @property
    def value(self):
        return 1

    def method(self):
        def inner():
            return 2
        return inner
f = lambda: (
    3)
"""


def test_names_come_from_the_source(tmp_path: Path) -> None:
    file = tmp_path / "mtproxy" / "x.py"
    file.parent.mkdir()
    file.write_text(SOURCE)
    sources = Sources(str(tmp_path))
    assert sources.frame(str(file), 4, "value") == Frame("Outer.value", "mtproxy/x.py", 2)
    inner = Frame("Outer.method.<locals>.inner", "mtproxy/x.py", 7)
    assert sources.frame(str(file), 8, "inner") == inner
    # one function is one frame, whatever the line; a name may be qualified already
    assert sources.frame(str(file), 7, "Outer.method.<locals>.inner") == inner
    assert sources.frame(str(file), 11, "<lambda>").line == 10
    assert sources.frame(str(file), 4, "other") == Frame("other", "mtproxy/x.py", 0)
    lines = Sources(str(tmp_path), by_line=True)
    assert lines.frame(str(file), 8, "inner").line == 8
    assert lines.frame(str(file), 7, "inner").line == 7


@pytest.mark.parametrize("content", [None, b"def (", b"\xff\xfe", b"x = '\0'"])
def test_without_a_readable_source_the_stack_s_words_do(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "x.py"
    if content is not None:
        file.write_bytes(content)
    assert Sources().frame(str(file), 4, "f") == Frame("f", str(file), 0)


def test_short_paths() -> None:
    sources = Sources("/srv/app")
    assert sources.short("/srv/app/mtproxy/a.py") == "mtproxy/a.py"
    assert sources.short("/usr/lib/python3.13t/threading.py") == "threading.py"
    assert sources.short("/v/lib/python3.13/site-packages/h11/_x.py") == "h11/_x.py"
    assert sources.short("<frozen os>") == "<frozen os>"


# --- output


def example() -> Profile:
    """Two threads: hot 3 of 4, once below itself."""
    main, hot = Frame("main", "m.py", 1), Frame("hot", "m.py", 9)
    warm = Frame("warm;</script>", "", 0)
    profile = Profile("test sampler", 7, "3.13", seconds=4.0, rounds=4)
    one = profile.thread("mtproxy/2")
    for at, stack in enumerate([(main, hot), (main, hot, hot), (main, warm)]):
        one.samples.append(Sample(at, stack))
    profile.thread("mtproxy/10").samples.append(Sample(0.0, (hot,)))
    profile.notes.append("a <remark>")
    return profile


def test_raw() -> None:
    assert render.raw(example()) == (
        "mtproxy/10;hot (m.py:9) 1\n"
        "mtproxy/2;main (m.py:1);hot (m.py:9) 1\n"
        "mtproxy/2;main (m.py:1);hot (m.py:9);hot (m.py:9) 1\n"
        "mtproxy/2;main (m.py:1);warm:</script> 1\n"
    )


def test_top() -> None:
    lines = render.top(example()).splitlines()
    assert lines[0] == "# test sampler, pid 7, Python 3.13: 4 rounds in 4.0 s, 4 samples"
    assert lines[1] == "# mtproxy/2: busy in 3 samples, 75 % of the time"
    assert "# a <remark>" in lines
    at = next(i for i, line in enumerate(lines) if "FUNCTION" in line)
    assert [line.split(maxsplit=4) for line in lines[at + 1 :]] == [
        ["75.00", "75.00", "3", "3", "hot (m.py:9)"],
        ["25.00", "25.00", "1", "1", "warm;</script>"],
        ["0.00", "75.00", "0", "3", "main (m.py:1)"],
    ]
    assert len(render.top(example(), lines=1).splitlines()) == at + 2


def test_top_counts_threads_that_rest() -> None:
    profile = example()
    for number in (3, 4):
        profile.thread(f"mtproxy/{number}").samples.append(Sample(0, (), idle=True))
    assert "# idle all the time: 2 threads\n" in render.top(example(), profile)


def test_speedscope_is_valid() -> None:
    content = json.loads(render.speedscope(example(), "a name"))
    assert content["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert content["name"] == "a name"
    frames = content["shared"]["frames"]
    for frame in frames:
        assert set(frame) <= {"name", "file", "line", "col"}
        assert isinstance(frame["name"], str)
    assert [profile["name"] for profile in content["profiles"]] == ["mtproxy/2", "mtproxy/10"]
    for profile in content["profiles"]:
        assert set(profile) == {
            "type", "name", "unit", "startValue", "endValue", "samples", "weights"
        }  # fmt: skip
        assert profile["type"] == "sampled"
        assert profile["unit"] == "seconds"
        assert len(profile["samples"]) == len(profile["weights"])
        assert sum(profile["weights"]) == profile["endValue"]
        assert all(0 <= i < len(frames) for stack in profile["samples"] for i in stack)
    names = [frames[i]["name"] for i in content["profiles"][0]["samples"][1]]
    assert names == ["main", "hot", "hot"]


class Page(html.parser.HTMLParser):
    """Collects what a page refers to, and its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.data = ""
        self._in_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.references += [v for k, v in attrs if k in ("src", "href") and v]
        self._in_data = tag == "script" and found.get("id") == "data"

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data += data


def test_flamegraph_is_one_file_with_the_whole_tree() -> None:
    text = flamegraph(example(), "a <name>")
    assert "@" not in re.sub(r"@media", "", text)  # every placeholder is filled in
    page = Page(text)
    assert page.references == []
    assert "http" not in re.sub(r"<script id=.*?</script>", "", text, flags=re.DOTALL)
    assert "a &lt;name&gt;" in text
    assert "a &lt;remark&gt;" in text
    data = json.loads(page.data)
    rows = [(depth, data["labels"][label], total, own) for depth, label, total, own in data["rows"]]
    assert rows == [
        (0, "all", 4, 0),
        (1, "mtproxy/10", 1, 0),
        (2, "hot (m.py:9)", 1, 1),
        (1, "mtproxy/2", 3, 0),
        (2, "main (m.py:1)", 3, 0),
        (3, "hot (m.py:9)", 2, 1),
        (4, "hot (m.py:9)", 1, 1),
        (3, "warm;</script>", 1, 1),
    ]


def test_deep_stacks_and_nothing_at_all() -> None:
    deep = Profile("x", 1, "3", 1.0, 1)
    stack = tuple(Frame(f"f{i}", "", 0) for i in range(5000))
    deep.thread("t").samples.append(Sample(0, stack))
    assert len(json.loads(Page(flamegraph(deep, "x")).data)["rows"]) == 5002
    nothing = Profile("x", 1, "3")
    assert render.raw(nothing) == ""
    assert json.loads(render.speedscope(nothing, "x"))["profiles"] == []
    assert json.loads(Page(flamegraph(nothing, "x")).data)["rows"] == [[0, 0, 0, 0]]
    assert "0 samples" in render.top(nothing)


def test_order_of_threads() -> None:
    names = ["mtproxy/10", "x", "mtproxy/watchdog", "mtproxy/2"]
    assert sorted(names, key=thread_order) == ["mtproxy/2", "mtproxy/10", "mtproxy/watchdog", "x"]


# --- py-spy's own form


def test_py_spy_is_read() -> None:
    content = {
        "shared": {
            "frames": [
                {"name": "Pool.run", "file": "/srv/pool.py", "line": 3, "col": None},
                {"name": "hot", "file": "/srv/a.py", "line": 7, "col": None},
                {"name": "run_loop", "file": "/srv/loop.py", "line": 67, "col": None},
            ]
        },
        "profiles": [
            {"name": 'Thread 12 "mtproxy/2"', "samples": [[0, 1], [0, 2]], "weights": [0.1, 0.1]},
            {"name": 'Thread 10 "MainThread"', "samples": [[0, 1]], "weights": [0.1]},
        ],
    }
    rule = IdleRule([("/srv/loop.py", 67)])
    profile = pyspy.read(json.dumps(content), Sources("/srv"), rule, 9, "3.13.0")
    assert [thread.name for thread in profile.threads] == ["mtproxy/1", "mtproxy/2"]
    samples = profile.threads[1].samples
    assert samples[0].stack == (Frame("Pool.run", "pool.py", 0), Frame("hot", "a.py", 0))
    assert [sample.idle for sample in samples] == [False, True]
    with pytest.raises(ClientError, match="unexpected"):
        pyspy.read("{}", Sources(), rule, 9, "3.13.0")

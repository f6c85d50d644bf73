"""The lexer and the whole reader on arbitrary input: no traceback, and quoting round trips."""

from __future__ import annotations

from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mtproxy.base.commandline import CommandLine
from mtproxy.base.errors import ConfigError
from mtproxy.config.context import Context
from mtproxy.config.lexer import Word, from_text, to_text, tokenize
from mtproxy.config.load import finish
from mtproxy.config.sections import Reader

BYTE_TEXT = st.binary(max_size=200).map(lambda data: data.decode("latin-1"))
#: what words can be made of when nothing but quoting protects them
WORD = st.text(
    st.characters(min_codepoint=1, max_codepoint=255, exclude_characters="\n\r"), min_size=0
)


def nothing(name: str) -> str | None:
    return None


def weak(word: str) -> str:
    for char in '\\"$':
        word = word.replace(char, "\\" + char)
    return f'"{word}"'


def strong(word: str) -> str:
    """A single quote cannot stand inside strong quotes: it leaves them for a moment."""
    return "'" + word.replace("'", "'\\''") + "'"


def bare(word: str) -> str:
    if not word:
        return '""'
    special = set(" \t\v\f\\\"'#")
    return "".join(f"\\x{ord(c):02x}" if c in special else c for c in word)


@given(BYTE_TEXT)
def test_any_line_gives_words_or_a_fault_with_a_column(line: str) -> None:
    words: list[Word] = []
    fault: ConfigError | None = None
    try:
        words = tokenize(line, nothing)
    except ConfigError as error:
        fault = error
    assert fault is None or 1 <= (fault.column or 0) <= len(line)
    columns = [word.column for word in words]
    assert columns == sorted(columns)
    assert all(1 <= column <= len(line) for column in columns)


@given(st.lists(st.tuples(WORD, st.sampled_from([weak, strong, bare])), max_size=8))
def test_quoted_words_come_back(pieces: list[tuple[str, object]]) -> None:
    line = " ".join(quote(word) for word, quote in pieces)  # type: ignore[operator]
    assert [word.text for word in tokenize(line, nothing)] == [word for word, _ in pieces]


@given(WORD, st.text(st.characters(min_codepoint=1, max_codepoint=255)))
def test_a_variables_value_is_never_interpreted(name_tail: str, value: str) -> None:
    (word,) = tokenize('"<$V>"', {"V": value}.get)
    assert word.text == f"<{value}>"


@given(st.binary(max_size=100))
def test_byte_text_round_trips(data: bytes) -> None:
    text = data.decode("latin-1")
    assert from_text(to_text(text)) == text


#: fragments that reach deep into the keyword parsers
FRAGMENTS = st.sampled_from(
    [
        b"global\n",
        b"defaults\n",
        b"defaults d\n",
        b"frontend f from d\n",
        b"listen l\n",
        b"backend b\n",
        b"peers p\n",
        b".if 1\n",
        b".else\n",
        b".endif\n",
        b' .if "${X}" && streq(a,b)\n',
        b" bind :80-82,unix@/x name n ssl crt x\n",
        b" server s 192.0.2.1:+1 check inter 1s weight 300\n",
        b" default-server check fall 2 foo\n",
        b" timeout client 1s\n",
        b" option httplog clf\n",
        b" no option forwardfor\n",
        b" log 192.0.2.1 len 80 local0 info\n",
        b" cpu-map auto:1/1-2 0-1\n",
        b" stats socket /x mode 600 level admin\n",
        b" balance roundrobin\n",
        b" default_backend b\n",
        b" mode http\n",
        b" setenv X 1\n",
        b" tune.bufsize 16k\n",
        b" id 3\n",
        b" description ",
        b"\0",
        b'"',
        b"\\",
        b"$",
        b"${",
        b"\r",
        b"\xff",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAGMENTS | st.binary(max_size=12), max_size=25).map(b"".join))
@example(b"no\n")
@example(b'frontend ""\n bind :80\n')
@example(b"listen x\n server\n default\n no option\n")
def test_any_file_is_read_without_a_traceback(data: bytes) -> None:
    ctx = Context(CommandLine(local_peer="p"), {}, given_resolver=lambda name, family: [])
    Reader(ctx).feed("x.cfg", data)
    settings_, diagnostics = finish(ctx, ("x.cfg",))
    assert (settings_ is None) == (diagnostics.errors > 0)
    lines = data.count(b"\n") + 1
    for item in diagnostics:
        assert item.text()
        assert item.location is None or 1 <= item.location.line <= lines


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    from mtproxy.config import load

    (tmp_path / "a.cfg").mkdir()
    settings_, diagnostics = load([str(tmp_path)], CommandLine())
    assert settings_ is None
    assert "cannot open configuration file" in next(iter(diagnostics)).message

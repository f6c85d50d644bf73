"""Words that a configuration holds come back from what `-dC` prints, whatever they are made of."""

from __future__ import annotations

import os
import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from mtproxy.base.ruleset import AclLine
from mtproxy.base.settings import Settings
from mtproxy.config import load
from mtproxy.config.explain import explain
from mtproxy.config.lexer import from_text, to_text, tokenize
from mtproxy.config.quoting import quote

#: what the lexer has to be told about, often
SPECIAL = "\"'\\#$ \t\n\r\x01\x7f{}()[]%!,;|&-x1né"
#: every text that a word can be: bytes without NUL
WORDS = st.one_of(
    st.text(st.sampled_from(SPECIAL), min_size=1, max_size=12),
    st.binary(min_size=1, max_size=12).map(
        lambda data: data.replace(b"\0", b"0").decode("utf-8", "surrogateescape")
    ),
)


@given(st.lists(WORDS, max_size=5))
def test_quoted_words_are_the_same_words(words: list[str]) -> None:
    line = " ".join(quote(word) for word in words)
    assert "\n" not in line
    assert "\r" not in line
    found = tokenize(from_text(line), lambda name: f"<{name}>")
    assert [to_text(word.text) for word in found] == words


CONFIG = """
userlist people
    user ann insecure-password {value}
backend b
    mode http
    description {value}
    acl named path -- {patterns}
    dynamic-cookie-key {value}
    http-request deny if named !{{ path_sub -- {inner} }} or {{ path -m sub -- {inner} }}
    http-request set-var-fmt(txn.a) {fmt} unless named
    use-server a if {{ path -- {inner} }}
    server a 127.0.0.1:1 cookie {value}
"""


def understood(text: str) -> Settings:
    with tempfile.NamedTemporaryFile("wb", suffix=".cfg") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
        file.flush()
        result, diagnostics = load([file.name], environ={"x": "variable"})
    assert result is not None, "\n".join([text, *(item.text() for item in diagnostics)])
    return result


@settings(max_examples=60)
@given(st.lists(WORDS, min_size=1, max_size=4), WORDS)
def test_every_word_survives(patterns: list[str], value: str) -> None:
    inner = [word for word in patterns if word != "}"] or ["x"]
    fmt = "a" + value.replace("%", "%%")
    text = CONFIG.format(
        value=quote(value),
        fmt=quote(fmt),
        patterns=" ".join(map(quote, patterns)),
        inner=" ".join(map(quote, inner)),
    )
    first = understood(text)
    again = understood(explain(first, {"x": "variable"}))
    for one in (first, again):
        proxy = one.proxies[0]
        rules = proxy.rules
        (named,) = rules.acls["named"]
        assert named.patterns.patterns == tuple(patterns)
        assert one.userlists["people"]["ann"].password == os.fsencode(value)
        assert (proxy.description, proxy.dynamic_cookie_key) == (value, value)
        assert proxy.servers[0].cookie == os.fsencode(value)
        deny, set_var = rules.sets["http-request"]
        assert set_var.words == ("set-var-fmt(txn.a)", fmt)
        for condition in (deny.condition, rules.use_server[0].condition):
            assert condition is not None
            lines = [term.acl for suite in condition.suites for term in suite]
            assert lines[-1] != "named"
            for line in lines:
                if isinstance(line, AclLine):
                    assert line.patterns.patterns == tuple(inner)
    assert explain(again, {"x": "variable"}) == explain(first, {"x": "variable"})

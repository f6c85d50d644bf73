"""ACLs and conditions as they are read: what is taken, what is refused and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtproxy.base.errors import Diagnostics, Severity
from mtproxy.base.ruleset import Condition, ProxyRules
from mtproxy.base.settings import Settings
from mtproxy.config.load import load

HEAD = """defaults
  mode http
  timeout client 5s
"""


def _load(tmp_path: Path, text: str) -> tuple[Settings | None, Diagnostics]:
    file = tmp_path / "t.cfg"
    file.write_text(HEAD + text)
    return load([str(file)])


def _rules(tmp_path: Path, lines: str) -> tuple[ProxyRules, list[str]]:
    """The rules of a frontend, and the warnings."""
    settings, found = _load(tmp_path, f"frontend f\n  bind 127.0.0.1:18931\n{lines}\n")
    assert settings is not None, [one.message for one in found]
    return settings.proxies[0].rules, [
        one.message for one in found if one.severity is Severity.WARNING
    ]


def _condition(tmp_path: Path, text: str) -> Condition:
    rules, _ = _rules(tmp_path, f"  acl a path /a\n  acl b path /b\n  http-request deny {text}")
    condition = rules.sets["http-request"][0].condition
    assert condition is not None
    return condition


def _shape(condition: Condition) -> str:
    """`a & !b | c`, with the text of anonymous ACLs between braces."""
    return " | ".join(
        " & ".join(
            "!" * term.negated + (term.acl if isinstance(term.acl, str) else f"{{{term.acl.text}}}")
            for term in suite
        )
        for suite in condition.suites
    )


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("if a b", "a & b"),
        ("if a or b", "a | b"),
        ("if a || b OR a", "a | b | a"),
        ("if !a ! b !!a ! ! ! b", "!a & !b & a & !b"),
        ("if or a", "a"),
        ("if a or", "a"),
        ("if a ! or b", "a | b"),
        ("unless { path /x } !{ path_beg -i /y /z }", "{path /x} & !{path_beg -i /y /z}"),
        ("if METH_GET TRUE", "METH_GET & TRUE"),
        ('if { path "/a b" }', "{path /a b}"),
    ],
)
def test_conditions(tmp_path: Path, text: str, shape: str) -> None:
    # a brace with its exclamation mark is one word less
    text = text.replace("!{", "! {")
    condition = _condition(tmp_path, text)
    assert _shape(condition) == shape
    assert condition.unless == text.startswith("unless")


def test_a_condition_without_acls_is_never_true(tmp_path: Path) -> None:
    rules, warnings = _rules(tmp_path, "  http-request deny if")
    condition = rules.sets["http-request"][0].condition
    assert condition is not None
    assert condition.suites == ()
    assert any("names no ACL" in text for text in warnings)


def test_lines_of_one_name_belong_together(tmp_path: Path) -> None:
    rules, _ = _rules(
        tmp_path, "  acl a path /a\n  acl a hdr(x) b\n  http-request deny if a\n  acl a path /c"
    )
    assert [line.text for line in rules.acls["a"]] == ["path /a", "hdr(x) b", "path /c"]


def test_predefined_names_may_be_taken(tmp_path: Path) -> None:
    rules, _ = _rules(
        tmp_path,
        "  acl TRUE path /x\n  http-request deny if TRUE METH_GET\n  acl METH_GET method PUT",
    )
    assert [line.text for line in rules.acls["TRUE"]] == ["path /x"]
    assert [line.text for line in rules.acls["METH_GET"]] == ["method GET HEAD", "method PUT"]


def test_patterns_and_flags(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x\n")
    file = tmp_path / "f"
    rules, _ = _rules(
        tmp_path,
        f"  acl a hdr(x) -f {file} -i -f {file} -n Abc\n  acl b hdr(x) -m beg -- -i\n"
        '  acl c path /a "" /b\n  acl d req.hdr_cnt(x) gt 5 le 2\n  acl e path lower',
    )
    spec = rules.acls["a"][0].patterns
    assert [(one.ignore_case, one.no_dns) for one in spec.files] == [(False, False), (True, False)]
    assert (spec.ignore_case, spec.no_dns, spec.patterns) == (True, True, ("Abc",))
    assert rules.acls["b"][0].patterns.patterns == ("-i",)
    assert rules.acls["c"][0].patterns.patterns == ("/a",)
    entries = rules.acls["d"][0].patterns.exprs[0].ref.entries()
    assert [entry.key for entry in entries] == [b"6:", b":2"]
    assert rules.acls["e"][0].patterns.patterns == ("lower",)


@pytest.mark.parametrize(
    ("line", "message", "column"),
    [
        ("acl or path /x", "acl name 'or' will never match", 7),
        ("acl a|b path /x", "character '|' is not permitted in the acl name 'a|b'", 7),
        ("acl a req.hdr_cnt(a) -5", "'-5' is not a valid ACL option", 24),
        ("acl a path -m foo x", "unknown matching method 'foo'", 17),
        ("acl a path -f FILE -m str x", "'-m' must only be specified before", None),
        ("acl a src 999.1.1.1", "'999.1.1.1' is not a valid IPv4 or IPv6 address", 13),
        ("acl a src -f FILE", "'x y' is not a valid IPv4 or IPv6 address at line 2 of file", None),
        ("acl a path -f /none", "failed to open pattern file </none>", 17),
        ("acl a path_reg ab(c", "regex 'ab(c' is invalid (error=missing closing", 22),
        ("acl a req.hdr_cnt(a) gt x", "'x' is neither a number nor a supported operator", 27),
        ("acl a req.body x", "matching method must be specified first", 9),
        ("acl a always_true -m ip x", "matching method 'ip' cannot be used with", 24),
        ("acl a path -f FILE -M -f FILE", "already used as one column file", None),
        ("http-request deny if { path", "missing closing '}'", 24),
        ("http-request deny if { path /}", "is missing beside the '}' of '/}'", 31),
        ("http-request deny if { path / }or { path }x", "beside the '}' of '}or'", 33),
        ("http-request deny if {path / }", "a blank is missing behind the '{' of '{path'", 24),
        ("http-request deny if nosuch", "no such ACL : 'nosuch'", 24),
        ("http-request deny if { }", "is empty", 24),
    ],
)
def test_refusals(tmp_path: Path, line: str, message: str, column: int | None) -> None:
    (tmp_path / "list").write_text("# c\nx y\n")
    line = line.replace("FILE", str(tmp_path / "list"))
    settings, found = _load(tmp_path, f"frontend f\n  bind 127.0.0.1:18931\n  {line}\n")
    assert settings is None
    alert = next(one for one in found if one.severity is Severity.ALERT)
    assert message in alert.message
    assert alert.location is not None
    assert alert.location.line == 6
    if column is not None:
        assert alert.column == column


def test_the_nearest_name_is_suggested(tmp_path: Path) -> None:
    _, found = _load(
        tmp_path,
        "frontend f\n  bind 127.0.0.1:18931\n  acl is_static path /\n"
        "  http-request deny if is_statik\n",
    )
    assert [one.suggestion for one in found if one.severity is Severity.ALERT] == ["is_static"]


def test_acls_of_defaults_are_their_own(tmp_path: Path) -> None:
    text = "defaults d\n  mode http\n  timeout client 5s\n  acl a path /a\n"
    front = "frontend f from d\n  bind 127.0.0.1:18931\n"
    _, found = _load(tmp_path, f"{text}{front}  http-request deny if a\n")
    assert [one.message for one in found if one.severity is Severity.ALERT] == [
        "'http-request deny' : no such ACL : 'a'"
    ]
    rule = "  http-request deny if a\n"
    settings, _ = _load(tmp_path, f"{text}{rule}{front}  acl a path /b\n{rule}")
    assert settings is not None
    rules = settings.proxies[0].rules
    used = [one.condition.suites[0][0].acl for one in rules.sets["http-request"] if one.condition]
    assert [[line.text for line in rules.acls[str(key)]] for key in used] == [
        ["path /a"],
        ["path /b"],
    ]


def test_anonymous_defaults_have_none(tmp_path: Path) -> None:
    settings, found = _load(tmp_path, "  acl a path /a\n")
    assert settings is None
    assert "not allowed in anonymous 'defaults' section" in next(iter(found)).message


def test_a_warning_for_what_never_matches(tmp_path: Path) -> None:
    _, warnings = _rules(
        tmp_path,
        "  acl a path_beg\n  acl b path_beg --\n  acl c always_true\n  acl d hdr (host) x",
    )
    assert [text.partition(" : ")[0] for text in warnings] == ["'acl a'", "'acl d'"]


def test_a_brace_without_its_blank_makes_patterns_of_what_follows(tmp_path: Path) -> None:
    _, warnings = _rules(tmp_path, "  http-request deny if { path /} or { path /b }")
    assert [one for one in warnings if "'/}' and what follows up to the next '}'" in one]
    _, warnings = _rules(tmp_path, "  http-request deny if { path_reg ^/a{2} } or { path /b }")
    assert warnings == []

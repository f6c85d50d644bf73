"""The text of diagnostics."""

from __future__ import annotations

from mtproxy.base.errors import Diagnostic, Diagnostics, Severity
from mtproxy.base.location import Location

PLACE = Location("haproxy.cfg", 7)


def test_an_alert_has_haproxys_form_and_the_nearest_word() -> None:
    item = Diagnostic(Severity.ALERT, "unknown keyword 'bnid'", PLACE, "bnid", "bind")
    assert item.render(pid=42) == (
        "[ALERT]    (42) : config : parsing [haproxy.cfg:7] : unknown keyword 'bnid';"
        " did you mean 'bind'?"
    )


def test_labels_are_padded_to_one_column() -> None:
    heads = [Diagnostic(level, "x").render(pid=1).partition("(")[0] for level in Severity]
    assert heads == ["[ALERT]    ", "[WARNING]  ", "[NOTICE]   ", "[DIAG]     "]


def test_further_lines_of_a_message_are_set_off() -> None:
    text = Diagnostic(Severity.WARNING, "first\nsecond").render(pid=1)
    assert text == "[WARNING]  (1) : config : first\n   | second"


def test_a_caret_stands_below_the_fault() -> None:
    source = " bind :80 name 'x"
    item = Diagnostic(Severity.ALERT, "unmatched quote:", PLACE, column=16, source=source)
    _, shown, caret = item.render(pid=1).split("\n")
    assert shown == "  " + source
    assert shown[caret.index("^")] == "'"


def test_a_long_line_is_shown_around_the_fault() -> None:
    source = "x" * 500 + "'" + "y" * 500
    item = Diagnostic(Severity.ALERT, "unmatched quote:", PLACE, column=501, source=source)
    _, shown, caret = item.render(pid=1).split("\n")
    assert len(shown) < 100
    assert shown[caret.index("^")] == "'"


def test_diagnostics_are_counted_and_kept_in_order() -> None:
    found = Diagnostics()
    found.warning("w")
    found.alert("a", PLACE)
    found.notice("n")
    found.diag("d")
    assert (found.errors, found.warnings, len(found)) == (1, 1, 4)
    assert [item.message for item in found] == ["w", "a", "n", "d"]
    assert [item.message for item in found.shown()] == ["w", "a", "n"]
    assert len(found.shown(diag=True)) == 4

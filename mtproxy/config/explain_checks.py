"""What health checks say, as statements of an haproxy.cfg (see `config.explain`). Pure."""

from __future__ import annotations

from collections.abc import Iterator

from mtproxy.base.checkscript import CheckScript, HttpSendStep, Step
from mtproxy.config.quoting import line


def check_lines(script: CheckScript) -> Iterator[str]:
    """The option, then the rules, whichever section they came from."""
    if script.kind == "http":
        requests = [step for step in script.steps if isinstance(step, HttpSendStep)]
        option = requests[0].option if requests else ()
        yield line(*(option or ("option", "httpchk")))
    else:
        yield line(*script.option)
    if script.disable_on_404:
        yield line("http-check", "disable-on-404")
    if script.send_state:
        yield line("http-check", "send-state")
    for step in script.steps:
        if step.words:
            yield line(*_words(step))


def _words(step: Step) -> tuple[str, ...]:
    """With the comment that may have stood on a line of its own."""
    if step.comment and "comment" not in step.words:
        return (*step.words, "comment", step.comment)
    return step.words

"""Scripts of health checks at work: one thread's functions for the steps of a `CheckScript`.

Built once per thread and backend, before the thread serves; used by that thread alone.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from mtproxy.base.checkscript import (
    ActStep,
    CheckScript,
    ConnectStep,
    ExpectStep,
    HttpSendStep,
    Pattern,
    SendStep,
    Step,
)
from mtproxy.base.ruleset import Format
from mtproxy.proxy.checks.expect import Expectation, digits_of
from mtproxy.proxy.checks.http import RequestMaker
from mtproxy.rules import lookup
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Act
    from mtproxy.rules.view import View

DEFAULT_BUFSIZE: Final = 16384
#: the check of a backend that has no option about it
PLAIN: Final = CheckScript("", (ConnectStep(implicit=True, default=True),))


class Connection:
    """A `connect` step."""

    __slots__ = ("port_of", "quiet", "step")

    def __init__(self, step: ConnectStep, following: Step | None, build: Build) -> None:
        self.step = step
        #: the server's handshake is acknowledged by what is sent, or by the reset
        self.quiet = following is None or isinstance(following, (SendStep, HttpSendStep))
        self.port_of: Callable[[View], int | None] | None = None
        if step.port_expression is not None:
            self.port_of = build.expression(  # type: ignore[assignment]
                step.port_expression, Type.SINT
            )


class Sending:
    """A `send` step. `fixed`: the bytes, where they are always the same."""

    __slots__ = ("_format", "fixed", "hexadecimal", "step")

    def __init__(self, step: SendStep, build: Build) -> None:
        self.step = step
        self.fixed: bytes | None = None
        self._format: Callable[[View], bytes] | None = None
        self.hexadecimal = step.hexadecimal
        if isinstance(step.data, Format):
            self._format = build.format(step.data)
        else:
            self.fixed = step.data

    def make(self, view: View) -> bytes | None:
        """The bytes for this run; None: the digits are none."""
        assert self._format is not None
        data = self._format(view)
        return digits_of(data) if self.hexadecimal and data else data


class Requesting:
    """A step that sends a request of HTTP."""

    __slots__ = ("maker", "step")

    def __init__(self, step: HttpSendStep, build: Build, script: Script) -> None:
        self.step = step
        self.maker = RequestMaker(
            step, build, script.limit, send_state=script.send_state, whole=script.whole
        )


class Acting:
    """A step that runs an action of rules."""

    __slots__ = ("act", "step")

    def __init__(self, step: ActStep, build: Build) -> None:
        self.step = step
        entry = lookup.actions()[step.action]
        assert entry.build is not None
        self.act: Act = entry.build(step.args, build)


type Running = Connection | Sending | Requesting | Expectation | Acting


class Script:
    """The steps in their order. `heads`: for each `expect`, from where it is tried again when more
    came: the first negated one of those before it, or itself.
    """

    __slots__ = (
        "disable_on_404",
        "heads",
        "http",
        "kind",
        "limit",
        "node",
        "send_state",
        "steps",
        "talks",
        "tcp",
        "whole",
    )

    def __init__(self, script: CheckScript, build: Build) -> None:
        self.kind = script.kind
        self.http = script.kind == "http"
        #: `tcp-check` says which step it was that failed
        self.tcp = script.kind == "tcp"
        self.disable_on_404 = script.disable_on_404
        self.send_state = script.send_state
        self.limit = int(build.shared.settings.global_.tune.get("tune.bufsize", DEFAULT_BUFSIZE))
        #: how requests call this process
        self.node = build.shared.settings.global_.node or socket.gethostname()
        #: bodies of answers count: something looks at them, or at more than can be told here
        self.whole = any(map(_looks_further, script.steps))
        #: several sends, of which the later ones must not wait in the kernel
        self.talks = sum(isinstance(step, (SendStep, HttpSendStep)) for step in script.steps) > 1
        self.heads = heads_of(script.steps)
        self.steps: tuple[Running, ...] = tuple(
            self._make(step, _following(script.steps, position), build)
            for position, step in enumerate(script.steps)
        )

    def _make(self, step: Step, following: Step | None, build: Build) -> Running:
        match step:
            case ConnectStep():
                return Connection(step, following, build)
            case SendStep():
                return Sending(step, build)
            case HttpSendStep():
                return Requesting(step, build, self)
            case ExpectStep():
                return Expectation(step, self.kind, build)
        assert isinstance(step, ActStep)
        return Acting(step, build)


def _looks_further(step: Step) -> bool:
    """Whether the step may look behind the head of an answer."""
    if isinstance(step, ExpectStep):
        plain = step.pattern in (Pattern.STATUS, Pattern.STATUS_REGEX, Pattern.HEADER)
        return not plain or bool(step.on_success or step.on_error or step.status_code)
    return isinstance(step, ActStep)


def _following(steps: Sequence[Step], position: int) -> Step | None:
    """The next step that does something to a connection."""
    for step in steps[position + 1 :]:
        if not isinstance(step, ActStep):
            return step
    return None


def heads_of(steps: Sequence[Step]) -> tuple[int, ...]:
    """By position: where an `expect` is tried again. 0 for steps that are none."""
    heads = []
    for position, step in enumerate(steps):
        head = position if isinstance(step, ExpectStep) else 0
        if isinstance(step, ExpectStep):
            for earlier in range(position - 1, -1, -1):
                before = steps[earlier]
                if isinstance(before, ExpectStep):
                    if before.negated:
                        head = earlier
                elif not isinstance(before, ActStep):
                    break
        heads.append(head)
    return tuple(heads)

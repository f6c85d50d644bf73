"""The health checks of a proxy while they are read: steps, and how HAProxy puts them together.

Each section has its own rules of `tcp-check` and of `http-check`; the ones of a `defaults` section
hold until a proxy has one of its own, which replaces them all. `option httpchk` is a step too, with
which the first `http-check send` is merged. Main thread only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mtproxy.base.checkscript import (
    ActStep,
    CheckScript,
    CommentStep,
    ConnectStep,
    ExpectStep,
    HttpSendStep,
    Pattern,
    SendStep,
    Step,
)
from mtproxy.base.errors import ConfigError

#: what a check waits for that says nothing of it
USUAL_STATUSES: Final = ((200, 399),)
IMPLICIT_CONNECT: Final = ConnectStep(implicit=True, default=True)


@dataclass(slots=True)
class ChecksDraft:
    """`kind` is "" without an option: servers are connected to and nothing else."""

    kind: str = ""
    #: of the option that was last
    steps: list[Step] = field(default_factory=list)
    disable_on_404: bool = False
    send_state: bool = False
    #: of this very section, used or not
    own_tcp: list[Step] = field(default_factory=list)
    own_http: list[Step] = field(default_factory=list)
    #: the option, as it was written
    option: tuple[str, ...] = ()

    def copy(self) -> ChecksDraft:
        """What a section that begins with these has; own rules are not inherited as such."""
        return ChecksDraft(
            self.kind,
            list(self.steps),
            self.disable_on_404,
            self.send_state,
            option=self.option,
        )

    def choose(self, kind: str, steps: list[Step]) -> None:
        """An option decides what the check is."""
        self.kind = kind
        self.steps = steps

    def add_tcp(self, step: Step) -> None:
        """A `tcp-check` rule."""
        self.own_tcp.append(replace(step, index=_following(self.own_tcp)))
        if self.kind == "tcp":
            self.steps = self.own_tcp

    def choose_tcp(self) -> None:
        """`option tcp-check`."""
        if self.kind != "tcp":
            self.choose("tcp", self.own_tcp)

    def add_http(self, step: Step) -> None:
        """An `http-check` rule. Raises ConfigError where it cannot follow the last one."""
        step = replace(step, index=_following(self.own_http))
        if self.kind == "http":
            self.steps = self.own_http
            _add_http(self.own_http, step)
        else:
            self.own_http.append(step)

    def choose_http(self, request: HttpSendStep) -> None:
        """`option httpchk`, whose words make `request`."""
        self.choose("http", self.own_http)
        steps = self.own_http
        position = _first(steps)
        if position is not None and isinstance(steps[position], ConnectStep):
            position = _first(steps, position + 1)
        first = None if position is None else steps[position]
        if not isinstance(first, HttpSendStep):
            steps.insert(0, request)
        elif first.from_option:
            assert position is not None
            del steps[position]
            steps.insert(0, request)
        else:
            assert position is not None
            steps[position] = _merged(first, request)

    def ports_known(self) -> bool:
        """Whether each connection says which port it goes to."""
        connects = [step for step in self.steps if isinstance(step, ConnectStep)]
        first = _first(self.steps)
        if first is None or not isinstance(self.steps[first], ConnectStep):
            return False
        return all(step.port or (step.address and step.address.port) for step in connects)

    def freeze(self) -> CheckScript | None:
        """The script; None: nothing is said in a check."""
        if not self.kind:
            return None
        steps = list(self.steps)
        if self.kind == "http":
            _complete_http(steps)
        position = _first(steps)
        if position is None or not isinstance(steps[position], ConnectStep):
            steps.insert(0, IMPLICIT_CONNECT)
        return CheckScript(
            self.kind,
            tuple(_commented(steps)),
            disable_on_404=self.disable_on_404,
            send_state=self.send_state,
            option=self.option,
        )


def _following(steps: Sequence[Step]) -> int:
    """The index of the next step. The request of an option counts as none."""
    if not steps:
        return 0
    last = steps[-1]
    if isinstance(last, HttpSendStep) and last.from_option:
        return 0
    return last.index + 1


def _first(steps: Sequence[Step], start: int = 0) -> int | None:
    """The position of the first step that does something to a connection."""
    for position in range(start, len(steps)):
        if not isinstance(steps[position], (CommentStep, ActStep)):
            return position
    return None


def _last(steps: Sequence[Step]) -> Step | None:
    for step in reversed(steps):
        if not isinstance(step, (CommentStep, ActStep)):
            return step
    return None


def check_first_connect(steps: Sequence[Step]) -> str | None:
    """Why no connect may be added: what is wrong, or None."""
    for step in steps:
        if isinstance(step, ConnectStep):
            return None
        if isinstance(step, (CommentStep, ActStep)):
            continue
        if isinstance(step, HttpSendStep) and step.from_option:
            continue
        return (
            "first step MUST also be a 'connect', optionally preceded by a 'set-var', an"
            " 'unset-var' or a 'comment', when there is a 'connect' step in the tcp-check ruleset"
        )
    return None


def _add_http(steps: list[Step], step: Step) -> None:
    last = _last(steps)
    from_option = isinstance(last, HttpSendStep) and last.from_option
    if last is not None and not from_option:
        number = step.index + 1
        if isinstance(step, HttpSendStep) and not isinstance(last, ConnectStep):
            raise ConfigError(
                f"unable to add http-check send rule at step {number} (missing connect rule)"
            )
        if isinstance(step, ExpectStep) and isinstance(last, ConnectStep):
            raise ConfigError(
                f"unable to add http-check expect rule at step {number} (missing send rule)"
            )
        if isinstance(step, ConnectStep) and not isinstance(last, ExpectStep):
            raise ConfigError(
                f"unable to add http-check connect rule at step {number} (missing expect rule)"
            )
    if isinstance(step, HttpSendStep):
        position = _first(steps)
        first = None if position is None else steps[position]
        if isinstance(first, HttpSendStep) and first.from_option:
            assert position is not None
            del steps[position]
            step = replace(_merged(first, step), from_option=False)
    steps.append(step)


def _merged(old: HttpSendStep, new: HttpSendStep) -> HttpSendStep:
    """`old` with whatever `new` says."""
    return replace(
        old,
        method=new.method or old.method,
        uri=new.uri or old.uri,
        version=new.version or old.version,
        headers=new.headers or old.headers,
        body=new.body or old.body,
        words=new.words or old.words,
        option=new.option or old.option,
    )


def _complete_http(steps: list[Step]) -> None:
    """The option's request behind the first connect, and what has to come back."""
    position = _first(steps)
    first = None if position is None else steps[position]
    if position is not None and isinstance(first, HttpSendStep) and first.from_option:
        following = _first(steps, position + 1)
        if following is not None and isinstance(connect := steps[following], ConnectStep):
            del steps[position]
            steps.insert(following, replace(first, index=connect.index + 1))
    last = _last(steps)
    if isinstance(last, HttpSendStep):
        steps.append(ExpectStep(index=last.index + 1, pattern=Pattern.STATUS, data=USUAL_STATUSES))


def _commented(steps: Sequence[Step]) -> list[Step]:
    """Without the comments, which go to the steps of one kind that follow them."""
    result: list[Step] = []
    comment = ""
    before: type[Step] = CommentStep
    for step in steps:
        kind = SendStep if isinstance(step, HttpSendStep) else type(step)
        if kind is not before and before is not CommentStep:
            comment = ""
        before = kind
        if isinstance(step, CommentStep):
            comment = step.comment
            continue
        if comment and not step.comment and not isinstance(step, ActStep):
            step = replace(step, comment=comment)
        if isinstance(step, (ConnectStep, ActStep)):
            comment = ""
        result.append(step)
    return result

"""`expect` steps at work: functions that look at what came and say whether it is what should come.

Made once per thread and script. A function is given the run and whether nothing more will come; it
returns None (as expected), WAIT (for more), or the Outcome of a check that has failed. What is
matched is everything that came since the last send, as in HAProxy.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final

from mtproxy.base.checkscript import ExpectStep, HeaderPattern, Pattern
from mtproxy.base.ruleset import Format
from mtproxy.http.fields import split_list
from mtproxy.proxy.checks.outcome import Outcome, mismatch_of, text_of
from mtproxy.proxy.checks.protocols import EXAMINERS
from mtproxy.proxy.checkstatus import CheckStatus
from mtproxy.rules import regex
from mtproxy.rules.casts import cast
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.proxy.checks.run import Run
    from mtproxy.rules.build import Build
    from mtproxy.rules.view import View


class Wait(Enum):
    """The one answer that is no decision."""

    WAIT = "wait"


WAIT: Final = Wait.WAIT
type Verdict = Outcome | Wait | None
type Examine = Callable[[Run, bool], Verdict]

_EMPTY_FORMAT: Final = b"log-format string evaluated to an empty string"
_BAD_DIGITS: Final = b"Failed to parse hexastring resulting of eval of a log-format string"


class Expectation:
    """An `expect` step: what it examines, and the words for how it ends."""

    __slots__ = (
        "_code",
        "_comment",
        "_on_error",
        "_on_success",
        "_tcp",
        "error_status",
        "examine",
        "ok_status",
        "step",
        "timeout_status",
    )

    def __init__(self, step: ExpectStep, kind: str, build: Build) -> None:
        self.step = step
        self._tcp = kind == "tcp"
        self._comment = b" comment: " + step.comment.encode() if step.comment else b""
        self.ok_status = CheckStatus[step.ok_status or "L7OK"]
        #: None: as what was examined has it
        self.error_status = CheckStatus[step.error_status] if step.error_status else None
        self.timeout_status = CheckStatus[step.timeout_status or "L7TOUT"]
        self._on_error = None if step.on_error is None else build.format(step.on_error)
        self._on_success = None if step.on_success is None else build.format(step.on_success)
        self._code: Callable[[View], int | None] | None = None
        if step.status_code is not None:
            text_of_code = build.expression(step.status_code, Type.STR)
            to_number = cast(Type.STR, Type.SINT)
            assert to_number is not None

            def code(view: View) -> int | None:
                text = text_of_code(view)
                number = None if text is None else to_number(text)
                return number if isinstance(number, int) else None

            self._code = code
        maker = _http if kind == "http" else _bytes
        self.examine: Examine = maker(self, build)

    def failure(
        self,
        run: Run,
        text: bytes = b"",
        *,
        status: CheckStatus | None = None,
        matched: bool = False,
    ) -> Outcome:
        """The outcome of a mismatch: `text`, or what the rule says to it."""
        if not text:
            if self._on_error is not None:
                text = self._on_error(run.seen())
            elif self._tcp:
                text = mismatch_of(self.step, matched=matched)
        status = status or self.error_status or CheckStatus.L7RSP
        return Outcome(status, text_of(text + self._comment), self._code_of(run))

    def success(self, run: Run) -> Outcome:
        """The outcome of a check whose last step this is."""
        text = b""
        if self._on_success is not None:
            text = self._on_success(run.seen())
        elif self._tcp:
            text = b"(tcp-check)"
        return Outcome(self.ok_status, text_of(text), self._code_of(run))

    def _code_of(self, run: Run) -> int:
        if self._code is not None:
            code = self._code(run.seen())
            if code is not None:
                return code
        return run.code


# --- bytes


def _bytes(expectation: Expectation, build: Build) -> Examine:
    step = expectation.step
    match step.pattern:
        case Pattern.CUSTOM:
            return _custom(expectation)
        case Pattern.FORMAT | Pattern.BINARY_FORMAT:
            return _bytes_of_format(expectation, build)
    negated, minimum = step.negated, step.min_recv
    needed = max(minimum, 0)
    test: Callable[[bytes], bool]
    data = step.data
    if isinstance(data, bytes):
        needed = max(needed, len(data))
        test = _contains(data)
    else:
        assert isinstance(data, str)
        search = regex.compile(data).search
        if step.pattern is Pattern.BINARY_REGEX:
            test = lambda received: search(received.hex().upper().encode())  # noqa: E731
        else:
            test = search

    def examine(run: Run, last: bool) -> Verdict:
        received = run.data
        if not last and len(received) < needed:
            return WAIT
        matched = test(received)
        if not matched and not last and minimum == -1:
            return WAIT
        if matched is not negated:
            return None
        return expectation.failure(run, matched=matched)

    return examine


def _contains(data: bytes) -> Callable[[bytes], bool]:
    return lambda received: data in received


def _bytes_of_format(expectation: Expectation, build: Build) -> Examine:
    step = expectation.step
    assert isinstance(step.data, Format)
    wanted_of = build.format(step.data)
    hexadecimal = step.pattern is Pattern.BINARY_FORMAT
    negated, minimum = step.negated, step.min_recv

    def examine(run: Run, last: bool) -> Verdict:
        received = run.data
        if not last and len(received) < minimum:
            return WAIT
        wanted = wanted_of(run.seen())
        if not wanted:
            return expectation.failure(run, _EMPTY_FORMAT, status=CheckStatus.L7RSP)
        if hexadecimal:
            decoded = digits_of(wanted)
            if decoded is None:
                return expectation.failure(run, _BAD_DIGITS, status=CheckStatus.L7RSP)
            wanted = decoded
        if len(received) < len(wanted) and not last:
            return WAIT
        matched = wanted in received
        if not matched and not last and minimum == -1:
            return WAIT
        if matched is not negated:
            return None
        return expectation.failure(run, matched=matched)

    return examine


def digits_of(text: bytes) -> bytes | None:
    """The bytes that hexadecimal digits stand for; None: they are none."""
    try:
        return bytes.fromhex(text.decode("ascii")) if text.isalnum() else None
    except ValueError:
        return None


def _custom(expectation: Expectation) -> Examine:
    step = expectation.step
    assert isinstance(step.data, str)
    look = EXAMINERS[step.data]
    minimum = step.min_recv

    def examine(run: Run, last: bool) -> Verdict:
        if not last and len(run.data) < minimum:
            return WAIT
        found = look(run.data, last)
        if found is None:
            return WAIT
        run.code = found.code
        if found.status is not None:
            return expectation.failure(run, found.info, status=found.status)
        run.found = found.info
        return None

    return examine


# --- HTTP

_NO_BODY: Final = b"HTTP content check could not find a response body"
_UNWANTED: Final = b"HTTP check matched unwanted content"
_UNMATCHED: Final = b"HTTP content check did not match"


def _http(expectation: Expectation, build: Build) -> Examine:
    """The answer first, then what the pattern says of it."""
    step = expectation.step
    if step.pattern in (Pattern.STRING, Pattern.REGEX, Pattern.FORMAT):
        look = _body(expectation, build)
    elif step.pattern is Pattern.HEADER:
        look = _header(expectation, build)
    else:
        look = _status(expectation)

    def examine(run: Run, last: bool) -> Verdict:
        answer = run.answer
        assert answer is not None
        if answer.failed:
            return expectation.failure(run, status=CheckStatus.L7RSP)
        if not answer.started:
            if last or answer.complete:
                return expectation.failure(run, status=CheckStatus.L7RSP)
            return WAIT
        run.code = answer.status
        if answer.status == 404 and run.may_stop:
            return None
        return look(run, last or answer.complete)

    return examine


def _reason(expectation: Expectation, run: Run) -> Outcome:
    """A mismatch of the head: the words of the server."""
    assert run.answer is not None
    text = b"" if expectation.step.on_error is not None else run.answer.reason
    status = expectation.error_status or CheckStatus.L7STS
    return expectation.failure(run, text, status=status)


def _status(expectation: Expectation) -> Examine:
    step = expectation.step
    negated = step.negated
    test: Callable[[int], bool]
    if step.pattern is Pattern.STATUS:
        ranges: tuple[tuple[int, int], ...] = step.data  # type: ignore[assignment]
        test = lambda status: any(low <= status <= high for low, high in ranges)  # noqa: E731
    else:
        assert isinstance(step.data, str)
        search = regex.compile(step.data).search
        test = lambda status: search(b"%d" % status)  # noqa: E731

    def look(run: Run, _last: bool) -> Verdict:
        if test(run.code) is not negated:
            return None
        return _reason(expectation, run)

    return look


def _body(expectation: Expectation, build: Build) -> Examine:
    step = expectation.step
    negated, minimum = step.negated, step.min_recv
    search: Callable[[bytes], bool] | None = None
    wanted_of: Callable[[View], bytes] | None = None
    fixed = b""
    if isinstance(step.data, Format):
        wanted_of = build.format(step.data)
    elif isinstance(step.data, bytes):
        fixed = step.data
    else:
        assert isinstance(step.data, str)
        search = regex.compile(step.data).search

    def look(run: Run, last: bool) -> Verdict:
        assert run.answer is not None
        body = bytes(run.answer.body)
        if not body:
            if not last:
                return WAIT
            text = b"" if step.on_error is not None else _NO_BODY
            return expectation.failure(run, text)
        wanted = fixed
        if wanted_of is not None:
            wanted = wanted_of(run.seen())
            if not wanted:
                return expectation.failure(run, _EMPTY_FORMAT, status=CheckStatus.L7RSP)
        if not last and (len(body) < len(wanted) or len(body) < minimum):
            return WAIT
        matched = wanted in body if search is None else search(body)
        if not matched and not last and minimum == -1:
            return WAIT
        if matched is not negated:
            return None
        text = b"" if step.on_error is not None else _UNWANTED if negated else _UNMATCHED
        return expectation.failure(run, text)

    return look


type _Compare = Callable[[bytes, bytes], bool]

_COMPARE: Final[dict[str, _Compare]] = {
    "str": lambda value, wanted: value == wanted,
    "beg": lambda value, wanted: value.startswith(wanted),
    "end": lambda value, wanted: value.endswith(wanted),
    "sub": lambda value, wanted: wanted in value,
}


def _header(expectation: Expectation, build: Build) -> Examine:
    step = expectation.step
    pattern = step.data
    assert isinstance(pattern, HeaderPattern)
    negated = step.negated
    name_test = _tester(pattern.name_method, pattern.name, build, fold=True)
    value_test = None
    if pattern.value_method:
        value_test = _tester(pattern.value_method, pattern.value, build, fold=False)
    full = pattern.full

    def look(run: Run, _last: bool) -> Verdict:
        assert run.answer is not None
        names = name_test(run)
        values = None if value_test is None else value_test(run)
        if names is None or (value_test is not None and values is None):
            return expectation.failure(run, _EMPTY_FORMAT, status=CheckStatus.L7RSP)
        matched = False
        for name, value in run.answer.headers:
            if not names(name):
                continue
            if values is None:
                matched = True
            elif full:
                matched = values(value)
            else:
                matched = any(map(values, split_list(value)))
            if matched:
                break
        if matched is not negated:
            return None
        return _reason(expectation, run)

    return look


def _tester(
    method: str, text: str | Format, build: Build, *, fold: bool
) -> Callable[[Run], Callable[[bytes], bool] | None]:
    """What makes the test of a name or a value; that is None where a format gave nothing.

    `fold`: upper and lower case are the same; what is tested is in lower case already.
    """
    if method == "reg":
        assert isinstance(text, str)
        search = regex.compile(text, fold).search
        return lambda _run: search
    compare = _COMPARE[method]
    if isinstance(text, Format):
        wanted_of = build.format(text)

        def made(run: Run) -> Callable[[bytes], bool] | None:
            wanted = wanted_of(run.seen())
            if fold:
                wanted = wanted.lower()
            return (lambda value: compare(value, wanted)) if wanted else None

        return made
    fixed = text.encode("utf-8", "surrogateescape")
    if fold:
        fixed = fixed.lower()
    test: Callable[[bytes], bool] = lambda value: compare(value, fixed)  # noqa: E731
    return lambda _run: test

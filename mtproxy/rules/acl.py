"""ACLs and conditions: words in, data out; on each thread, a test out of that (manual 7.1, 7.2).

A condition is an OR of ANDs of ACLs, each of which may be negated. While not everything has been
received (`tcp-request content`), an ACL may be undecided: `build_condition` gives the usual test
with two values, `build_undecided` the one with three. Every ACL is evaluated at most once per use;
an undecided one counts neither as true nor as false, negated or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.base.ruleset import AclLine, Condition, PatternSpec, Term
from mtproxy.rules import patterns, registry
from mtproxy.rules.casts import can_cast
from mtproxy.rules.expression import build_every, build_expression, parse_expression
from mtproxy.rules.types import Type, Value

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Every, Test
    from mtproxy.rules.view import View

#: results of an undecided test
FAIL: Final = 0
MISS: Final = 1
PASS: Final = 3

type Undecided = Callable[[View], int]

#: ACLs that exist without a line (manual 7.4): name -> the words that they stand for
PREDEFINED: Final[dict[str, tuple[str, ...]]] = {
    "FALSE": ("always_false",),
    "TRUE": ("always_true",),
    "LOCALHOST": ("src", "127.0.0.1/8", "::1"),
    "HTTP": ("req.proto_http",),
    "HTTP_1.0": ("req.ver", "1.0"),
    "HTTP_1.1": ("req.ver", "1.1"),
    "HTTP_2.0": ("req.ver", "2.0"),
    "HTTP_CONTENT": ("req.hdr_val(content-length)", "gt", "0"),
    "HTTP_URL_ABS": ("url_reg", "^[^/:]*://"),
    "HTTP_URL_SLASH": ("url_beg", "/"),
    "HTTP_URL_STAR": ("url", "*"),
    "METH_CONNECT": ("method", "CONNECT"),
    "METH_DELETE": ("method", "DELETE"),
    "METH_GET": ("method", "GET", "HEAD"),
    "METH_HEAD": ("method", "HEAD"),
    "METH_OPTIONS": ("method", "OPTIONS"),
    "METH_POST": ("method", "POST"),
    "METH_PUT": ("method", "PUT"),
    "METH_TRACE": ("method", "TRACE"),
    "RDP_COOKIE": ("req.rdp_cookie_cnt", "gt", "0"),
    "REQ_CONTENT": ("req.len", "gt", "0"),
    "WAIT_END": ("wait_end",),
}

#: the match method of a type whose fetch names none
_BY_TYPE: Final = {
    Type.BOOL: "bool",
    Type.SINT: "int",
    Type.ADDR: "ip",
    Type.IPV4: "ip",
    Type.IPV6: "ip",
    Type.STR: "str",
    Type.BIN: "bin",
    Type.METH: "meth",
}


# --- reading


def parse_acl(reader: RuleReader) -> AclLine:
    """An ACL line from its fetch on; takes all words up to the end of the statement."""
    return _parse_line(reader, reader.words[reader.position :])


def _parse_line(reader: RuleReader, words: tuple[str, ...]) -> AclLine:
    """`words`: fetch, flags, patterns; nothing else."""
    inner = _sub_reader(reader, words)
    expression = parse_expression(inner, acl=True)
    entry = registry.FETCHES[expression.fetch.name]
    match = entry.match if not expression.converters or entry.acl_only else None
    spec = _parse_patterns(inner, Type(expression.type), match)
    return AclLine(" ".join(words), expression, spec)


def _sub_reader(reader: RuleReader, words: tuple[str, ...]) -> RuleReader:
    from mtproxy.rules.reader import RuleReader as Reader

    return Reader(
        words,
        reader.location,
        reader.point,
        proxy=reader.proxy,
        kind=reader.kind,
        mode=reader.mode,
        title=reader.title,
        acls=reader.acls,
        references=reader.references,
        warn=reader.warn,
        draft=reader.draft,
        global_draft=reader.global_draft,
    )


def _parse_patterns(inner: RuleReader, kind: Type, match: str | None) -> PatternSpec:
    files: list[str] = []
    ignore_case = is_map = no_dns = False
    unique_id: int | None = None
    given: str | None = None
    while inner.peek().startswith("-") and len(inner.peek()) > 1:
        flag = inner.peek()
        if flag == "--":
            inner.next()
            break
        if flag == "-i":
            ignore_case = True
        elif flag == "-n":
            no_dns = True
        elif flag == "-M":
            is_map = True
        elif flag == "-f":
            inner.next()
            files.append(inner.value("a file name behind '-f'"))
            continue
        elif flag == "-u":
            inner.next()
            unique_id = inner.integer(0)
            continue
        elif flag == "-m":
            inner.next()
            given = inner.choice(patterns.METHODS, "a match method:")
            continue
        elif flag[1:2].isdigit():
            break  # a negative number
        else:
            raise inner.error(
                f"'{flag}' is no flag of an ACL (-i, -f, -m, -n, -u, -M, --);"
                " patterns that begin with '-' go behind '--'",
                flag,
            )
        inner.next()
    method = given or match or _BY_TYPE.get(kind)
    if method is None:
        raise inner.error(
            "matching method must be specified first (using '-m') when using a sample fetch"
            f" of this type ('{inner.words[0]}')",
            inner.words[0],
        )
    if not can_cast(kind, patterns.takes(method)):
        raise inner.error(
            f"match method '{method}' cannot be used with '{inner.words[0]}', which gives {kind}",
            method if given else inner.words[0],
        )
    spec = PatternSpec(
        method,
        inner.words[inner.position :],
        tuple(files),
        ignore_case,
        is_map,
        no_dns,
        unique_id,
        inner.location,
    )
    inner.position = len(inner.words)
    patterns.check(spec, inner)
    return spec


def parse_condition(reader: RuleReader) -> Condition | None:
    """`if` or `unless` and what follows, to the end; None at the end of the statement."""
    if not reader.more():
        return None
    word = reader.peek()
    if word not in ("if", "unless"):
        reader.end()
    reader.next()
    start = reader.position
    suites: list[tuple[Term, ...]] = []
    suite: list[Term] = []
    negated = False
    while reader.more():
        token = reader.next()
        if token in ("or", "||"):
            if not suite or negated:
                raise reader.error(f"missing ACL before '{token}'", token)
            suites.append(tuple(suite))
            suite = []
            continue
        while token.startswith("!"):
            negated = not negated
            token = token[1:]
        if not token:
            continue
        acl = _anonymous(reader, word) if token == "{" else _named(reader, token)
        suite.append(Term(acl, negated))
        negated = False
    if negated or (not suite and suites):
        raise reader.error(f"missing ACL at the end of the '{word}' condition", word)
    if not suite:
        raise reader.error(f"no ACL found in the '{word}' condition", word)
    suites.append(tuple(suite))
    text = " ".join(reader.words[start - 1 :])
    return Condition(tuple(suites), word == "unless", text, reader.location)


def _anonymous(reader: RuleReader, word: str) -> AclLine:
    start = reader.position
    while reader.more():
        if reader.next() == "}":
            words = reader.words[start : reader.position - 1]
            if not words:
                raise reader.error(f"'{{ }}' in the '{word}' condition is empty", "{")
            return _parse_line(reader, words)
    raise reader.error(f"missing closing '}}' in the '{word}' condition", "{")


def _named(reader: RuleReader, name: str) -> str | AclLine:
    if name in reader.acls:
        for line in reader.acls[name]:
            _check_usable(reader, line, name)
        return name
    words = PREDEFINED.get(name)
    if words is not None:
        return _parse_line(reader, words)
    raise ConfigError(
        f"'{reader.title}' : no such ACL : '{name}'",
        word=name,
        suggestion=nearest(name, [*reader.acls, *PREDEFINED]),
    )


def _check_usable(reader: RuleReader, line: AclLine, name: str) -> None:
    """Warn, as HAProxy does, where a named ACL can never be true."""
    needs = registry.FETCHES[line.expression.fetch.name].needs
    missing = reader.point.missing(needs)
    if missing is not None:
        reader.warn(
            f"acl '{name}' will never match because it only involves keywords that are"
            f" incompatible with '{reader.point.name}' rules ('{missing}' is not available here)"
        )


# --- running


def build_acl(line: AclLine, build: Build) -> Test:
    """This thread's test for one line."""
    spec = line.patterns
    match = patterns.matcher(spec, build)
    if spec.match == "found" and match is None:
        found = build_every(line.expression, build)
        if found is not None:
            return _any_at_all(found)
        fetch = build_expression(line.expression, build)
        return lambda view: fetch(view) is not None
    value_of = build_expression(line.expression, build, patterns.takes(spec.match))
    if match is None:
        # no pattern at all: only `bool` has something to say
        if spec.match == "bool":
            return lambda view: bool(value_of(view))
        return lambda _view: False
    matches = match
    every = build_every(line.expression, build, patterns.takes(spec.match))
    if every is not None:
        return _any_of_values(every, matches)

    def test(view: View) -> bool:
        value = value_of(view)
        return value is not None and matches(value)

    return test


def _any_at_all(every: Every) -> Test:
    def test(view: View) -> bool:
        for _value in every(view):
            return True
        return False

    return test


def _any_of_values(every: Every, matches: Callable[[Value], bool]) -> Test:
    """Whether one of several values matches: all parts of a header, all cookies of a name."""

    def test(view: View) -> bool:
        for value in every(view):  # noqa: SIM110
            if matches(value):
                return True
        return False

    return test


def build_term(term: Term, build: Build) -> Test:
    """The test of an ACL whatever its sign."""
    if isinstance(term.acl, AclLine):
        return build_acl(term.acl, build)
    tests = [build_acl(line, build) for line in build.acls[term.acl]]
    if len(tests) == 1:
        return tests[0]
    return lambda view: any(test(view) for test in tests)


def build_condition(condition: Condition, build: Build) -> Test:
    """This thread's test for a whole condition."""
    suites = [[(build_term(t, build), t.negated) for t in suite] for suite in condition.suites]
    tests = [_all_of(suite) for suite in suites]
    test = tests[0] if len(tests) == 1 else _any_of(tests)
    return _negated(test) if condition.unless else test


def _negated(test: Test) -> Test:
    return lambda view: not test(view)


def _all_of(terms: list[tuple[Test, bool]]) -> Test:
    tests = [_negated(test) if negated else test for test, negated in terms]
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda view: first(view) and second(view)

    def every(view: View) -> bool:
        # a loop: any() and all() would cost a generator for every request
        for test in tests:  # noqa: SIM110
            if not test(view):
                return False
        return True

    return every


def _any_of(tests: list[Test]) -> Test:
    if len(tests) == 2:
        first, second = tests
        return lambda view: first(view) or second(view)

    def some(view: View) -> bool:
        for test in tests:  # noqa: SIM110
            if test(view):
                return True
        return False

    return some


def build_undecided(condition: Condition, build: Build) -> Undecided:
    """This thread's test with three values, for rules that run before everything is here."""
    suites = [[(build_term(t, build), t.negated) for t in suite] for suite in condition.suites]
    unless = condition.unless

    def test(view: View) -> int:
        result = FAIL
        for suite in suites:
            result |= _suite(suite, view)
            if result == PASS:
                break
        return _opposite(result) if unless else result

    return test


def _suite(suite: Iterable[tuple[Test, bool]], view: View) -> int:
    result = PASS
    for test, negated in suite:
        view.may_change = False
        one = PASS if test(view) else MISS if view.may_change else FAIL
        result &= _opposite(one) if negated else one
        if result == FAIL:
            break
    view.may_change = False
    return result


def _opposite(result: int) -> int:
    return result if result == MISS else PASS - result

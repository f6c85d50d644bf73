"""ACLs and conditions: words in, data out; on each thread, a test out of that (manual 7.1, 7.2).

A condition is an OR of ANDs of ACLs, each of which may be negated. While not everything has been
received (`tcp-request content`), an ACL may be undecided: `build_condition` gives the usual test
with two values, `build_undecided` the one with three. Every ACL is evaluated at most once per use;
an undecided one counts neither as true nor as false, negated or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mtproxy.base.nearest import nearest
from mtproxy.base.ruleset import AclLine, Condition, PatternFile, PatternSpec, Term
from mtproxy.rules import lookup, patterns, places
from mtproxy.rules.casts import can_cast
from mtproxy.rules.expression import build_every, build_expression, build_parts, parse_expression
from mtproxy.rules.types import Type, Value

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Convert, Every, Test
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
}
#: HAProxy's own ACL keywords that are fetches as well: only converters in the same word belong to
#: them, what stands behind is a pattern even if it is called like one
_KEYWORDS: Final = frozenset({"base", "cook", "hdr", "method", "path", "url", "urlp"})


# --- reading


def scoped(kind: str, proxy: str, name: str) -> str:
    """The key of a named ACL. Those of a `defaults` section are known to its own rules only."""
    return f"{proxy}/{name}" if kind == "defaults" else name


def parse_acl(reader: RuleReader) -> AclLine:
    """An ACL line from its fetch on; takes all words up to the end of the statement."""
    line = _parse_line(reader, reader.words[reader.position :])
    reader.position = len(reader.words)
    return line


def _parse_line(reader: RuleReader, words: tuple[str, ...]) -> AclLine:
    """`words`: fetch, flags, patterns; nothing else."""
    keyword = words[0].partition("(")[0].partition(",")[0] if words else ""
    inner = replace(reader, words=words[:1] if keyword in _KEYWORDS else words, position=0)
    expression = parse_expression(inner, acl=True)
    inner.words = words
    entry = lookup.fetches()[expression.fetch.name]
    match = None if expression.converters else entry.match
    kind = Type(expression.type)
    rest = words[inner.position :]
    if not rest and kind is not Type.BOOL and (match or _BY_TYPE.get(kind)) not in (None, "bool"):
        reader.warn(
            f"'{reader.title}' : no pattern to match against was given to '{words[0]}', so this"
            " ACL will never match (add '--' if this is meant, '-m found' to match what exists,"
            " '-m bool' to match a number that is not zero)"
        )
    elif rest and len(rest) == len(words) - 1 and rest[0][:1] == "(" and "(" not in words[0]:
        reader.warn(
            f"'{reader.title}' : the pattern '{rest[0]}' behind '{words[0]}' is likely a mistake:"
            " remove the space before '(', or put '--' before the pattern if it is meant"
        )
    spec = _parse_patterns(inner, kind, match)
    return AclLine(words, expression, patterns.load(spec, inner, keyword))


def _parse_patterns(inner: RuleReader, kind: Type, match: str | None) -> PatternSpec:
    """Flags and patterns from the cursor on, to the end."""
    files: list[PatternFile] = []
    ignore_case = is_map = no_dns = False
    unique_id: int | None = None
    method = match or _BY_TYPE.get(kind)
    while inner.peek().startswith("-"):
        flag = inner.next()
        match flag:
            case "--":
                break
            case "-i":
                ignore_case = True
            case "-n":
                no_dns = True
            case "-M":
                is_map = True
            case "-f":
                name = inner.value("a file name behind '-f'")
                _need_method(inner, method)
                files.append(PatternFile(name, ignore_case, is_map, no_dns))
            case "-u":
                unique_id = inner.integer(0)
            case "-m":
                if files:
                    raise inner.error("'-m' must only be specified before patterns and files", flag)
                method = _method(inner, kind)
            case _:
                raise inner.error(
                    f"'{flag}' is not a valid ACL option (-i, -f, -m, -n, -u, -M, --)."
                    " Please use '--' before any pattern beginning with a '-'",
                    flag,
                )
    method = _need_method(inner, method)
    rest = inner.words[inner.position :]
    # an empty word ends the patterns
    texts = rest[: rest.index("")] if "" in rest else rest
    inner.position = len(inner.words)
    return PatternSpec(method, texts, tuple(files), ignore_case, no_dns, unique_id, inner.location)


def _need_method(inner: RuleReader, method: str | None) -> str:
    if method is None:
        raise inner.error(
            "matching method must be specified first (using '-m') when using a sample fetch"
            f" of this type ('{inner.words[0]}')",
            inner.words[0],
        )
    return method


def _method(inner: RuleReader, kind: Type) -> str:
    name = inner.value("a match method behind '-m'")
    if name not in patterns.METHODS:
        raise inner.error(
            f"unknown matching method '{name}'", name, nearest(name, patterns.METHODS)
        )
    if name != "found" and not can_cast(kind, patterns.takes(name)):
        raise inner.error(
            f"matching method '{name}' cannot be used with '{inner.words[0]}', which gives {kind}",
            name,
        )
    return name


def parse_condition(reader: RuleReader) -> Condition | None:
    """`if` or `unless` and what follows, to the end; None at the end of the statement.

    As HAProxy, allows `or` with nothing on one side, exclamation marks of any number, and no ACL at
    all, which is never true.
    """
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
        while token.startswith("!"):
            negated = not negated
            token = token[1:]
        if not token:
            continue
        if token.lower() == "or" or token == "||":
            if suite:
                suites.append(tuple(suite))
            suite = []
            negated = False
            continue
        acl = _anonymous(reader, word) if token == "{" else _named(reader, token)
        suite.append(places.term(reader, acl, negated=negated))
        negated = False
    if suite:
        suites.append(tuple(suite))
    if not suites:
        reader.warn(f"'{reader.title}' : the '{word}' condition names no ACL and is never true")
    text = " ".join(reader.words[start - 1 :])
    return Condition(tuple(suites), word == "unless", text, reader.location)


def _anonymous(reader: RuleReader, word: str) -> AclLine:
    start = reader.position
    while reader.more():
        if reader.next() == "}":
            words = reader.words[start : reader.position - 1]
            if not words:
                raise reader.error(f"'{{ }}' in the '{word}' condition is empty", "{")
            glued = _glued(words)
            if glued is not None and "{" in words[words.index(glued) :]:
                reader.warn(
                    f"'{reader.title}' : '{glued}' and what follows up to the next '}}' are"
                    f" patterns of '{words[0]}': put a blank before '}}' if it was to end there"
                )
            return _parse_line(reader, words)
    message = f"missing closing '}}' in the '{word}' condition"
    glued = _glued(reader.words[start:])
    if glued is not None:
        raise reader.error(f"{message}: a blank is missing beside the '}}' of '{glued}'", glued)
    raise reader.error(message, "{")


def _glued(words: tuple[str, ...]) -> str | None:
    """The first word to which a closing brace seems to stick."""
    return next((one for one in words if len(one) > 1 and "}" in (one[0], one[-1])), None)


def _named(reader: RuleReader, name: str) -> str:
    """The key of a named ACL; a predefined one is made when it is first used."""
    key = scoped(reader.kind, reader.proxy, name)
    if key not in reader.acls:
        words = PREDEFINED.get(name)
        if words is None:
            if name[0] == "{":
                raise reader.error(f"a blank is missing behind the '{{' of '{name}'", name)
            prefix = scoped(reader.kind, reader.proxy, "")
            known = [one.removeprefix(prefix) for one in reader.acls if one.startswith(prefix)]
            raise reader.error(
                f"no such ACL : '{name}'", name, nearest(name, [*known, *PREDEFINED])
            )
        reader.acls[key] = [_parse_line(reader, words)]
    return key


# --- running


def build_acl(line: AclLine, build: Build) -> Test:
    """This thread's test for one line."""
    spec = line.patterns
    if spec.match == "found":
        found = build_every(line.expression, build)
        if found is not None:
            return _any_at_all(found)
        fetch = build_expression(line.expression, build)
        return lambda view: fetch(view) is not None
    matches = patterns.matcher(spec)
    parts = build_parts(line.expression, build, patterns.takes(spec.match))
    if parts is not None:
        return _any_of_values(*parts, matches)
    value_of = build_expression(line.expression, build, patterns.takes(spec.match))

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


def _any_of_values(
    every: Every, steps: Sequence[Convert], matches: Callable[[Value], bool]
) -> Test:
    """Whether one of several values matches: all parts of a header, all cookies of a name.

    The converters are called here rather than by `build_every`: a generator costs as much as they.
    """

    def test(view: View) -> bool:
        for value in every(view):  # noqa: SIM110
            if matches(value):
                return True
        return False

    def converted(view: View) -> bool:
        for value in every(view):
            for step in steps:
                result = step(value, view)
                if result is None:
                    return False  # the end of the list, as in HAProxy
                value = result
            if matches(value):
                return True
        return False

    return converted if steps else test


def build_term(term: Term, build: Build) -> Test:
    """The test of an ACL whatever its sign."""
    lines = (term.acl,) if isinstance(term.acl, AclLine) else build.acls[term.acl]
    tests = [build_acl(line, build) for i, line in enumerate(lines) if i not in term.dead]
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
        if result != PASS:
            # the first that is not known yet is waited for, whatever the others say
            break
    view.may_change = False
    return result


def _opposite(result: int) -> int:
    return result if result == MISS else PASS - result

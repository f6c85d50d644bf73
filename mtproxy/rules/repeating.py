"""Rules that always make the same of the same request head: told by looking at them as data.

The first rules of a set are such as long as they read the head, constants, lists of patterns, and
variables that they have set themselves, and change the head and variables of the transaction, or
give a verdict. What they once made of a head may then be remembered (`stream.repeats`). Everything
is listed by name: what is not listed is taken to depend on more. Pure functions over
`base.ruleset`, used while threads set up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from mtproxy.base.ruleset import (
    AclLine,
    Assignment,
    Condition,
    Expression,
    Format,
    ProxyRules,
    Rule,
)
from mtproxy.rules.logformat.grammar import Literal, Sample, Space

# fmt: off
#: fetches of the request's head, and constants
FETCHES: Final = frozenset({
    "method", "req.ver", "req_ver", "req.proto_http", "req_proto_http", "url", "path",
    "pathq", "query", "base", "baseq", "base32", "url32", "url_ip", "url_port", "urlp",
    "url_param", "urlp_val", "req.hdr", "req.hdr_cnt", "req.hdr_ip", "req.hdr_val",
    "req.fhdr", "req.fhdr_cnt", "req.hdr_names", "req.hdrs", "req.hdrs_bin", "hdr", "hdr_cnt",
    "hdr_ip", "hdr_val", "req.cook", "req.cook_cnt", "req.cook_val", "cook", "cook_cnt",
    "cook_val", "always_true", "always_false", "str", "int", "bool", "bin", "ipv4", "ipv6",
    "meth",
})
#: ... with a match method in their name
_MATCHED: Final = frozenset(
    f"{name}_{method}"
    for name in ("url", "path", "base", "urlp", "hdr", "cook")
    for method in ("beg", "dir", "dom", "end", "len", "reg", "sub")
)
#: converters whose result hangs on their input, constant arguments and lists of patterns alone;
#: those that may read a variable are not among them
CONVERTERS: Final = frozenset({
    "lower", "upper", "length", "word", "field", "regsub", "url_dec", "url_enc",
    "hex", "hex2i", "base64", "b64dec", "ub64enc", "ub64dec", "ltrim", "rtrim", "bool", "not",
    "even", "odd", "neg", "cpl", "crc32", "crc32c", "djb2", "sdbm", "wt6", "xxh32", "xxh64",
    "xxh3", "sha1", "sha2", "digest", "host_only", "port_only", "param", "language",
    "json_query", "map", "map_str", "map_beg", "map_end", "map_sub", "map_dir", "map_dom",
    "map_reg", "map_regm", "map_int", "map_ip", "map_str_int", "map_str_ip", "ipmask", "iif",
})
#: actions that change the head, or variables
CHANGES: Final = frozenset({
    "add-header", "del-header", "set-header", "replace-header", "replace-value", "set-path",
    "set-pathq", "set-query", "replace-path", "replace-pathq", "set-var(", "set-var-fmt(",
    "unset-var(",
})
#: actions that end the rule set
ENDS: Final = frozenset({
    "allow", "deny", "reject", "return", "redirect", "tarpit", "silent-drop",
})
#: actions that change lists of patterns while requests are served
PATTERN_CHANGES: Final = frozenset({
    "add-acl(", "del-acl(", "set-map(", "del-map(",
})

# fmt: on
_SCOPES: Final = ("txn.", "req.")


def leading(rules: Iterable[Rule], acls: Mapping[str, tuple[AclLine, ...]]) -> int:
    """How many rules at the beginning of the set hang on the request's head alone. `acls` are those
    of its proxy.
    """
    variables: set[str] = set()
    count = 0
    for rule in rules:
        if not _rule(rule, acls, variables):
            break
        count += 1
    return count


def changes_patterns(rules: ProxyRules) -> bool:
    """Whether requests change lists of patterns: nothing is worth being remembered then."""
    return any(rule.action in PATTERN_CHANGES for one in rules.sets.values() for rule in one)


def _rule(rule: Rule, acls: Mapping[str, tuple[AclLine, ...]], variables: set[str]) -> bool:
    if rule.condition is not None and not _condition(rule.condition, acls, variables):
        return False
    if rule.action in ENDS:
        # nothing of it is remembered, only that it was not reached
        return "ignore-empty" not in getattr(rule.args, "flags", ())
    if rule.action not in CHANGES:
        return False
    args = rule.args
    if isinstance(args, Assignment):
        if not args.name.startswith(_SCOPES) or not _value(args.value, variables):
            return False
        variables.add(args.name)
        return True
    texts = [args] if isinstance(args, Format) else _formats(args)
    return all(_value(text, variables) for text in texts)


def _formats(args: object) -> list[Format]:
    """The log-format strings among an action's arguments."""
    names = getattr(type(args), "__slots__", ())
    values = [getattr(args, name) for name in names]
    return [value for value in values if isinstance(value, Format)]


def _condition(
    condition: Condition, acls: Mapping[str, tuple[AclLine, ...]], variables: set[str]
) -> bool:
    for suite in condition.suites:
        for term in suite:
            lines = (term.acl,) if isinstance(term.acl, AclLine) else acls[term.acl]
            if not all(_expression(line.expression, variables) for line in lines):
                return False
    return True


def _value(value: Expression | Format | None, variables: set[str]) -> bool:
    if value is None:
        return True
    if isinstance(value, Expression):
        return _expression(value, variables)
    if value.constant is not None:
        return True
    return all(
        isinstance(piece, Literal | Space)
        or (isinstance(piece, Sample) and _expression(piece.expression, variables))
        for piece in value.pieces
    )


def _expression(expression: Expression, variables: set[str]) -> bool:
    if any(call.name not in CONVERTERS for call in expression.converters):
        return False
    name = expression.fetch.name
    if name == "var":
        # what others have set may hang on anything
        return expression.fetch.args[0] in variables
    return name in FETCHES or name in _MATCHED

"""Patterns: what samples are compared with (manual 7.1).

`load` reads the patterns of an ACL line into lists that all threads share, and refuses bad ones;
`matcher` makes a thread's test out of a `PatternSpec`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mtproxy.rules.patterns.methods import METHODS, PatternError, operators, takes
from mtproxy.rules.types import Value

if TYPE_CHECKING:
    from mtproxy.base.ruleset import PatternSpec
    from mtproxy.rules.build import Build
    from mtproxy.rules.patterns.reference import PatternExpr
    from mtproxy.rules.reader import RuleReader

__all__ = ["METHODS", "load", "matcher", "takes"]


def load(spec: PatternSpec, reader: RuleReader, keyword: str) -> PatternSpec:
    """`spec` with its lists. Raises ConfigError. `keyword`: what `show acl` calls the line by."""
    store = reader.patterns
    exprs: list[PatternExpr] = []
    for file in spec.files:
        try:
            ref = store.file(
                file.name,
                reader.location,
                for_acl=True,
                for_map=file.is_map,
                two_columns=file.is_map,
            )
            exprs.append(ref.expr(spec.match, ignore_case=file.ignore_case, dns=not file.no_dns))
        except PatternError as error:
            raise reader.error(str(error), file.name) from None
    try:
        ref = store.inline(keyword, reader.location, spec.unique_id)
    except PatternError as error:
        raise reader.error(f"{error} : {spec.unique_id}", "-u") from None
    exprs.append(ref.expr(spec.match, ignore_case=spec.ignore_case, dns=not spec.no_dns))
    try:
        texts = operators(spec.match, spec.patterns)
    except PatternError as error:
        raise reader.error(str(error), _culprit(spec, error)) from None
    for text in texts:
        try:
            ref.load(text.encode("utf-8", "surrogateescape"))
        except PatternError as error:
            word = text if text in spec.patterns else _culprit(spec, error)
            refusal = reader.error(str(error), word)
            refusal.offset = error.offset
            raise refusal from None
    return replace(spec, exprs=tuple(exprs))


def _culprit(spec: PatternSpec, error: PatternError) -> str | None:
    """The pattern that an error quotes."""
    return next((text for text in spec.patterns if f"'{text}'" in str(error)), None)


def matcher(spec: PatternSpec, _build: Build | None = None) -> Callable[[Value], bool]:
    """This thread's comparison of a value of the type that the method takes."""
    if spec.match == "found":
        return lambda _value: True
    if spec.match == "bool":
        return bool
    exprs: Sequence[PatternExpr] = spec.exprs
    # a list of the line's own that is empty may be filled at run time all the same
    tests = [expr.tester() for expr in exprs]
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda value: first(value) or second(value)
    return lambda value: any(test(value) for test in tests)

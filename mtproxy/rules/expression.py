"""Sample expressions: words in, `Expression` out; on each thread, a function out of that.

Grammar (manual 7.3): a fetch, then converters separated by commas (or standing as words of their
own, when they are converters' names). Types are checked here: what cannot be converted is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mtproxy.base.errors import ConfigError
from mtproxy.base.nearest import nearest
from mtproxy.base.ruleset import Call, Expression
from mtproxy.rules import lookup
from mtproxy.rules.arguments import split_call, typed
from mtproxy.rules.casts import can_cast, cast, dynamic
from mtproxy.rules.patterns.methods import PatternError
from mtproxy.rules.types import Type, Value

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.reader import RuleReader
    from mtproxy.rules.tables import Convert, Evaluate, Every, Fetch
    from mtproxy.rules.view import View


# --- reading


def parse_expression(
    reader: RuleReader, to: Type | None = None, *, acl: bool = False
) -> Expression:
    """The expression at the reader's cursor, which moves behind it. Raises ConfigError, which says
    where in the expression it went wrong.
    """
    try:
        return _parse(reader, to, acl=acl)
    except ConfigError as error:
        title = f"'{reader.title}' : "
        place = f" (at character {error.offset + 1} of '{error.word}')" if error.offset else ""
        raise ConfigError(
            f"{title}{error.message.removeprefix(title)}{place}",
            word=error.word,
            suggestion=error.suggestion,
            offset=error.offset,
        ) from None


def _parse(reader: RuleReader, to: Type | None, *, acl: bool) -> Expression:
    word = reader.value("a sample fetch")
    call = split_call(word, 0)
    name = call.name
    fetch = find_fetch(name, reader, word, acl=acl)
    args = typed(call, fetch.args, reader, word)
    if fetch.check is not None and (wrong := fetch.check(args)) is not None:
        raise reader.error(f"'{name}' : {wrong}", word)
    converters, kind = _converters(reader, word, call.end, fetch.out)
    if to is not None and not can_cast(kind, to):
        raise reader.error(f"'{word}' gives {kind}, which cannot be used as {to}", word)
    return Expression(word, Call(fetch.name, args), tuple(converters), kind)


def find_fetch(name: str, reader: RuleReader, word: str, *, acl: bool) -> Fetch:
    """The table's entry, if it can be used where the reader stands. Raises ConfigError."""
    fetch = lookup.fetches().get(name)
    if acl and fetch is not None and fetch.acl is not None:
        fetch = lookup.fetches()[fetch.acl]
    if fetch is None and name.startswith("lua."):
        raise reader.error(f"fetch '{name}' : Lua is known but not supported by mtproxy yet", word)
    if fetch is None or (fetch.acl_only and not acl):
        known = [one for one, entry in lookup.fetches().items() if acl or not entry.acl_only]
        raise ConfigError(
            f"'{reader.title}' : unknown fetch method '{name}'",
            word=word,
            suggestion=nearest(name, known),
        )
    if fetch.later is not None:
        raise reader.error(
            f"fetch '{name}' is known but not supported by mtproxy yet ({fetch.later})", word
        )
    missing = reader.point.missing(fetch.needs, reader.kind)
    if missing is not None and not acl:
        # conditions only warn: see acl
        raise reader.error(
            f"sample fetch <{word}> may not be reliably used here because it needs '{missing}'"
            " which is not available here",
            word,
        )
    return fetch


def _converters(reader: RuleReader, word: str, at: int, kind: Type) -> tuple[list[Call], Type]:
    """The converters from `at` in `word` on, and those in words behind it."""
    calls: list[Call] = []
    while True:
        if at >= len(word):
            name = reader.peek().partition("(")[0].partition(",")[0]
            if name not in lookup.converters():
                return calls, kind
            word, at = reader.next(), 0
        elif word[at] == ",":
            at += 1
            if at == len(word) or word[at] == ",":
                continue
        elif calls or at:
            raise ConfigError(
                f"'{reader.title}' : unexpected character '{word[at]}' in '{word}',"
                " a converter is expected after a comma",
                word=word,
                offset=at,
            )
        start = at
        call = split_call(word, at)
        name, at = call.name, call.end
        converter = lookup.converters().get(name)
        if converter is None:
            raise ConfigError(
                f"'{reader.title}' : unknown converter '{name}'",
                word=word,
                suggestion=nearest(name, lookup.converters()),
                offset=start,
            )
        if converter.later is not None:
            raise ConfigError(
                f"'{reader.title}' : converter '{name}' is known but not supported by mtproxy yet"
                f" ({converter.later})",
                word=word,
                offset=start,
            )
        if not can_cast(kind, converter.takes):
            raise ConfigError(
                f"'{reader.title}' : converter '{name}' cannot be applied to a sample of type"
                f" {kind}",
                word=word,
                offset=start,
            )
        args = typed(call, converter.args, reader, word)
        if converter.check is not None and (wrong := converter.check(args)) is not None:
            raise ConfigError(
                f"'{reader.title}' : invalid args in converter '{name}' : {wrong}",
                word=word,
                offset=start,
            )
        if converter.load is not None:
            try:
                args = converter.load(args, reader)
            except PatternError as error:
                raise ConfigError(
                    f"'{reader.title}' : invalid args in converter '{name}' : {error}",
                    word=word,
                    offset=start,
                ) from None
        calls.append(Call(name, args))
        kind = converter.gives


# --- running


#: what a converter takes as it is: bytes and truth values are binary and numbers to it. As in
#: HAProxy, what leaves parts of its input as they were (`bytes`) leaves its type, too.
_GOOD_ENOUGH: Final = frozenset(
    {(Type.STR, Type.BIN), (Type.METH, Type.BIN), (Type.BOOL, Type.SINT), (Type.SINT, Type.BOOL)}
)


def build_expression(expression: Expression, build: Build, to: Type | None = None) -> Evaluate:
    """This thread's function for an expression, its result cast to `to`."""
    fetch = lookup.fetches()[expression.fetch.name]
    if fetch.make is not None:
        value = fetch.make(expression.fetch.args, build)
    else:
        assert fetch.call is not None
        value = fetch.call
    return _chain(value, _steps(expression, fetch.out, build, to))


def build_parts(
    expression: Expression, build: Build, to: Type | None = None
) -> tuple[Every, list[Convert]] | None:
    """The two halves of `build_every`: all values, and what each of them goes through."""
    fetch = lookup.fetches()[expression.fetch.name]
    if fetch.every is None:
        return None
    every = fetch.every(expression.fetch.args, build)
    return None if every is None else (every, _steps(expression, fetch.out, build, to))


def build_every(expression: Expression, build: Build, to: Type | None = None) -> Every | None:
    """This thread's function for all values that an ACL compares, each of them cast to `to`.

    None where there is but one: `build_expression` is for that. What a converter refuses ends the
    list, as in HAProxy.
    """
    parts = build_parts(expression, build, to)
    if parts is None:
        return None
    values_of, steps = parts
    if not steps:
        return values_of

    def converted(view: View) -> Iterator[Value]:
        for value in values_of(view):
            result: Value | None = value
            for step in steps:
                if result is None:
                    return
                result = step(result, view)
            if result is None:
                return
            yield result

    return converted


def _steps(expression: Expression, kind: Type, build: Build, to: Type | None) -> list[Convert]:
    """The converters behind a fetch that gives `kind`, with the casts between them."""
    steps: list[Convert] = []
    for call in expression.converters:
        converter = lookup.converters()[call.name]
        assert converter.make is not None
        if (kind, converter.takes) not in _GOOD_ENOUGH:
            steps += _cast_step(kind, converter.takes)
        steps.append(converter.make(call.args, build))
        kind = Type.ANY if converter.loose else converter.gives
    if to is not None:
        steps += _cast_step(kind, to)
    return steps


def _cast_step(source: Type, target: Type) -> list[Convert]:
    if source is Type.ANY and target is not Type.ANY:
        return [lambda value, _view: dynamic(value, target)]
    function = cast(source, target)
    if function is None:
        return []
    return [lambda value, _view: function(value)]


def _chain(fetch: Evaluate, steps: list[Convert]) -> Evaluate:
    if not steps:
        return fetch
    if len(steps) == 1:
        step = steps[0]

        def one(view: View) -> Value | None:
            value = fetch(view)
            return None if value is None else step(value, view)

        return one
    rest = tuple(steps)

    def several(view: View) -> Value | None:
        value = fetch(view)
        for step in rest:
            if value is None:
                return None
            value = step(value, view)
        return value

    return several

"""Arithmetic and bits (manual 7.3.1: add, and, bool, cpl, div, even, htonl, mod, mul, ...).

Results stay within 64 bits signed: the nearest number that fits is the result of an overflow.
Operands are numbers or variables; a variable that is not set, or is no number, ends the
expression without a sample. Functions belong to the thread that made them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mtproxy.rules.casts import dynamic
from mtproxy.rules.tables import ArgKind, Converter, required
from mtproxy.rules.types import INT_MAX, INT_MIN, Binary, Type, Value, clamp
from mtproxy.rules.variables import reader

if TYPE_CHECKING:
    from mtproxy.rules.build import Build
    from mtproxy.rules.tables import Convert
    from mtproxy.rules.view import View

type Operation = Callable[[int, int], int]


def _sum(left: int, right: int) -> int:
    number = left + right
    return number if INT_MIN <= number <= INT_MAX else clamp(number)


def _difference(left: int, right: int) -> int:
    number = left - right
    return number if INT_MIN <= number <= INT_MAX else clamp(number)


def _product(left: int, right: int) -> int:
    number = left * right
    return number if INT_MIN <= number <= INT_MAX else clamp(number)


def _quotient(left: int, right: int) -> int:
    """Rounded towards zero; a division by zero gives the largest number."""
    if not right:
        return INT_MAX
    if left >= 0 and right > 0:
        return left // right
    number = abs(left) // abs(right)
    return clamp(number if (left < 0) is (right < 0) else -number)


def _remainder(left: int, right: int) -> int:
    """With the sign of `left`; 0 for a division by zero."""
    if not right:
        return 0
    if left >= 0:
        return left % abs(right)
    return -(-left % abs(right))


def _and(left: int, right: int) -> int:
    return left & right


def _or(left: int, right: int) -> int:
    return left | right


def _xor(left: int, right: int) -> int:
    return left ^ right


def _binary(name: str, operation: Operation) -> Converter:
    def make(args: tuple[Any, ...], build: Build) -> Convert:
        operand = args[0]
        if isinstance(operand, int):

            def with_number(value: Any, _view: View) -> int:
                return operation(value, operand)

            return with_number
        read = reader(operand, build)

        def with_variable(value: Any, view: View) -> int | None:
            other = read(view)
            if type(other) is not int:
                if other is None:
                    return None
                number = dynamic(other, Type.SINT)
                return None if number is None else operation(value, number)  # type: ignore[arg-type]
            return operation(value, other)

        return with_variable

    return Converter(name, Type.SINT, Type.SINT, make, required(ArgKind.OPERAND))


def _unary(name: str, gives: Type, convert: Callable[[Any, View], Value]) -> Converter:
    return Converter(name, Type.SINT, gives, lambda _args, _build: convert)


CONVERTERS: tuple[Converter, ...] = (
    _binary("add", _sum),
    _binary("sub", _difference),
    _binary("mul", _product),
    _binary("div", _quotient),
    _binary("mod", _remainder),
    _binary("and", _and),
    _binary("or", _or),
    _binary("xor", _xor),
    _unary("neg", Type.SINT, lambda value, _view: clamp(-value)),
    _unary("cpl", Type.SINT, lambda value, _view: ~value),
    _unary("bool", Type.BOOL, lambda value, _view: value != 0),
    _unary("not", Type.BOOL, lambda value, _view: value == 0),
    _unary("odd", Type.BOOL, lambda value, _view: value & 1 == 1),
    _unary("even", Type.BOOL, lambda value, _view: value & 1 == 0),
    _unary("htonl", Type.BIN, lambda value, _view: Binary((value & 0xFFFFFFFF).to_bytes(4))),
)

"""Compiles expressions to closures that evaluate the values of one frame.

None represents `none`, and every comparison with `none` is false. A missing key raises
KeyError, and a number that is not finite raises SignalFault; callers handle both as a
fault of the frame. Operators do not short-circuit, so a fault is reported regardless of
the values of other signals.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.expression.pattern import pattern
from forewarn.abstractions.expression.tree import (
    And,
    Arithmetic,
    Call,
    Compare,
    Conditional,
    Constant,
    Curve,
    Expression,
    Implies,
    IsNone,
    LookBack,
    Name,
    Negative,
    Not,
    Number,
    ObjectPredicate,
    Or,
    Text,
    common_unit,
    unit_of,
)
from forewarn.abstractions.vocabularies.signals import PLAIN, Unit

Values = Mapping[str, Any]
Test = Callable[[Values], bool]
Quantity = Callable[[Values], float | None]

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne, "+": operator.add, "-": operator.sub,
    "*": operator.mul, "/": operator.truediv,
    "starts_with": str.startswith,
    "matches": lambda value, text: pattern(text).found_in(value),
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "min": min, "max": max}


def constant_in(node: Expression, other: Expression) -> float | None:
    """Returns the value of a constant in the unit of `other`; None if `node` is not a
    constant.
    """
    if not isinstance(node, Number):
        return None
    return converted(node, unit_of(other))


def converted(number: Number, target: Unit | None) -> float:
    """Returns the number in the unit `target`, computed exactly and then rounded
    once.
    """
    return float(Fraction(repr(number.value)) * ratio(unit_of(number), target))


def ratio(from_unit: Unit | None, to_unit: Unit | None) -> Fraction:
    """Returns the factor that converts a number from `from_unit` to `to_unit`."""
    if from_unit is None or to_unit is None:
        return Fraction(1)
    return from_unit.factor / to_unit.factor


def finite(value: float, name: str) -> float:
    """Returns the value; raises `SignalFault` if it is NaN or infinite."""
    # The difference is NaN, which is truthy, if the value is NaN or infinite.
    if value - value:
        raise SignalFault(f"{name} is {value}, not a finite number")
    return value


def truth(value: object, name: str) -> bool:
    """Returns the value of a Boolean signal: None is false, and a number is true if it
    is not 0.
    """
    if value is None:
        return False
    try:
        return bool(finite(value + 0.0, name))  # type: ignore[operator]
    except TypeError:
        problem = f"{name} is {value!r:.60}, neither true nor false"
        raise SignalFault(problem) from None


def compile_test(node: Expression) -> Test:
    """Compiles an expression to a closure that tests whether it is true in a frame."""
    match node:
        case Constant(value=value):
            return lambda values: value
        case Name(name=name):
            return _truth_of(name)
        case ObjectPredicate():
            return _truth_of(repr(node))
        case IsNone(operand=Name(name=name)):
            return lambda values: values[name] is None
        case Not(operand=operand):
            inner = compile_test(operand)
            return lambda values: not inner(values)
        case And(parts=parts):
            return _all([compile_test(part) for part in parts])
        case Or(parts=parts):
            return _any([compile_test(part) for part in parts])
        case Implies(left=left, right=right):
            return _any([compile_test(Not(left)), compile_test(right)])
        case Compare():
            return _compare(node)
    raise TypeError(f"{node!r} cannot be evaluated on a single frame")


def _truth_of(name: str) -> Test:
    def test(values: Values) -> bool:
        value = values[name]
        return value if value is True or value is False else truth(value, name)

    return test


def _all(tests: list[Test]) -> Test:
    if len(tests) == 2:
        one, two = tests
        return lambda values: one(values) & two(values)
    return lambda values: all([test(values) for test in tests])


def _any(tests: list[Test]) -> Test:
    if len(tests) == 2:
        one, two = tests
        return lambda values: one(values) | two(values)
    return lambda values: any([test(values) for test in tests])


def _compare(node: Compare) -> Test:
    compare, left, right = OPERATORS[node.operator], node.left, node.right
    if isinstance(left, Name) and isinstance(right, Text):
        name, text = left.name, right.value

        def of_text(values: Values) -> bool:
            value = values[name]
            if value is None:
                return False
            if not isinstance(value, str):
                raise SignalFault(f"{name} is {value!r:.60}, not text")
            return bool(compare(value, text))

        return of_text
    cut = cut_by(node)
    if cut is not None:
        return _cut(cut)
    unit = common_unit(node)
    one, two = compile_quantity(left, unit), compile_quantity(right, unit)

    def of_quantities(values: Values) -> bool:
        first, second = one(values), two(values)
        if first is None or second is None:
            return False
        return bool(compare(first, second))

    return of_quantities


class Cut(NamedTuple):
    """A comparison of a signal with a constant.

    Args:
        name: The name of the signal.
        bound: The constant, in the signal's unit.
        below: Whether the comparison is `signal < bound`; otherwise it is `signal >=
            bound`.
    """

    name: str
    bound: float
    below: bool


def cut_by(node: Expression) -> Cut | None:
    """Converts an inequality between a signal and a constant; None for other
    expressions.
    """
    if not isinstance(node, Compare) or not isinstance(node.left, Name):
        return None
    bound = constant_in(node.right, node.left)
    if bound is None or node.operator in ("==", "!="):
        return None
    if node.operator in ("<=", ">"):
        # With the next float as the bound, `<=` becomes `<`, and `>` becomes `>=`.
        bound = math.nextafter(bound, math.inf)
    return Cut(node.left.name, bound, node.operator in ("<", "<="))


def _cut(cut: Cut) -> Test:
    name, bound, below = cut
    compare = operator.lt if below else operator.ge

    def test(values: Values) -> bool:
        value = values[name]
        return value is not None and compare(finite(value, name), bound)

    return test


def compile_quantity(node: Expression, target: Unit | None) -> Quantity:
    """Compiles an expression to a closure that returns a number in the unit `target`,
    or None if the result is none.
    """
    factor = float(ratio(unit_of(node), target))
    match node:
        case Number():
            fixed = converted(node, target)
            return lambda values: fixed
        case Name(name=name):
            return _value_of(name, factor)
        case LookBack():
            return _value_of(repr(node), factor)
        case Curve():
            return _curve(node, target)
        case Conditional(condition=condition, holding=holding, otherwise=otherwise):
            holds = compile_test(condition)
            yes, no = (compile_quantity(x, target) for x in (holding, otherwise))
            return lambda values: yes(values) if holds(values) else no(values)
        case Negative(operand=operand):
            return _apply(operator.neg, [compile_quantity(operand, target)])
        case Arithmetic(operator=symbol, left=left, right=right) if symbol in "*/":
            parts = [compile_quantity(x, unit_of(x) or PLAIN) for x in (left, right)]
            compute = OPERATORS[symbol]
            return _apply(lambda a, b: compute(a, b) * factor, parts)
        case Arithmetic(operator=symbol, left=left, right=right):
            parts = [compile_quantity(operand, target) for operand in (left, right)]
            return _apply(OPERATORS[symbol], parts)
        case Call(function=function, arguments=arguments):
            parts = [compile_quantity(operand, target) for operand in arguments]
            return _apply(FUNCTIONS[function], parts)
    raise TypeError(f"{node!r} is not a number")


def _value_of(key: str, factor: float) -> Quantity:
    def value_of(values: Values) -> float | None:
        value = values[key]
        return None if value is None else finite(value * factor, key)

    return value_of


def _curve(node: Curve, target: Unit | None) -> Quantity:
    operand = compile_quantity(node.operand, unit_of(node.operand) or PLAIN)
    bounds = bounds_of(node)
    steps = [compile_quantity(value, target) for value in node.values]
    absent = None if node.absent is None else compile_quantity(node.absent, target)

    def curve(values: Values) -> float | None:
        number = operand(values)
        if number is None:
            return None if absent is None else absent(values)
        return steps[bisect_right(bounds, number)](values)

    return curve


def bounds_of(node: Curve) -> list[float]:
    """Returns the bounds of a curve's steps, in the unit of the operand."""
    own = unit_of(node.operand) or PLAIN
    return [converted(bound, own) for bound in node.bounds]


def _apply(compute: Callable[..., float], parts: list[Quantity]) -> Quantity:
    def applied(values: Values) -> float | None:
        numbers = [part(values) for part in parts]
        if None in numbers:
            return None
        try:
            return finite(compute(*numbers), "the result")
        except ZeroDivisionError:
            raise SignalFault("the expression divides by zero") from None

    return applied

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
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

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
Closure = Callable[[Any], Any]

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne, "+": operator.add, "-": operator.sub,
    "*": operator.mul, "/": operator.truediv,
    "starts_with": str.startswith,
    "matches": lambda value, text: pattern(text).found_in(value),
}  # fmt: skip


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


class Compiler:
    """Compiles expressions to closures that take the values of one frame.

    `ColumnCompiler` in `vector` overrides the operations for whole columns.
    """

    functions: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "abs": abs, "min": min, "max": max,
    }  # fmt: skip

    def test(self, node: Expression) -> Closure:
        """Compiles a condition to a closure that returns whether it is true."""
        match node:
            case Constant(value=value):
                return self.constant(value)
            case Name() | ObjectPredicate():
                return self.truth(repr(node))
            case IsNone(operand=Name(name=name)):
                return self.is_none(name)
            case Not(operand=operand):
                return self.inverse(self.test(operand))
            case And(parts=parts):
                return self.all([self.test(part) for part in parts])
            case Or(parts=parts):
                return self.any([self.test(part) for part in parts])
            case Implies(left=left, right=right):
                return self.any([self.test(Not(left)), self.test(right)])
            case Compare(operator=symbol, left=Name(name=name), right=Text(value=text)):
                return self.text(symbol, name, text)
            case Compare(operator=symbol, left=left, right=right):
                if (cut := cut_by(node)) is not None:
                    return self.cut(cut)
                unit = common_unit(node)
                one, other = self.number(left, unit), self.number(right, unit)
                return self.comparison(symbol, one, other)
        raise TypeError(f"{node!r} cannot be evaluated on a single frame")

    def number(self, node: Expression, target: Unit | None) -> Closure:
        """Compiles a numeric expression to a closure that returns the number in the
        unit `target`.
        """
        factor = float(ratio(unit_of(node), target))
        match node:
            case Number():
                return self.constant(converted(node, target))
            case Name() | LookBack():
                return self.value(repr(node), factor)
            case Curve(operand=operand, values=values, absent=absent):
                own = unit_of(operand) or PLAIN
                return self.curve(
                    self.number(operand, own),
                    [converted(bound, own) for bound in node.bounds],
                    [self.number(value, target) for value in values],
                    None if absent is None else self.number(absent, target),
                )
            case Conditional(condition=condition, holding=holding, otherwise=otherwise):
                yes, no = self.number(holding, target), self.number(otherwise, target)
                return self.choice(self.test(condition), yes, no)
            case Negative(operand=operand):
                return self.computed(operator.neg, [self.number(operand, target)])
            case Arithmetic(operator="*" | "/" as symbol, left=left, right=right):
                parts = [self.number(x, unit_of(x) or PLAIN) for x in (left, right)]
                compute = OPERATORS[symbol]
                return self.computed(lambda a, b: compute(a, b) * factor, parts)
            case Arithmetic(operator=symbol, left=left, right=right):
                parts = [self.number(operand, target) for operand in (left, right)]
                return self.computed(OPERATORS[symbol], parts)
            case Call(function=function, arguments=arguments):
                parts = [self.number(operand, target) for operand in arguments]
                return self.computed(self.functions[function], parts)
        raise TypeError(f"{node!r} is not a number")

    # -- operations ----------------------------------------------------------------

    def constant(self, value: float) -> Closure:
        return lambda values: value

    def truth(self, key: str) -> Closure:
        def test(values: Values) -> bool:
            value = values[key]
            return value if value is True or value is False else truth(value, key)

        return test

    def is_none(self, name: str) -> Closure:
        return lambda values: values[name] is None

    def inverse(self, test: Closure) -> Closure:
        return lambda values: not test(values)

    def all(self, tests: list[Closure]) -> Closure:
        if len(tests) == 2:
            one, two = tests
            return lambda values: one(values) & two(values)
        return lambda values: all([test(values) for test in tests])

    def any(self, tests: list[Closure]) -> Closure:
        if len(tests) == 2:
            one, two = tests
            return lambda values: one(values) | two(values)
        return lambda values: any([test(values) for test in tests])

    def text(self, symbol: str, name: str, text: str) -> Closure:
        compare = OPERATORS[symbol]

        def test(values: Values) -> bool:
            value = values[name]
            if value is None:
                return False
            if not isinstance(value, str):
                raise SignalFault(f"{name} is {value!r:.60}, not text")
            return bool(compare(value, text))

        return test

    def cut(self, cut: Cut) -> Closure:
        name, bound, below = cut
        compare = operator.lt if below else operator.ge

        def test(values: Values) -> bool:
            value = values[name]
            return value is not None and compare(finite(value, name), bound)

        return test

    def comparison(self, symbol: str, one: Closure, other: Closure) -> Closure:
        compare = OPERATORS[symbol]

        def test(values: Values) -> bool:
            first, second = one(values), other(values)
            if first is None or second is None:
                return False
            return bool(compare(first, second))

        return test

    def value(self, key: str, factor: float) -> Closure:
        def value_of(values: Values) -> float | None:
            value = values[key]
            return None if value is None else finite(value * factor, key)

        return value_of

    def curve(
        self,
        operand: Closure,
        bounds: Sequence[float],
        steps: Sequence[Closure],
        absent: Closure | None,
    ) -> Closure:
        def curve(values: Values) -> Any:
            number = operand(values)
            if number is None:
                return None if absent is None else absent(values)
            return steps[bisect_right(bounds, number)](values)

        return curve

    def choice(self, holds: Closure, yes: Closure, no: Closure) -> Closure:
        return lambda values: yes(values) if holds(values) else no(values)

    def computed(self, compute: Callable[..., Any], parts: list[Closure]) -> Closure:
        def computed(values: Values) -> float | None:
            numbers = [part(values) for part in parts]
            if None in numbers:
                return None
            try:
                return finite(compute(*numbers), "the result")
            except ZeroDivisionError:
                raise SignalFault("the expression divides by zero") from None

        return computed


def compile_test(node: Expression) -> Test:
    """Compiles an expression to a closure that tests whether it is true in a frame."""
    return Compiler().test(node)


def compile_quantity(node: Expression, target: Unit | None) -> Quantity:
    """Compiles an expression to a closure that returns a number in the unit `target`,
    or None if the result is none.
    """
    return Compiler().number(node, target)

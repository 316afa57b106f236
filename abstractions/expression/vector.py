"""Evaluates expressions on whole numpy columns, with the same semantics as `scalar`.

A column of numbers is a float64 array with NaN for `none`. A column of enum values is
an object array with None for `none`. A Boolean column is a bool array, or a float64
array with 0 for false. Infinite numbers and divisions by zero raise SignalFault, as in
`scalar`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.expression.scalar import (
    OPERATORS,
    Closure,
    Compiler,
    Cut,
)
from forewarn.abstractions.expression.tree import OF_TEXT, Expression
from forewarn.abstractions.vocabularies.signals import Unit

Columns = Mapping[str, NDArray[Any]]
Booleans = NDArray[np.bool_]
Test = Callable[[Columns], Booleans]
Numbers = Callable[[Columns], Any]


def evaluate(node: Expression, columns: Columns) -> Booleans:
    """Returns a mask of the rows in which the expression is true; raises KeyError if a
    column is missing.
    """
    return compile_columns(node)(columns)


def quantity(node: Expression, target: Unit | None, columns: Columns) -> Any:
    """Returns the values of a numeric expression in the unit `target`, with NaN for
    none.
    """
    return compile_numbers(node, target)(columns)


def compile_columns(node: Expression) -> Test:
    """Compiles an expression to a closure that returns a mask of the rows in which it
    is true.
    """
    return ColumnCompiler().test(node)


def compile_numbers(node: Expression, target: Unit | None) -> Numbers:
    """Compiles an expression to a closure that returns numbers in the unit `target`,
    with NaN for none.
    """
    return ColumnCompiler().number(node, target)


def _numbers(column: NDArray[Any], name: str) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(column, np.float64)
    except (TypeError, ValueError):
        raise SignalFault(f"{name} has a value that is not a number") from None
    if np.isinf(numbers).any():
        frame = int(np.flatnonzero(np.isinf(numbers))[0])
        raise SignalFault(f"{name} is {numbers.flat[frame]}, not a finite number")
    return numbers


def _is_none(column: NDArray[Any]) -> Booleans:
    if column.dtype == object:
        return np.asarray(column == None)  # noqa: E711 (compares each value)
    return np.asarray(column != column)


class ColumnCompiler(Compiler):
    """Compiles expressions to closures that take columns."""

    functions = {
        "abs": np.abs,
        "min": lambda *parts: reduce(np.minimum, parts),
        "max": lambda *parts: reduce(np.maximum, parts),
    }

    def constant(self, value: float) -> Closure:
        held = np.asarray(value)[()]
        return lambda columns: held

    def truth(self, key: str) -> Closure:
        def test(columns: Columns) -> Booleans:
            column = columns[key]
            if column.dtype == bool:
                return column
            numbers = _numbers(column, key)
            return np.asarray((numbers != 0) & (numbers == numbers))

        return test

    def is_none(self, name: str) -> Closure:
        return lambda columns: _is_none(columns[name])

    def inverse(self, test: Closure) -> Closure:
        return lambda columns: ~test(columns)

    def all(self, tests: list[Closure]) -> Closure:
        return lambda columns: reduce(np.logical_and, [test(columns) for test in tests])

    def any(self, tests: list[Closure]) -> Closure:
        return lambda columns: reduce(np.logical_or, [test(columns) for test in tests])

    def text(self, symbol: str, name: str, text: str) -> Closure:
        compare = OPERATORS[symbol]

        def test(columns: Columns) -> Booleans:
            column = columns[name]
            if symbol not in OF_TEXT:
                held = np.asarray(compare(column, text), dtype=bool)
                return held & ~_is_none(column) if symbol == "!=" else held
            values = column.tolist()
            if any(
                value is not None and not isinstance(value, str) for value in values
            ):
                raise SignalFault(f"{name} has a value that is not text")
            return np.array([v is not None and compare(v, text) for v in values], bool)

        return test

    def cut(self, cut: Cut) -> Closure:
        name, bound, below = cut
        # A comparison with NaN, which means none, is false.
        compare = operator.lt if below else operator.ge
        return lambda columns: np.asarray(compare(_numbers(columns[name], name), bound))

    def comparison(self, symbol: str, one: Closure, other: Closure) -> Closure:
        compare = OPERATORS[symbol]

        def test(columns: Columns) -> Booleans:
            with np.errstate(all="ignore"):
                first, second = one(columns), other(columns)
            held = np.asarray(compare(first, second))
            if symbol == "!=":  # the only comparison that is true for NaN
                held = held & (first == first) & (second == second)
            return held

        return test

    def value(self, key: str, factor: float) -> Closure:
        return lambda columns: _numbers(_numbers(columns[key], key) * factor, key)

    def curve(
        self,
        operand: Closure,
        bounds: Sequence[float],
        steps: Sequence[Closure],
        absent: Closure | None,
    ) -> Closure:
        def curve(columns: Columns) -> Any:
            numbers = operand(columns)
            values = [step(columns) for step in steps]
            at = np.searchsorted(bounds, numbers, side="right")
            known = numbers == numbers
            if all(np.ndim(value) == 0 for value in values):
                found = np.array(values)[np.where(known, at, 0)]
            else:
                found = np.select([at == i for i in range(len(values))], values)
            return np.where(known, found, np.nan if absent is None else absent(columns))

        return curve

    def choice(self, holds: Closure, yes: Closure, no: Closure) -> Closure:
        return lambda columns: np.where(holds(columns), yes(columns), no(columns))

    def computed(self, compute: Callable[..., Any], parts: list[Closure]) -> Closure:
        def computed(columns: Columns) -> Any:
            operands = [part(columns) for part in parts]
            result = compute(*operands)
            # The result may be NaN only if an operand is NaN (none).
            bad = ~np.isfinite(result)
            if bad.any() and (bad & ~np.isnan(sum(operands))).any():
                raise SignalFault(
                    "the expression divides by zero, or its result is not finite"
                )
            return result

        return computed

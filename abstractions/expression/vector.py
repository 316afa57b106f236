"""Evaluates expressions on whole numpy columns, with the same semantics as `scalar`.

A column of numbers is a float64 array with NaN for `none`. A column of enum values is
an object array with None for `none`. A Boolean column is a bool array, or a float64
array with 0 for false. Infinite numbers and divisions by zero raise SignalFault, as in
`scalar`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.expression.scalar import (
    OPERATORS,
    bounds_of,
    constant_in,
    converted,
    ratio,
)
from forewarn.abstractions.expression.tree import (
    OF_TEXT,
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

Columns = Mapping[str, NDArray[Any]]
Booleans = NDArray[np.bool_]
Test = Callable[[Columns], Booleans]
Numbers = Callable[[Columns], Any]

_FOLDS = {"min": np.minimum, "max": np.maximum}


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
    match node:
        case Constant(value=value):
            held = np.asarray(value)
            return lambda columns: held
        case Name(name=name):
            return lambda columns: _truth(columns[name], name)
        case ObjectPredicate():
            key = repr(node)
            return lambda columns: _truth(columns[key], key)
        case IsNone(operand=Name(name=name)):
            return lambda columns: _is_none(columns[name])
        case Not(operand=operand):
            inner = compile_columns(operand)
            return lambda columns: ~inner(columns)
        case And(parts=parts):
            return _folded(np.logical_and, [compile_columns(part) for part in parts])
        case Or(parts=parts):
            return _folded(np.logical_or, [compile_columns(part) for part in parts])
        case Implies(left=left, right=right):
            one, two = compile_columns(left), compile_columns(right)
            return lambda columns: ~one(columns) | two(columns)
        case Compare():
            return _compare(node)
    raise TypeError(f"{node!r} cannot be evaluated on a single frame")


def _folded(fold: Callable[[Any, Any], Any], parts: Sequence[Test]) -> Test:
    return lambda columns: reduce(fold, [part(columns) for part in parts])


def _truth(column: NDArray[Any], name: str) -> Booleans:
    if column.dtype == bool:
        return column
    numbers = _numbers(column, name)
    return np.asarray((numbers != 0) & (numbers == numbers))


def _numbers(column: NDArray[Any], name: str) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(column, np.float64)
    except (TypeError, ValueError):
        raise SignalFault(f"{name} has a value that is not a number") from None
    if np.isinf(numbers).any():
        frame = int(np.flatnonzero(np.isinf(numbers))[0])
        raise SignalFault(f"{name} is {numbers[frame]}, not a finite number")
    return numbers


def _is_none(column: NDArray[Any]) -> Booleans:
    if column.dtype == object:
        return np.array([value is None for value in column], dtype=bool)
    return np.asarray(column != column)


def _compare(node: Compare) -> Test:
    compare, left, right = OPERATORS[node.operator], node.left, node.right
    differs = node.operator == "!="
    if isinstance(left, Name) and isinstance(right, Text):
        if node.operator in OF_TEXT:
            return _text(compare, left.name, right.value)
        return _word(compare, left.name, right.value, differs)
    bound = constant_in(right, left)
    if isinstance(left, Name) and bound is not None:
        return _bounded(compare, left.name, bound, differs)
    unit = common_unit(node)
    first, second = compile_numbers(left, unit), compile_numbers(right, unit)

    def compared(columns: Columns) -> Booleans:
        with np.errstate(all="ignore"):
            one, two = first(columns), second(columns)
        held = np.asarray(compare(one, two))
        return held & (one == one) & (two == two) if differs else held

    return compared


def _word(compare: Callable[..., Any], name: str, word: str, differs: bool) -> Test:
    def compared(columns: Columns) -> Booleans:
        column = columns[name]
        held = np.asarray(compare(column, word), dtype=bool)
        return held & ~_is_none(column) if differs else held

    return compared


def _text(compare: Callable[..., Any], name: str, text: str) -> Test:
    def compared(columns: Columns) -> Booleans:
        values = columns[name].tolist()
        if any(value is not None and not isinstance(value, str) for value in values):
            raise SignalFault(f"{name} has a value that is not text")
        return np.array([v is not None and compare(v, text) for v in values], bool)

    return compared


def _bounded(compare: Callable[..., Any], name: str, at: float, differs: bool) -> Test:
    def compared(columns: Columns) -> Booleans:
        column = _numbers(columns[name], name)
        held = np.asarray(compare(column, at))
        # NaN means none. Only `!=` is true for NaN, so the result is masked.
        return held & (column == column) if differs else held

    return compared


def compile_numbers(node: Expression, target: Unit | None) -> Numbers:
    """Compiles an expression to a closure that returns numbers in the unit `target`,
    with NaN for none.
    """
    factor = float(ratio(unit_of(node), target))
    match node:
        case Number():
            fixed = np.float64(converted(node, target))
            return lambda columns: fixed
        case Name(name=name):
            return lambda c: _numbers(_numbers(c[name], name) * factor, name)
        case LookBack():
            key = repr(node)
            return lambda columns: _numbers(columns[key] * factor, key)
        case Curve():
            return _curve(node, target)
        case Conditional(condition=condition, holding=holding, otherwise=otherwise):
            holds = compile_columns(condition)
            yes, no = (compile_numbers(x, target) for x in (holding, otherwise))
            return lambda columns: np.where(holds(columns), yes(columns), no(columns))
        case Negative(operand=operand):
            inner = compile_numbers(operand, target)
            return lambda columns: -inner(columns)
        case Arithmetic(operator=symbol, left=left, right=right) if symbol in "*/":
            parts = [compile_numbers(x, unit_of(x) or PLAIN) for x in (left, right)]
            return _computed(OPERATORS[symbol], parts, factor)
        case Arithmetic(operator=symbol, left=left, right=right):
            parts = [compile_numbers(operand, target) for operand in (left, right)]
            return _computed(OPERATORS[symbol], parts)
        case Call(function=function, arguments=arguments):
            parts = [compile_numbers(operand, target) for operand in arguments]
            if not parts[1:]:
                return lambda columns: np.abs(parts[0](columns))
            return _folded(_FOLDS[function], parts)
    raise TypeError(f"{node!r} is not a number")


def _curve(node: Curve, target: Unit | None) -> Numbers:
    operand = compile_numbers(node.operand, unit_of(node.operand) or PLAIN)
    absent: Numbers = lambda columns: np.float64(math.nan)  # noqa: E731
    if node.absent is not None:
        absent = compile_numbers(node.absent, target)
    values = [compile_numbers(value, target) for value in node.values]
    bounds = bounds_of(node)

    def curve(columns: Columns) -> Any:
        numbers = operand(columns)
        steps = [value(columns) for value in values]
        step = np.searchsorted(bounds, numbers, side="right")
        known = numbers == numbers
        if all(np.ndim(value) == 0 for value in steps):
            found = np.array(steps)[np.where(known, step, 0)]
        else:
            found = np.select([step == i for i in range(len(steps))], steps)
        return np.where(known, found, absent(columns))

    return curve


def _computed(
    compute: Callable[[Any, Any], Any], parts: Sequence[Numbers], factor: float = 1.0
) -> Numbers:
    def computed(columns: Columns) -> Any:
        operands = [part(columns) for part in parts]
        result = compute(*operands) * factor
        # The result may be NaN only if an operand is NaN (none).
        bad = ~np.isfinite(result)
        if bad.any() and (bad & ~np.isnan(sum(operands))).any():
            raise SignalFault(
                "the expression divides by zero, or its result is not finite"
            )
        return result

    return computed

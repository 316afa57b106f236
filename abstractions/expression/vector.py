"""Expressions over whole columns: the same meaning as `scalar`, in numpy.

A column of numbers is float64 with NaN for `none`; a column of enum values is an
object array with None for `none`; a Boolean column is bool, or numbers like 0 and 1.
An infinite number and a division by zero raise SignalFault, as in `scalar`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
    And,
    Arithmetic,
    Call,
    Choice,
    Compare,
    Constant,
    Curve,
    Expression,
    Implies,
    IsNone,
    Name,
    Negative,
    Not,
    Number,
    ObjectPredicate,
    Or,
    Past,
    Text,
)
from forewarn.abstractions.expression.typing import common_unit, unit_of
from forewarn.abstractions.vocabularies.units import PLAIN, Unit

Columns = Mapping[str, NDArray[Any]]
Booleans = NDArray[np.bool_]

_FOLDS = {"min": np.minimum, "max": np.maximum}


def evaluate(node: Expression, columns: Columns) -> Booleans:
    """Where the expression holds; raises KeyError for a missing column."""
    match node:
        case Constant(value=value):
            return np.asarray(value)
        case Name(name=name):
            return _truth(columns[name], name)
        case ObjectPredicate():
            return _truth(columns[repr(node)], repr(node))
        case IsNone(operand=Name(name=name)):
            return _is_none(columns[name])
        case Not(operand=operand):
            return ~evaluate(operand, columns)
        case And(parts=parts):
            return reduce(np.logical_and, [evaluate(part, columns) for part in parts])
        case Or(parts=parts):
            return reduce(np.logical_or, [evaluate(part, columns) for part in parts])
        case Implies(left=left, right=right):
            return ~evaluate(left, columns) | evaluate(right, columns)
        case Compare():
            return _compare(node, columns)
    raise TypeError(f"{node!r} has no truth value in a frame")


def _truth(column: NDArray[Any], name: str) -> Booleans:
    if column.dtype == bool:
        return column
    numbers = _numbers(column, name)
    return np.asarray((numbers != 0) & (numbers == numbers))


def _numbers(column: NDArray[Any], name: str) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(column, np.float64)
    except (TypeError, ValueError):
        raise SignalFault(f"{name} holds what is not a number") from None
    if np.isinf(numbers).any():
        frame = int(np.flatnonzero(np.isinf(numbers))[0])
        raise SignalFault(f"{name} is {numbers[frame]}, not a finite number")
    return numbers


def _is_none(column: NDArray[Any]) -> Booleans:
    if column.dtype == object:
        return np.array([value is None for value in column], dtype=bool)
    return np.asarray(column != column)


def _compare(node: Compare, columns: Columns) -> Booleans:
    compare, left, right = OPERATORS[node.operator], node.left, node.right
    if isinstance(left, Name) and isinstance(right, Text):
        column = columns[left.name]
        held = np.asarray(compare(column, right.value), dtype=bool)
        return held & ~_is_none(column) if node.operator == "!=" else held
    bound = constant_in(right, left)
    if isinstance(left, Name) and bound is not None:
        column = _numbers(columns[left.name], left.name)
        held = np.asarray(compare(column, bound))
        # NaN stands for none, and `nan != x` is the one comparison that holds.
        return held & (column == column) if node.operator == "!=" else held
    unit = common_unit(node)
    with np.errstate(all="ignore"):
        one, two = quantity(left, unit, columns), quantity(right, unit, columns)
    held = np.asarray(compare(one, two))
    return held & (one == one) & (two == two) if node.operator == "!=" else held


def quantity(node: Expression, target: Unit | None, columns: Columns) -> Any:
    """The numbers in the unit `target`; NaN for none."""
    factor = float(ratio(unit_of(node), target))
    match node:
        case Number():
            return np.float64(converted(node, target))
        case Name(name=name):
            return _numbers(_numbers(columns[name], name) * factor, name)
        case Past():
            return _numbers(columns[repr(node)] * factor, repr(node))
        case Curve():
            return _curve(node, target, columns)
        case Choice(condition=condition, holding=holding, otherwise=otherwise):
            parts = [quantity(x, target, columns) for x in (holding, otherwise)]
            return np.where(evaluate(condition, columns), *parts)
        case Negative(operand=operand):
            return -quantity(operand, target, columns)
        case Arithmetic(operator=symbol, left=left, right=right) if symbol in "*/":
            parts = [quantity(x, unit_of(x) or PLAIN, columns) for x in (left, right)]
            return _computed(OPERATORS[symbol](*parts) * factor, parts)
        case Arithmetic(operator=symbol, left=left, right=right):
            parts = [quantity(operand, target, columns) for operand in (left, right)]
            return _computed(OPERATORS[symbol](*parts), parts)
        case Call(function=function, arguments=arguments):
            parts = [quantity(operand, target, columns) for operand in arguments]
            return reduce(_FOLDS[function], parts) if parts[1:] else np.abs(parts[0])
    raise TypeError(f"{node!r} is not a number")


def _curve(node: Curve, target: Unit | None, columns: Columns) -> Any:
    numbers = quantity(node.operand, unit_of(node.operand) or PLAIN, columns)
    absent = np.float64(math.nan)
    if node.absent is not None:
        absent = quantity(node.absent, target, columns)
    steps = [quantity(value, target, columns) for value in node.values]
    step = np.searchsorted(bounds_of(node), numbers, side="right")
    known = numbers == numbers
    if all(np.ndim(value) == 0 for value in steps):
        found = np.array(steps)[np.where(known, step, 0)]
    else:
        found = np.select([step == i for i in range(len(steps))], steps)
    return np.where(known, found, absent)


def _computed(result: Any, operands: list[Any]) -> Any:
    """The result; a fault where it is not finite though no operand is none."""
    bad = ~np.isfinite(result)
    if bad.any() and (bad & ~np.isnan(sum(operands))).any():
        raise SignalFault("a division by zero, or a result that is not finite")
    return result

"""Expressions over whole columns: the same meaning as `scalar`, in numpy.

A column of numbers is float64 with NaN for `none`; a column of enum values is an
object array with None for `none`; a Boolean column is bool or 0/1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.expression.scalar import OPERATORS, constant_in, ratio
from forewarn.abstractions.expression.tree import (
    And,
    Arithmetic,
    Call,
    Compare,
    Constant,
    Expression,
    Implies,
    IsNone,
    Name,
    Negative,
    Not,
    Number,
    ObjectPredicate,
    Or,
    Text,
)
from forewarn.abstractions.expression.typing import common_unit, unit_of
from forewarn.abstractions.units import PLAIN, Unit

Columns = Mapping[str, NDArray[Any]]
Booleans = NDArray[np.bool_]

_FOLDS = {"abs": np.abs, "min": np.minimum, "max": np.maximum}


def evaluate(node: Expression, columns: Columns) -> Booleans:
    """Where the expression holds; raises KeyError for a missing column."""
    match node:
        case Constant(value=value):
            return np.asarray(value)
        case Name(name=name):
            return _truth(columns[name])
        case ObjectPredicate():
            return _truth(columns[repr(node)])
        case IsNone(operand=Name(name=name)):
            return _is_none(columns[name])
        case Not(operand=operand):
            return ~evaluate(operand, columns)
        case And(parts=parts):
            held = [evaluate(part, columns) for part in parts]
            return np.asarray(np.logical_and.reduce(held))
        case Or(parts=parts):
            held = [evaluate(part, columns) for part in parts]
            return np.asarray(np.logical_or.reduce(held))
        case Implies(left=left, right=right):
            return ~evaluate(left, columns) | evaluate(right, columns)
        case Compare():
            return _compare(node, columns)
    raise TypeError(f"{node!r} has no truth value in a frame")


def _truth(column: NDArray[Any]) -> Booleans:
    if column.dtype == object:
        return np.array([bool(value) for value in column], dtype=bool)
    if column.dtype == bool:
        return column
    return np.asarray((column != 0) & (column == column))


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
        column = columns[left.name]
        held = np.asarray(compare(column, bound))
        # NaN stands for none, and `nan != x` is the one comparison that holds.
        return held & (column == column) if node.operator == "!=" else held
    unit = common_unit(node)
    one, two = _quantity(left, unit, columns), _quantity(right, unit, columns)
    held = np.asarray(compare(one, two))
    return held & (one == one) & (two == two) if node.operator == "!=" else held


def _quantity(node: Expression, target: Unit | None, columns: Columns) -> Any:
    factor = float(ratio(unit_of(node), target))
    match node:
        case Number(value=value):
            return value * factor
        case Name(name=name):
            return columns[name] * factor if factor != 1 else columns[name]
        case Negative(operand=operand):
            return -_quantity(operand, target, columns)
        case Arithmetic(operator=symbol, left=left, right=right) if symbol in "*/":
            parts = [_quantity(x, unit_of(x) or PLAIN, columns) for x in (left, right)]
            return OPERATORS[symbol](*parts) * factor
        case Arithmetic(operator=symbol, left=left, right=right):
            parts = [_quantity(operand, target, columns) for operand in (left, right)]
            return OPERATORS[symbol](*parts)
        case Call(function=function, arguments=arguments):
            first, *others = [_quantity(a, target, columns) for a in arguments]
            fold = _FOLDS[function]
            if not others:
                return fold(first)
            for other in others:
                first = fold(first, other)
            return first
    raise TypeError(f"{node!r} is not a number")

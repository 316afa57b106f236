"""The quantitative semantics of formulas: how far a law is from being broken.

A formula is true if its robustness is above 0, and false if it is below 0. The value is
the margin in the units of its comparisons; 0 is exactly on the boundary. The robustness
of a comparison is the distance to its limit; `and` and `always` take the minimum, `or`
and `eventually` the maximum. Boolean values and comparisons with `none` have no
distance, so their robustness is infinite, unless a degree is given.

Traces are finite: after the end, the last frame is repeated forever; before the
beginning, there are no frames.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from forewarn.abstractions.encoding import past_of
from forewarn.abstractions.errors import InvalidExpression
from forewarn.abstractions.expression.tree import (
    And,
    Compare,
    Expression,
    Implies,
    Name,
    Not,
    ObjectPredicate,
    Or,
    Text,
    common_unit,
)
from forewarn.abstractions.expression.vector import evaluate, quantity
from forewarn.monitors.laws.formula import (
    Always,
    Eventually,
    Formula,
    Historically,
    Interval,
    Next,
    Once,
    Past,
    Since,
    Until,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive frames, as columns.

    Args:
        columns: The columns of signals, in the form that `evaluate` reads, all of the
            same length.
        length: The number of frames.
        degrees: The margin by which each Boolean signal keeps its value; positive where
            it is true.
    """

    columns: Mapping[str, NDArray[Any]]
    length: int
    degrees: Mapping[str, Floats] = field(default_factory=dict)


_Degree = Callable[[Stretch], Floats]


class Robustness:
    """The robustness of one formula.

    Args:
        formula: The formula of a law, or any part of it.
        period_s: The time between two frames, in seconds.
    """

    def __init__(self, formula: Formula, period_s: float | None) -> None:
        if past_of([formula]):
            raise InvalidExpression(
                "the distance to violation is not defined for count[…]",
                mend="use a law without count[…]",
            )
        self._period_s = period_s
        # The number of steps after the end in which past operators may still change.
        self._tail = _reach(formula, period_s)
        self._degree = self._compiled(formula)

    def __call__(self, stretch: Stretch) -> Floats:
        """Returns the robustness at each frame."""
        return self._degree(stretch)[: stretch.length]

    def _compiled(self, node: Formula) -> _Degree:
        match node:
            case Not(operand=operand):
                inner = self._compiled(operand)
                return lambda stretch: -inner(stretch)
            case And(parts=parts):
                return _fold(np.minimum, [self._compiled(part) for part in parts])
            case Or(parts=parts):
                return _fold(np.maximum, [self._compiled(part) for part in parts])
            case Implies(left=left, right=right):
                return self._compiled(Or((Not(left), right)))
            case Next(operand=operand):
                inner = self._compiled(operand)
                return lambda stretch: _later(inner(stretch), 1)
            case Always(operand=operand, interval=interval):
                return self._compiled(Not(Eventually(Not(operand), interval)))
            case Historically(operand=operand, interval=interval):
                return self._compiled(Not(Once(Not(operand), interval)))
            case Eventually(operand=operand, interval=interval):
                inner, (low, high) = self._compiled(operand), self._steps(interval)
                return lambda stretch: _ahead(inner(stretch), low, high)
            case Once(operand=operand, interval=interval):
                inner, (low, high) = self._compiled(operand), self._steps(interval)
                return lambda stretch: _behind(inner(stretch), low, high)
            case Until(left=left, right=right, interval=interval):
                one, two = self._compiled(left), self._compiled(right)
                low, high = self._steps(interval)
                return lambda stretch: _until(one(stretch), two(stretch), low, high)
            case Since(left=left, right=right, interval=interval):
                one, two = self._compiled(left), self._compiled(right)
                low, high = self._steps(interval)
                return lambda stretch: _since(one(stretch), two(stretch), low, high)
        return lambda stretch: self._lasting(_degree(node, stretch))

    def _steps(self, interval: Interval) -> tuple[int, float]:
        low, high = interval.steps(self._period_s)
        return low, math.inf if high is None else high

    def _lasting(self, values: Floats) -> Floats:
        if not self._tail:
            return values
        return np.concatenate([values, np.full(self._tail, values[-1])])


def _reach(node: Formula, period_s: float | None) -> int:
    """Returns the number of steps for which a formula may still change after its
    operands are constant.
    """
    inner = max((_reach(child, period_s) for child in node.children), default=0)
    if isinstance(node, Past) and isinstance(node, Once | Historically | Since):
        low, high = node.interval.steps(period_s)
        return inner + (low if high is None else high)
    return inner


# -- conditions on one moment ---------------------------------------------------------


def _degree(node: Expression, stretch: Stretch) -> Floats:
    if isinstance(node, Compare) and not isinstance(node.right, Text):
        values = _distance(node, stretch)
    elif isinstance(node, Name | ObjectPredicate) and repr(node) in stretch.degrees:
        values = stretch.degrees[repr(node)]
    else:
        values = np.where(evaluate(node, stretch.columns), math.inf, -math.inf)
    return np.broadcast_to(values, stretch.length)


def _distance(node: Compare, stretch: Stretch) -> Floats:
    unit = common_unit(node)
    with np.errstate(all="ignore"):
        left = quantity(node.left, unit, stretch.columns)
        apart = left - quantity(node.right, unit, stretch.columns)
    match node.operator:
        case "<" | "<=":
            apart = -apart
        case "==":
            apart = -abs(apart)
        case "!=":
            apart = abs(apart)
    return np.where(np.isnan(apart), -math.inf, apart)


def _fold(choose: np.ufunc, parts: list[_Degree]) -> _Degree:
    return lambda stretch: reduce(choose, [part(stretch) for part in parts])


# -- temporal operators ------------------------------------------------------


def _later(values: Floats, steps: int) -> Floats:
    """Returns the values a number of steps ahead; the last value is repeated."""
    steps = min(steps, len(values) - 1)
    return np.concatenate([values[steps:], np.full(steps, values[-1])])


def _earlier(values: Floats, steps: int, before: float) -> Floats:
    """Returns the values a number of steps ago, with `before` for times before the
    first frame.
    """
    steps = min(steps, len(values))
    return np.concatenate([np.full(steps, before), values[: len(values) - steps]])


def _ahead(values: Floats, low: int, high: float) -> Floats:
    """Returns the maximum from `low` to `high` steps ahead."""
    last = len(values) - 1
    low, high = min(low, last), int(min(high, last))
    longer = np.concatenate([values[low:], np.full(high, values[-1])])
    return _windows(longer, high - low + 1)


def _behind(values: Floats, low: int, high: float) -> Floats:
    """Returns the maximum from `low` to `high` steps ago."""
    if low >= len(values):
        return np.full(len(values), -math.inf)
    high = int(min(high, len(values) - 1))
    longer = np.concatenate([np.full(high, -math.inf), values[: len(values) - low]])
    return _windows(longer, high - low + 1)


def _windows(values: Floats, length: int) -> Floats:
    """Returns the maximum of each window of this length."""
    greatest: Floats = sliding_window_view(values, length).max(axis=1)
    return greatest


def _until(left: Floats, right: Floats, low: int, high: float) -> Floats:
    best = np.full(len(left), -math.inf)
    held = np.full(len(left), math.inf)
    low = min(low, len(left))
    for step in range(int(min(high, max(low, len(left)))) + 1):
        if step >= low:
            best = np.maximum(best, np.minimum(held, _later(right, step)))
        held = np.minimum(held, _later(left, step))
    return best


def _since(left: Floats, right: Floats, low: int, high: float) -> Floats:
    best = np.full(len(left), -math.inf)
    held = np.full(len(left), math.inf)
    for step in range(int(min(high, len(left) - 1)) + 1):
        if step >= low:
            best = np.maximum(best, np.minimum(held, _earlier(right, step, -math.inf)))
        held = np.minimum(held, _earlier(left, step, math.inf))
    return best

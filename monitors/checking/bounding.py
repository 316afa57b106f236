"""Properties with bounds: what any chain within the intervals of a model could give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidProperty
from forewarn.monitors.chains.intervals import IntervalChain, robust_reach
from forewarn.monitors.checking.evaluation import Evaluator
from forewarn.monitors.checking.language.properties import (
    Probability,
    Quantified,
    StateFormula,
    Temporal,
    is_numeric,
    opposite,
    walk,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """The least and the greatest probability in every state."""

    low: Floats
    high: Floats


def bound(
    formula: StateFormula, evaluator: Evaluator, intervals: IntervalChain
) -> Bounds:
    """The bounds of `P=? [ ... ]` over all chains within the intervals.

    Raises:
        InvalidProperty: For a formula that asks for no number, or nests P, E or A,
            whose truth the intervals may leave open.
    """
    if not isinstance(formula, Probability) or not is_numeric(formula):
        raise InvalidProperty("--intervals bounds a number", mend="ask P=? [ ... ]")
    path = formula.path
    for part in (inner for operand in path.operands for inner in walk(operand)):
        if isinstance(part, Probability | Quantified):
            raise InvalidProperty(
                f"--intervals has no bounds for a formula inside: {part}",
                mend="--define a label for the states that you mean",
            )
    return Bounds(
        _extreme(path, evaluator, intervals, maximise=False),
        _extreme(path, evaluator, intervals, maximise=True),
    )


def _extreme(
    path: Temporal, evaluator: Evaluator, intervals: IntervalChain, *, maximise: bool
) -> Floats:
    if path.operator in "GWR":
        return 1.0 - _extreme(
            opposite(path), evaluator, intervals, maximise=not maximise
        )
    goal = evaluator.states(path.right)
    if path.operator == "X":
        return intervals.backup(goal.astype(np.float64), maximise=maximise)
    hold, within = evaluator.states(path.left), path.bound
    steps = None if within.high is None else within.high - within.low
    values = robust_reach(
        intervals, goal, steps, maximise=maximise, avoid=~(hold | goal)
    )
    for _ in range(within.low):
        values = np.where(hold, intervals.backup(values, maximise=maximise), 0.0)
    return np.clip(values, 0.0, 1.0)

"""Computes, for each state of a chain, the probability of reaching a goal at any time
or within a number of steps.

A path formula is a monitor with three states, so the solver of risks computes its
probability. Where the graph determines a probability, it is exactly 0 or 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.chains.absorption import ABOVE_0, BELOW_1
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.intervals import IntervalChain, RobustStep, robust_reach
from forewarn.monitors.risk.product import Ints, Reading
from forewarn.monitors.risk.reaching import Backup, ever, expectation, within

Mask: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """The path formula `hold U<=steps goal`, or its complement.

    Args:
        hold: The states that a path may visit before it reaches the goal.
        goal: The goal states.
        steps: The maximum number of steps; None for no limit.
        opposite: Whether this is the complement of the formula, as for `G`.
        next: Whether the goal must be the next state, as for `X`.
    """

    hold: Mask
    goal: Mask
    steps: int | None = None
    opposite: bool = False
    next: bool = False


_MOVING, _GOAL, _LOST = range(3)
_TABLE = np.array([[_MOVING, _GOAL, _LOST], [_GOAL] * 3, [_LOST] * 3])
"""The next state of a path's monitor, by its present state and the letter it reads."""

_HIT, _MISS = (0.0, 1.0, 0.0), (1.0, 0.0, 1.0)


def _letters(path: Path) -> Ints:
    """Returns the letter that a path's monitor reads in each state."""
    return np.where(path.goal, _GOAL, np.where(path.hold, _MOVING, _LOST))


def _within(step: Backup, path: Path, ends: tuple[float, float, float]) -> Floats:
    """Returns the expected value of a path's monitor after the path's steps, given the
    values of the monitor's states.
    """
    letters, steps = _letters(path), path.steps if path.steps is not None else 1
    start = np.repeat(np.array(ends)[:, None], len(letters), axis=1)
    begun = np.where(_TABLE[:, 0] == _MOVING, 1, -1)
    values = within(step, _TABLE[:, letters], start, begun, steps)
    found: Floats = values[_MOVING if path.next else letters, np.arange(len(letters))]
    return found


def likelihood(chain: Chain, path: Path) -> Floats:
    """Returns the probability of a path from every state: exactly 0 or 1 where the
    graph determines it, and strictly between 0 and 1 elsewhere.
    """
    letters, none = _letters(path), np.zeros(0, np.int64)
    reading = Reading(
        chain.indptr, chain.indices, np.arange(chain.transitions), letters, none,
        chain.n,
    )  # fmt: skip
    if path.steps is None and not path.next:
        found = ever(reading, chain.data, _TABLE, _GOAL)
        hit = found[letters, np.arange(chain.n)]
        miss = 1.0 - hit
    else:
        step = expectation(reading, chain.data)
        hit, miss = (_within(step, path, ends) for ends in (_HIT, _MISS))
    never, surely = hit == 0.0, miss == 0.0
    if path.opposite:
        hit, never, surely = 1.0 - hit, surely, never
    return np.select([never, surely], [0.0, 1.0], np.clip(hit, ABOVE_0, BELOW_1))


def bounds(intervals: IntervalChain, path: Path) -> tuple[Floats, Floats]:
    """Returns the minimum and maximum probability over chains in the intervals."""

    def extreme(maximise: bool) -> Floats:
        if path.next or path.steps is not None:
            return _within(RobustStep(intervals, maximise=maximise), path, _HIT)
        lost = ~(path.hold | path.goal)
        return robust_reach(intervals, path.goal, lost, maximise=maximise)

    low, high = (np.clip(extreme(way), 0.0, 1.0) for way in (False, True))
    return (1.0 - high, 1.0 - low) if path.opposite else (low, high)

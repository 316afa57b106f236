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
from forewarn.monitors.chains.intervals import IntervalChain, robust_reach
from forewarn.monitors.risk.product import Reading
from forewarn.monitors.risk.reaching import ever, expectation, within

Mask: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """The path formula `hold U<=steps goal`, or its complement.

    Args:
        hold: The states that a path may visit before it reaches the goal.
        goal: The goal states.
        steps: The maximum number of steps; None for no limit.
        opposite: Whether the complement is meant, as for `G`.
        next: Whether the goal must be the next state, as for `X`.
    """

    hold: Mask
    goal: Mask
    steps: int | None = None
    opposite: bool = False
    next: bool = False


_MOVING, _GOAL, _LOST = range(3)
_TABLE = np.array([[_MOVING, _GOAL, _LOST], [_GOAL] * 3, [_LOST] * 3])
"""The next state of a path's monitor, which reads what a path formula requires."""


def likelihood(chain: Chain, path: Path) -> Floats:
    """The probability of a path from every state: exactly 0 or 1 where the graph
    determines it, and strictly between 0 and 1 elsewhere.
    """
    letters = np.where(path.goal, _GOAL, np.where(path.hold, _MOVING, _LOST))
    states, none = np.arange(chain.n), np.zeros(0, np.int64)
    reading = Reading(
        chain.indptr, chain.indices, np.arange(chain.transitions), letters, none,
        chain.n,
    )  # fmt: skip
    if path.steps is None and not path.next:
        hit = ever(reading, chain.data, _TABLE, _GOAL)[letters, states]
        miss = 1.0 - hit
    else:
        step, after = expectation(reading, chain.data), _TABLE[:, letters]
        begun = np.where(_TABLE[:, 0] == _MOVING, 1, -1)
        hit, miss = (
            within(
                step, after, np.repeat(np.array(ends)[:, None], chain.n, axis=1),
                begun, path.steps if path.steps is not None else 1,
            )[_MOVING if path.next else letters, states]
            for ends in ((0.0, 1.0, 0.0), (1.0, 0.0, 1.0))
        )  # fmt: skip
    never, surely = hit == 0.0, miss == 0.0
    if path.opposite:
        hit, never, surely = 1.0 - hit, surely, never
    return np.select([never, surely], [0.0, 1.0], np.clip(hit, ABOVE_0, BELOW_1))


def bounds(intervals: IntervalChain, path: Path) -> tuple[Floats, Floats]:
    """The minimum and maximum probability over all chains within the intervals."""

    def extreme(maximise: bool) -> Floats:
        if path.next:
            goal = path.goal.astype(np.float64)
            return intervals.backup(goal, maximise=maximise)
        avoid = ~(path.hold | path.goal)
        return robust_reach(
            intervals, path.goal, path.steps, maximise=maximise, avoid=avoid
        )

    low, high = (np.clip(extreme(way), 0.0, 1.0) for way in (False, True))
    return (1.0 - high, 1.0 - low) if path.opposite else (low, high)

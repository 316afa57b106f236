"""Computes, for each state of a chain, the probability of reaching a goal at any time
or within a number of steps.

One linear solve computes the probability for all states with an error near 1e-13. This
method works even for chains that stay in the same state 997 times in 1000, for which
iterative methods stop far from the limit. Where the graph determines a probability, it
is exactly 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.chains.absorption import absorbed, row_sums
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.intervals import IntervalChain, robust_reach

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Mask: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

DENSE_STATES = 400
"""With at most this many states, dense matrices are faster than sparse ones."""


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


def likelihood(chain: Chain, path: Path) -> tuple[Floats, Mask]:
    """The probability of a path from every state, and the states whose value follows
    from the graph.
    """
    graph = _Graph(chain)
    if path.next:
        never, surely = ~graph.some(path.goal), graph.every(path.goal)
        hits = chain.data * path.goal[chain.indices]
        values = np.add.reduceat(hits, chain.indptr[:-1])
    elif path.steps is None:
        never = ~graph.may_reach(path.goal, path.hold)
        surely = ~graph.may_reach(never, path.hold & ~path.goal)
        values = _ever(chain, never, surely)
    else:
        never = ~graph.within(graph.some, path)
        surely = graph.within(graph.every, path)
        values = _within(chain, path.hold & ~path.goal, path.goal, path.steps)
    values = np.clip(values, 0.0, 1.0)
    values[never], values[surely] = 0.0, 1.0
    return 1.0 - values if path.opposite else values, never | surely


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


class _Graph:
    """The transition graph of a chain, without probabilities."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    @cached_property
    def _incoming(self) -> tuple[Ints, Ints]:
        """The sources of transitions by target, and the start of each group."""
        chain = self._chain
        sources = chain.sources()[np.argsort(chain.indices, kind="stable")]
        counts = np.bincount(chain.indices, minlength=chain.n)
        return sources, np.concatenate(([0], np.cumsum(counts)))

    def some(self, target: Mask) -> Mask:
        """States with a successor in the target."""
        inside, chain = target[self._chain.indices], self._chain
        found: Mask = np.logical_or.reduceat(inside, chain.indptr[:-1])
        return found

    def every(self, target: Mask) -> Mask:
        """States with no successor outside the target."""
        return ~self.some(~target)

    def may_reach(self, goal: Mask, through: Mask) -> Mask:
        """States with a path to the goal whose earlier states lie in `through`."""
        sources, begin = self._incoming
        found, frontier = goal.copy(), np.flatnonzero(goal)
        while frontier.size:
            first, counts = begin[frontier], np.diff(begin)[frontier]
            offset = np.repeat(first - np.cumsum(counts) + counts, counts)
            before = np.unique(sources[offset + np.arange(counts.sum())])
            frontier = before[through[before] & ~found[before]]
            found[frontier] = True
        return found

    def within(self, before: Callable[[Mask], Mask], path: Path) -> Mask:
        """States from which some path, or every path, satisfies a path formula with a
        horizon.
        """
        found = path.goal
        for _ in range(path.steps or 0):
            further = path.goal | (path.hold & before(found))
            if np.array_equal(further, found):
                break
            found = further
        return found


def _within(chain: Chain, moving: Mask, goal: Mask, steps: int) -> Floats:
    """Iterates backwards; each moving state gets the expected value of its
    successors.
    """
    n, values = chain.n, goal.astype(np.float64)
    dense = n <= DENSE_STATES
    matrix = _dense(chain, moving, goal) if dense else _sparse(chain, moving, goal)
    if isinstance(matrix, np.ndarray) and steps > 2 * n * steps.bit_length():
        while steps:
            if steps & 1:
                values = matrix @ values
            matrix, steps = matrix @ matrix, steps >> 1
        return values
    for _ in range(steps):
        further = matrix @ values
        if np.array_equal(further, values):
            break
        values = further
    return values


def _dense(chain: Chain, moving: Mask, kept: Mask) -> Floats:
    matrix = np.diag(kept.astype(np.float64))
    sources = chain.sources()
    matrix[sources, chain.indices] += chain.data * moving[sources]
    return matrix


def _sparse(chain: Chain, moving: Mask, kept: Mask) -> csr_array:
    from scipy.sparse import csr_array, diags_array

    weights = chain.data * moving[chain.sources()]
    rows = csr_array((weights, chain.indices, chain.indptr), (chain.n, chain.n))
    return csr_array(rows + diags_array(kept.astype(np.float64)))


def _ever(chain: Chain, never: Mask, surely: Mask) -> Floats:
    """Solves for the states whose value does not follow from the graph."""
    values = surely.astype(np.float64)
    unknown = np.flatnonzero(~(never | surely))
    if not unknown.size:
        return values
    place = np.full(chain.n, -1)
    place[unknown] = np.arange(unknown.size)
    sources = chain.sources()
    moves = place[sources] >= 0
    source, target = place[sources[moves]], chain.indices[moves]
    weight, inside = chain.data[moves], place[target] >= 0
    left = row_sums(source[~inside], weight[~inside], unknown.size)
    won = surely[target]
    hit = row_sums(source[won], weight[won], unknown.size)
    values[unknown] = absorbed(
        source[inside], place[target[inside]], weight[inside], left, hit
    )
    return values

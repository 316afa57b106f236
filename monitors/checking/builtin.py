"""The built-in engine: one linear solve for all states, products for bounded steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.chains.absorption import absorbed, row_sums
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.checking.engines import Until
from forewarn.monitors.checking.graphs import Mask

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

DENSE_STATES = 400
"""Up to so many states, full matrices are faster than sparse ones."""


class Builtin:
    """Answers in doubles, with an error near 1e-13 also where nearly everything stays.

    What only iteration can solve is within 1e-10, or refused. No value iteration
    without a horizon: chains learned from driving stay where they are 997 times in
    1000, and iteration stops far from its limit.
    """

    name = "builtin"
    exact = False

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._sources = chain.sources()

    def next(self, target: Mask) -> Floats:
        chain = self._chain
        hits = chain.data * target[chain.indices]
        return np.add.reduceat(hits, chain.indptr[:-1])

    def until(self, question: Until) -> Floats:
        hold, goal = question.hold, question.goal
        if question.high is None:
            values = self._ever(question.never, question.surely)
        else:
            steps = question.high - question.low
            values = self._back(goal.astype(np.float64), hold & ~goal, goal, steps)
        return self._back(values, hold, np.zeros_like(hold), question.low)

    def _back(self, values: Floats, moving: Mask, kept: Mask, steps: int) -> Floats:
        """So many steps backwards: moving states take the mean of their successors.

        States that are kept keep their value, all others become 0.
        """
        n = self._chain.n
        if steps > 2 * n * steps.bit_length() and n <= DENSE_STATES:
            return _power(self._dense(moving, kept), values, steps)
        dense = n <= DENSE_STATES
        matrix = self._dense(moving, kept) if dense else self._sparse(moving, kept)
        for _ in range(steps):
            further = matrix @ values
            if np.array_equal(further, values):
                break
            values = further
        return values

    def _dense(self, moving: Mask, kept: Mask) -> Floats:
        matrix = np.diag(kept.astype(np.float64))
        weights = self._chain.data * moving[self._sources]
        matrix[self._sources, self._chain.indices] += weights
        return matrix

    def _sparse(self, moving: Mask, kept: Mask) -> csr_array:
        from scipy.sparse import csr_array, diags_array

        chain = self._chain
        weights = chain.data * moving[self._sources]
        rows = csr_array((weights, chain.indices, chain.indptr), (chain.n, chain.n))
        return csr_array(rows + diags_array(kept.astype(np.float64)))

    def _ever(self, never: Mask, surely: Mask) -> Floats:
        """Solves for the states that the graph does not settle."""
        chain, values = self._chain, surely.astype(np.float64)
        unknown = np.flatnonzero(~(never | surely))
        if not unknown.size:
            return values
        place = np.full(chain.n, -1)
        place[unknown] = np.arange(unknown.size)
        moves = place[self._sources] >= 0
        source, target = place[self._sources[moves]], chain.indices[moves]
        weight, inside = chain.data[moves], place[target] >= 0
        left = row_sums(source[~inside], weight[~inside], unknown.size)
        won = surely[target]
        hit = row_sums(source[won], weight[won], unknown.size)
        values[unknown] = absorbed(
            source[inside], place[target[inside]], weight[inside], left, hit
        )
        return np.clip(values, 0.0, 1.0)


def _power(matrix: Floats, values: Floats, steps: int) -> Floats:
    """The matrix applied so many times, by squaring it."""
    while steps:
        if steps & 1:
            values = matrix @ values
        matrix, steps = matrix @ matrix, steps >> 1
    return values

"""The built-in engine: one linear solve for all states, products for bounded steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.checking.engines import Until
from forewarn.monitors.checking.graphs import Mask

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

Floats = NDArray[np.float64]

DENSE_STATES = 400
"""Up to so many states, full matrices are faster than sparse ones."""

LARGE = 3_000
"""From so many unknowns on, a factorisation is only the second choice."""

SOUND = 1e-10
"""The largest error that an iterated solution may have."""


class Builtin:
    """Answers in doubles, with an error near 1e-13 also where nearly everything stays.

    No value iteration without a bound: chains learned from driving stay where they
    are 997 times in 1000, and iteration stops far from its limit.
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
        """Solves for the states that the graph does not settle.

        The diagonal is the sum of what leaves a state, not one minus what stays: no
        digits are lost where nearly everything stays.
        """
        chain, values = self._chain, surely.astype(np.float64)
        unknown = np.flatnonzero(~(never | surely))
        if not unknown.size:
            return values
        place = np.full(chain.n, -1)
        place[unknown] = np.arange(unknown.size)
        moves = (place[self._sources] >= 0) & (self._sources != chain.indices)
        source, target = place[self._sources[moves]], chain.indices[moves]
        leaving = np.bincount(source, chain.data[moves], unknown.size)
        share = chain.data[moves] / leaving[source]
        known = np.zeros(unknown.size)
        np.add.at(known, source, share * surely[target])
        inside = place[target] >= 0
        cells = (source[inside], place[target[inside]])
        values[unknown] = _solve(cells, share[inside], known)
        return np.clip(values, 0.0, 1.0)


def _solve(
    cells: tuple[NDArray[np.int64], ...], share: Floats, known: Floats
) -> Floats:
    """The x with x = A x + known, A given by its cells."""
    size = known.size
    if size <= DENSE_STATES:
        matrix = np.eye(size)
        matrix[cells] -= share
        return np.asarray(np.linalg.solve(matrix, known), np.float64)
    from scipy.sparse import coo_array, eye_array
    from scipy.sparse.linalg import splu

    system = (eye_array(size) - coo_array((share, cells), (size, size))).tocsc()
    if size > LARGE:
        iterated = _iterate(system, known)
        if iterated is not None:
            return iterated
    solution: Floats = splu(system).solve(known)
    return solution


def _iterate(system: csc_array, known: Floats) -> Floats | None:
    """A solution without factors, if its error is known to be small; else None.

    Well-mixed chains fill the factors beyond any memory, and just there iteration
    ends quickly. The error is what the residual amounts to, solved for in its turn.
    """
    from scipy.sparse.linalg import bicgstab

    found, residual, size = np.zeros(known.size), known, 1.0
    while size > 1e-15:
        # Scaled, because the solver takes small numbers for a breakdown.
        step, _ = bicgstab(system, residual / size, rtol=1e-6, maxiter=100)
        found += size * step
        residual, before = known - system @ found, size
        size = float(np.abs(residual).max())
        if size > before / 10:
            break
    rest = np.abs(residual) + np.finfo(float).eps
    error, failed = bicgstab(system, rest / rest.max(), rtol=1e-3, maxiter=200)
    good = not failed and error.min() >= 0.0 and rest.max() * error.max() <= SOUND / 2
    return found if good else None


def _power(matrix: Floats, values: Floats, steps: int) -> Floats:
    """The matrix applied so many times, by squaring it."""
    while steps:
        if steps & 1:
            values = matrix @ values
        matrix, steps = matrix @ matrix, steps >> 1
    return values

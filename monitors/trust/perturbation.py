"""How far a reachability probability is off when the rows of a chain are off.

Two answers. The paper's: `Conditioning`, with B = l / Cond. Ours: the expected number
of steps in which the target is still open. If x and y are the probabilities in the true
and the learned chain, then x - y = (I - Q)^-1 (P - P') x', with Q the learned chain on
the open states and x' within [0, 1]; so each row's total variation counts as often as
that row is expected to be used. A row that may lead to where nobody has been is off by
that much more, and the target may then be reached from where it never was. The paper's
needs the two chains to have the same support.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import TooLarge
from forewarn.monitors.chains.absorption import absorbed
from forewarn.monitors.chains.chain import Chain

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from forewarn.monitors.laws.automaton import Automaton

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_DENSE = 300
MAX_TRANSITIONS = 5_000_000
"""The largest product of a chain and a law whose rows are weighed."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A set to be reached in a chain, or in its product with a monitor.

    Args:
        name: What its probability is of: "reaching s3", "a violation".
        matrix: The rows of the chain or product.
        goal: The states that are the target.
        origin: The row of the learned chain that each state moves by.
        asked: The states whose probability is asked for.
        settled: The states from which it cannot be reached, whatever the rows are.
    """

    name: str
    matrix: Floats | csr_array
    goal: Bools
    origin: Ints
    asked: Bools
    settled: Bools | None = None

    def open_states(self, open_rows: Bools | None = None) -> Bools:
        """States outside the target with a path to it, or to a row that is open."""
        seeds = self.goal
        if open_rows is not None:
            seeds = seeds | open_rows[self.origin]
        found = self._reaching(seeds) & ~self.goal
        return found if self.settled is None else found & ~self.settled

    def staying(self, within: Bools) -> Bools:
        """States from which one may come to where these states are never left."""
        leaves = self.matrix @ (~within).astype(np.float64) > 0.0
        return self._reaching(within & ~self._reaching(leaves & within, within), within)

    def _reaching(self, seeds: Bools, through: Bools | None = None) -> Bools:
        """States with a path to the seeds, these included."""
        found = seeds
        while True:
            further = self.matrix @ found.astype(np.float64) > 0.0
            further = found | (further if through is None else further & through)
            if np.array_equal(further, found):
                return found
            found = further


def state_target(chain: Chain, states: Sequence[int], name: str = "") -> Target:
    """The target of reaching any of some states of the chain."""
    goal = np.zeros(chain.n, bool)
    goal[list(states)] = True
    matrix = chain.dense() if chain.n <= _DENSE else chain.sparse()
    named = name or " or ".join(chain.states[i] for i in states)
    return Target(
        f"reaching {named}", matrix, goal, np.arange(chain.n), np.ones(chain.n, bool)
    )


def law_target(
    chain: Chain, letters: Ints, automaton: Automaton, name: str = "a violation"
) -> Target:
    """The target of violating a law, in the product of the chain and its monitor.

    Args:
        chain: The learned chain.
        letters: The column of `automaton.step` that each state is read as.
        automaton: The law's monitor.
        name: What the violation is called.
    """
    from scipy.sparse import csr_array

    from forewarn.monitors.risk.product import consistent_pairs, read_chain

    reading = read_chain(chain.indptr, chain.indices, chain.end, letters, automaton)
    states, monitor_states = reading.n, automaton.step.shape[0]
    if monitor_states * len(reading.indices) > MAX_TRANSITIONS:
        raise TooLarge(
            f"the product with the law has {monitor_states * len(reading.indices):,} "
            f"transitions; the limit for weighing its rows is {MAX_TRANSITIONS:,}",
            mend="use a coarser clock",
        )
    step = automaton.step[:, reading.letters].astype(np.int64)
    lengths = np.diff(reading.indptr)
    matrix = csr_array(
        (
            np.tile(reading.weights(chain.data), monitor_states),
            (step[:, reading.indices] * states + reading.indices).ravel(),
            np.append(0, np.cumsum(np.tile(lengths, monitor_states))),
        ),
        shape=(monitor_states * states, monitor_states * states),
    )
    goal = np.repeat(np.arange(monitor_states) == automaton.violated, states)
    asked = consistent_pairs(automaton, reading.letters, None)
    if automaton.violated >= 0:
        # A broken law stays broken; that says nothing of the state.
        breaking = step[np.arange(monitor_states) != automaton.violated]
        asked[automaton.violated] = (breaking == automaton.violated).any(axis=0)
    origin = np.arange(states)
    if chain.end is not None:
        origin[reading.ends] = chain.end
    return Target(
        name,
        matrix,
        goal,
        np.tile(origin, monitor_states),
        asked.ravel(),
        np.repeat(automaton.left < 0, states),
    )


@dataclass(frozen=True, slots=True)
class Conditioning:
    """The paper's condition number for one target state.

    Within `steps` (the least number for which this can be said) every open state is
    left with at least `probability`.
    """

    target: str
    steps: int
    probability: float

    @property
    def factor(self) -> float:
        """B = l / Cond."""
        return self.steps / self.probability if self.probability > 0.0 else np.inf


def conditioning(target: Target) -> Conditioning | None:
    """The condition number of a target; None where no other state can reach it."""
    remaining = target.open_states()
    if not remaining.any():
        return None
    left = (~remaining).astype(np.float64)
    least, steps = 0.0, 0
    # The farthest state is as many steps away as there are states, at most; longer
    # searches mean that the probability is too small for a double.
    while least == 0.0 and steps <= len(remaining):
        left = np.where(remaining, target.matrix @ left, 1.0)
        least, steps = float(left[remaining].min()), steps + 1
    return Conditioning(target.name, steps, least)


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """How the rows' errors add up on the way to a target.

    Args:
        steps: T, the greatest expected number of steps while the target is open;
            infinite where it may stay open for ever.
        errors: For each state of the target's chain, the most by which its
            probability is off, given the rows' total variations.
        rows: The rows of the learned chain that matter at all.
    """

    steps: float
    errors: Floats
    rows: Bools


def spread(
    target: Target,
    variation: Floats,
    horizon: int | None = None,
    open_rows: Bools | None = None,
) -> Spread:
    """Weighs the total variation of each row by how often the row is used.

    Args:
        target: What is to be reached.
        variation: For each row of the learned chain, how far it may be off.
        horizon: Reaching it within so many steps; None means ever.
        open_rows: The rows that may lead to where they were never seen to.
    """
    remaining = target.open_states(open_rows)
    rows = np.zeros(len(variation), bool)
    errors = np.zeros(len(remaining))
    if not remaining.any():
        return Spread(0.0, errors, rows)
    rows[target.origin[remaining]] = True
    longest = 0.0
    if horizon is None:
        endless = target.staying(remaining)
        errors[endless], remaining = np.inf, remaining & ~endless
        longest = np.inf if (endless & target.asked).any() else 0.0
    names = np.flatnonzero(remaining)
    inner = target.matrix[names][:, names]
    one_step = np.stack([np.ones(len(names)), variation[target.origin[names]]], axis=1)
    if horizon is None:
        outside = (~remaining).astype(np.float64)
        total = _ever(inner, target.matrix[names] @ outside, one_step)
    else:
        total = np.zeros_like(one_step)
        for _ in range(horizon):
            further: Floats = one_step + inner @ total
            if np.array_equal(further, total):
                break
            total = further
    errors[names] = total[:, 1]
    steps = float(total[target.asked[names], 0].max(initial=longest))
    return Spread(steps, errors, rows)


def _ever(inner: Floats | csr_array, left: Floats, one_step: Floats) -> Floats:
    """The sum of what each step adds, until the states are left."""
    from scipy.sparse import coo_array

    graph = coo_array(inner)
    source, target = (each.astype(np.int64) for each in graph.coords)
    return absorbed(source, target, graph.data, left, one_step)

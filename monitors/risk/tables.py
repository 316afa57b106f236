"""Risk tables: the risk of breaking a law for each chain state and monitor state.

A guard's risk within H counts obligations that are pending now, or arise within the
next H steps. It is the probability V_H(s, q) that one of them is later broken. Here
V_h(s, q) = sum P(s, s') V_h-1(s', q'), and q' is q after reading s'. V_0(s, q) is the
probability that an obligation pending in q is broken, without new obligations. The
literal risk, "violated within H steps" (`violation_within`), is 0 while the deadline
lies beyond H. For invariants, the two risks agree.

Tables are computed when a model is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forewarn.abstractions.errors import InvalidInput, TooLarge
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.intervals import MAX_CELLS, IntervalChain, RobustStep
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.risk.first_visits import FirstVisits
from forewarn.monitors.risk.product import (
    Bools,
    Floats,
    Ints,
    Reading,
    consistent_pairs,
    read_chain,
)
from forewarn.monitors.risk.reaching import (
    Backup,
    ever,
    expectation,
    plan_elimination,
    sweep,
    within,
)

BROKEN = 1
"""The row of `Automaton.complete` for a broken obligation."""

NEVER = -1

ROBUST_SWEEPS = 10_000
ROBUST_TOLERANCE = 1e-10

MAX_WORK = 8_000_000_000
"""The maximum product of transitions, monitor states and steps, which takes a minute
or more to compute.
"""

MAX_ROBUST_WORK = 800_000_000
"""The maximum product for bounds, where every row is padded to the length of the
longest row.
"""


@dataclass(frozen=True, slots=True, eq=False)
class RiskTable:
    """The risk of one law for each pair; arrays are indexed by [monitor state, chain
    state].

    Args:
        automaton: The law's monitor.
        states: The names of the chain's states.
        end: The index of END, if there is one.
        letters: For each state, the column of its letter in the automaton's tables.
        horizon_steps: The horizon H, in steps.
        point: The point estimate of the risk within H.
        low: The lower bound on the risk. If training runs visited the pair, the bound
            comes from first visits; otherwise, it is the minimum risk over all chains
            within the intervals.
        high: The upper bound on the risk, from the same sources.
        consistent: The pairs that can occur.
        observed: The pairs whose bounds come from first visits.
    """

    automaton: Automaton
    states: tuple[str, ...]
    end: int | None
    letters: Ints
    horizon_steps: int
    point: Floats
    low: Floats | None
    high: Floats | None
    consistent: Bools
    observed: Bools

    @property
    def n(self) -> int:
        return len(self.states)

    def lookup(self, monitor_state: int, state: int) -> float:
        """Returns the estimated risk of a pair."""
        return float(self.point[monitor_state, state])

    def bounds(self, monitor_state: int, state: int) -> tuple[float, float] | None:
        """Returns the lower and upper bound on the risk of a pair, if the table has
        bounds.
        """
        if self.low is None or self.high is None:
            return None
        pair = (monitor_state, state)
        return float(self.low[pair]), float(self.high[pair])


def solve_risk(
    chain: Chain,
    letters_of_state: Ints,
    automaton: Automaton,
    horizon_steps: int,
    intervals: IntervalChain | None = None,
    *,
    first: FirstVisits | None = None,
    delta: float = 0.05,
) -> RiskTable:
    """Precomputes the risk of a law, with bounds, for a guard.

    Args:
        chain: The chain; obligations pending at its END are decided by repeating the
            last state.
        letters_of_state: The result of `evidence.letters_of_states`.
        automaton: The law's monitor.
        horizon_steps: The horizon H, in steps.
        intervals: Bounds on the chain's probabilities, for `low` and `high`.
        first: The first visits of training runs, for `low` and `high`.
        delta: The error probability of the bounds from first visits.
    """
    if intervals is not None and intervals.states != chain.states:
        raise InvalidInput("the intervals were not computed for this chain")
    low, high = (
        None
        if intervals is None
        else guard_bound(
            intervals, chain.end, letters_of_state, automaton, horizon_steps, maximise
        )
        for maximise in (False, True)
    )
    point = guard_risk(chain, letters_of_state, automaton, horizon_steps)
    consistent = consistent_pairs(automaton, letters_of_state, chain.end)
    observed = np.zeros(consistent.shape, dtype=bool)
    if first is not None:
        possible = short_of_violation(consistent, automaton)
        if chain.end is not None:
            possible[:, chain.end] = False
        least, greatest = first.bounds(possible, delta)
        observed = ~np.isnan(least)
        low = np.where(observed, least, 0.0 if low is None else low)
        high = np.where(observed, greatest, 1.0 if high is None else high)
    if low is not None and high is not None:
        # A strongly smoothed estimate may lie outside the bounds; widening keeps them
        # valid.
        low, high = np.minimum(low, point), np.maximum(high, point)
    return RiskTable(
        automaton=automaton,
        states=chain.states,
        end=chain.end,
        letters=letters_of_state,
        horizon_steps=horizon_steps,
        point=point,
        low=low,
        high=high,
        consistent=consistent,
        observed=observed,
    )


def short_of_violation(pairs: Bools, automaton: Automaton) -> Bools:
    """Returns the given pairs, except those in which the law is broken."""
    left = pairs.copy()
    left[automaton.violated] &= automaton.violated < 0
    return left


def violation_ever(chain: Chain, letters: Ints, automaton: Automaton) -> Floats:
    """Returns the probability that the law is ever violated, by [monitor state, chain
    state].
    """
    reading = read_chain(chain.indptr, chain.indices, chain.end, letters, automaton)
    values = ever(
        reading, reading.weights(chain.data), automaton.step, automaton.violated
    )
    return reading.restore(values)


def violation_within(
    chain: Chain, letters: Ints, automaton: Automaton, steps: int
) -> Floats:
    """Returns the probability that the law is violated within a number of steps."""
    reading = read_chain(chain.indptr, chain.indices, chain.end, letters, automaton)
    _check_work(automaton, reading.indices.size, steps, MAX_WORK)
    step = expectation(reading, reading.weights(chain.data))
    start = np.zeros((len(automaton.step), reading.n))
    if automaton.violated >= 0:
        start[automaton.violated] = 1
    soonest = np.where(automaton.left > 0, automaton.left, NEVER)
    return _run(reading, step, automaton, start, soonest, steps)


def guard_risk(chain: Chain, letters: Ints, automaton: Automaton, steps: int) -> Floats:
    """Returns the estimated risk within a number of steps, by [monitor state, chain
    state].
    """
    reading = read_chain(chain.indptr, chain.indices, chain.end, letters, automaton)
    _check_work(automaton, reading.indices.size, steps, MAX_WORK)
    unmet = ever(reading, reading.weights(chain.data), automaton.complete, BROKEN)
    step = expectation(reading, reading.weights(chain.data))
    at_once = np.where(automaton.left > 0, 0, NEVER)
    return _run(reading, step, automaton, unmet[automaton.owed], at_once, steps)


def guard_bound(
    intervals: IntervalChain,
    end: int | None,
    letters: Ints,
    automaton: Automaton,
    steps: int,
    maximise: bool,
) -> Floats:
    """Returns the minimum or maximum risk over all chains within the intervals.

    If obligations may stay pending forever, the part beyond H is computed by iteration
    from a safe starting value, which stops after 10,000 sweeps or at the work limit.
    The bound is then valid, but may be loose.
    """
    reading = read_chain(intervals.indptr, intervals.indices, end, letters, automaton)
    cells = _check_work(
        automaton, intervals.successors.size, steps, MAX_ROBUST_WORK, MAX_CELLS
    )
    names = (str(i) for i in range(reading.n))
    split = IntervalChain(
        states=tuple(names),
        indptr=reading.indptr,
        indices=reading.indices,
        low=reading.weights(intervals.low),
        high=reading.weights(intervals.high),
        unseen=_unseen(intervals, reading),
    )
    sweeps = min(ROBUST_SWEEPS, MAX_ROBUST_WORK // max(cells, 1))
    unmet = _unmet_bound(reading, split, automaton, maximise, sweeps)
    step = RobustStep(split, maximise=maximise)
    at_once = np.where(automaton.left > 0, 0, NEVER)
    return _run(reading, step, automaton, unmet[automaton.owed], at_once, steps)


def _check_work(
    automaton: Automaton, each: int, steps: int, most: int, held: int | None = None
) -> int:
    """Returns the number of cells of a step; raises an error if solving would take too
    long.

    Args:
        automaton: The monitor; only its live states count.
        each: The number of cells per live state.
        steps: The number of steps.
        most: The maximum number of cells in total.
        held: The maximum number of cells in memory at a time.
    """
    states = int(np.count_nonzero(automaton.left > 0))
    cells = states * each
    if cells * steps > most or (held is not None and cells > held):
        raise TooLarge(
            f"{states:,} monitor states with {each:,} transitions each, over {steps:,}"
            " steps, take more than a minute to solve",
            mend="use a shorter horizon, a coarser clock or fewer predicates",
        )
    return cells


def _unseen(intervals: IntervalChain, reading: Reading) -> Floats | None:
    """Returns the probability of unseen successors by state; 0 for copies of END."""
    if intervals.unseen is None:
        return None
    return np.append(intervals.unseen, np.zeros(reading.n - intervals.n))


def _run(
    reading: Reading,
    step: Backup,
    automaton: Automaton,
    start: Floats,
    first: Ints,
    steps: int,
) -> Floats:
    table = automaton.step[:, reading.letters].astype(np.int64)
    values = within(step, table, start, first, steps)
    return reading.restore(np.clip(values, 0, 1, out=values))


def _unmet_bound(
    reading: Reading,
    intervals: IntervalChain,
    automaton: Automaton,
    maximise: bool,
    sweeps: int,
) -> Floats:
    """Returns the minimum or maximum probability that pending obligations are broken,
    by [row, state].
    """
    step = RobustStep(intervals, maximise=maximise)
    table = automaton.complete[:, reading.letters].astype(np.int64)
    used = np.unique(reading.letters)
    if intervals.unseen is not None:
        # In an unseen successor, any letter may be read.
        used = np.arange(automaton.complete.shape[1])
    plan = plan_elimination(automaton.complete[:, used].tolist(), BROKEN)
    if not plan.unknowns:
        return sweep(step, table, BROKEN, plan.levels)
    values = np.zeros(table.shape)
    values[BROKEN] = 1
    if maximise:
        lengths = np.diff(reading.indptr)
        even = np.repeat(1 / lengths, lengths)
        possible = ever(reading, even, automaton.complete, BROKEN) > 0
        if intervals.unseen is not None:
            # In an unseen successor, every obligation that can be broken may be broken.
            possible[plan.live] |= intervals.unseen > 0
            possible = _reaching(possible, expectation(reading, even), table)
        values[possible] = 1
    at_once = np.where(np.arange(len(table)) > BROKEN, 0, NEVER)
    for _ in range(sweeps):
        further = within(step, table, values, at_once, 1)
        moved = np.abs(further - values).max()
        values = further
        if moved < ROBUST_TOLERANCE:
            break
    return values


def _reaching(goal: Bools, step: Backup, table: Ints) -> Bools:
    """Returns the pairs of a state and an automaton state from which the goal can be
    reached, including the pairs of the goal.
    """
    states = np.arange(table.shape[1])
    while True:
        before = step(goal[table, states].astype(np.float64)) > 0
        if not (before & ~goal).any():
            return goal
        goal = goal | before

"""The least and greatest probability of reaching something, within bounds on each row.

Robust value iteration says it within a number of steps, robust policy iteration for
ever.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forewarn.monitors.chains.absorption import absorbed
from forewarn.monitors.chains.intervals import (
    Bools,
    Floats,
    IntervalChain,
    Ints,
    RobustStep,
)

_CERTAIN = 1e-12


def robust_reach(
    chain: IntervalChain,
    targets: Bools | Sequence[int],
    steps: int | None = None,
    *,
    maximise: bool,
    avoid: Bools | Sequence[int] = (),
) -> Floats:
    """The least or greatest probability to reach the targets, from every state.

    Args:
        chain: The interval chain.
        targets: State numbers, or a mask over the states.
        steps: Within so many steps; None means ever.
        maximise: The greatest probability; else the least.
        avoid: States that end the attempt (value 0), for `until` properties.
    """
    goal, lost = _mask(targets, chain.n), _mask(avoid, chain.n)
    lost &= ~goal
    if steps is not None:
        return _within(chain, goal, lost, steps, maximise)
    return _ever(chain, goal, lost, maximise)


def _within(
    chain: IntervalChain, goal: Bools, lost: Bools, steps: int, maximise: bool
) -> Floats:
    step = RobustStep(chain, maximise=maximise)
    values = goal.astype(np.float64)
    for _ in range(steps):
        further = step(values)
        further[goal], further[lost] = 1.0, 0.0
        if np.array_equal(further, values):
            break
        values = further
    return values


def _ever(chain: IntervalChain, goal: Bools, lost: Bools, maximise: bool) -> Floats:
    """Robust policy iteration over the states that the graph does not settle.

    When nature maximises, it starts by giving every possible edge something, so every
    state that can reach the goal does. When it minimises, states where it can avoid
    the goal for sure are 0 beforehand. Either way no policy that follows by strict
    improvement can be trapped, so the equations have one solution.
    """
    room = chain.room.sum(axis=1)
    share = np.minimum(chain.slack, room) / np.where(room > 0.0, room, 1.0)
    policy = chain.least + chain.room * share[:, None]
    possible = (policy > 0.0) & ~(goal | lost)[:, None]
    away = np.zeros(chain.n, bool)
    if chain.unseen is not None:
        away = possible[:, -1].copy()
        possible[:, -1] = False
    edges = _Incoming(chain.successors, possible)
    if maximise:
        open_states = edges.reaching(goal | away) & ~goal
    else:
        open_states = edges.unable_to_avoid(goal, chain) & ~goal
    values = goal.astype(np.float64)
    if not open_states.any():
        return values
    step = RobustStep(chain, maximise=maximise)
    sign = 1.0 if maximise else -1.0

    def solve() -> Floats:
        return _solve(chain, policy, goal, open_states, maximise)

    values[open_states] = solve()
    while True:
        ahead = chain.ahead(values, maximise=maximise)
        gain = sign * (step(values) - (policy * ahead).sum(axis=1))
        better = open_states & (gain > _CERTAIN * values)
        if not better.any():
            break
        policy = np.where(better[:, None], step.choice, policy)
        solved = solve()
        # Rounding can feign a gain; what does not move the values ends the search.
        moved = sign * (solved - values[open_states])
        if not (moved > _CERTAIN * solved).any():
            break
        values[open_states] = solved
    return np.clip(values, 0.0, 1.0)


def _solve(
    chain: IntervalChain, policy: Floats, goal: Bools, unknown: Bools, maximise: bool
) -> Floats:
    """Reachability of the goal from the unknown states under one policy."""
    names = np.flatnonzero(unknown)
    place = np.full(chain.n, -1)
    place[names] = np.arange(len(names))
    taken = policy[names]
    hit = (taken * chain.ahead(goal.astype(np.float64), maximise=maximise)[names]).sum(
        axis=1
    )
    target = place[chain.successors[names]]
    if chain.unseen is not None:
        target[:, -1] = -1
    inside = (target >= 0) & (taken > 0.0)
    left = np.where(inside, 0.0, taken).sum(axis=1)
    source = np.broadcast_to(np.arange(len(names))[:, None], target.shape)
    return absorbed(source[inside], target[inside], taken[inside], left, hit)


class _Incoming:
    """The edges of a padded graph, found by the state they lead to."""

    def __init__(self, successors: Ints, edge: Bools) -> None:
        self._n = len(successors)
        row, column = np.nonzero(edge)
        into = successors[row, column]
        order = np.argsort(into, kind="stable")
        self._row, self._column = row[order], column[order]
        self._start = np.searchsorted(into[order], np.arange(self._n + 1))

    def _edges(self, frontier: Ints) -> Ints:
        """The numbers of the edges that lead to any state of the frontier."""
        first, count = self._start[frontier], np.diff(self._start)[frontier]
        offset = np.cumsum(count) - count
        return np.repeat(first - offset, count) + np.arange(count.sum())

    def reaching(self, goal: Bools) -> Bools:
        """States with a path to the goal."""
        found = goal.copy()
        frontier = np.flatnonzero(goal)
        while len(frontier):
            rows = np.unique(self._row[self._edges(frontier)])
            frontier = rows[~found[rows]]
            found[frontier] = True
        return found

    def unable_to_avoid(self, goal: Bools, chain: IntervalChain) -> Bools:
        """States from which every choice of nature may come to the goal."""
        found = goal.copy()
        stay = chain.least.sum(axis=1) + chain.room.sum(axis=1)
        forced = np.zeros(self._n, bool)
        frontier = np.flatnonzero(goal)
        while len(frontier):
            edges = self._edges(frontier)
            row, column = self._row[edges], self._column[edges]
            least = chain.least[row, column]
            np.subtract.at(stay, row, least + chain.room[row, column])
            forced[row[least > 0.0]] = True
            rows = np.unique(row)
            lost = forced[rows] | (stay[rows] < 1.0 - _CERTAIN)
            frontier = rows[lost & ~found[rows]]
            found[frontier] = True
        return found


def _mask(states: Bools | Sequence[int], n: int) -> Bools:
    given = np.asarray(states)
    if given.dtype == np.bool_:
        return given.copy()
    mask = np.zeros(n, bool)
    mask[given.astype(np.int64)] = True
    return mask

"""How likely a monitor is to be violated while a chain runs: from every pair, at once.

`ever` answers without a horizon: by elimination, level by level where there are no
cycles, or by taking out pairs one by one. `within` takes one product a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import TooLarge
from forewarn.monitors.chains.absorption import absorbed, row_sums
from forewarn.monitors.risk.elimination import Layers, Plan, plan_elimination
from forewarn.monitors.risk.product import Bools, Floats, Ints, Reading

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Backup = Callable[[Floats], Floats]
"""One step of a chain: the values [k, n] of successors to expected values [k, n]."""

Table = NDArray[np.integer[Any]]
"""The next monitor state, by monitor state and column of letters."""

SMALL_STATES = 200
"""Up to so many states a chain is kept as a full matrix."""

DENSE_STATES = 1_000
"""And up to so many if one transition in ten is possible, or for layers."""

MAX_SPARSE_TRANSITIONS = 5_000_000


def within(
    backup: Backup, table: Ints, start: Floats, first: Ints, steps: int
) -> Floats:
    """Values after so many steps: V_h(q, s) = sum P(s, s') V_h-1(table[q, s'], s').

    Args:
        backup: One step of the chain, point or robust.
        table: For each monitor state, where each successor state leads it.
        start: V_0.
        first: The first step at which a monitor state's values may change; below 0:
            they never do.
        steps: How often.
    """
    values = start.copy()
    rows = np.argsort(first, kind="stable")[np.count_nonzero(first < 0) :]
    places = table[rows] * table.shape[1] + np.arange(table.shape[1])
    begun = np.searchsorted(first[rows], np.arange(1, steps + 1), side="right")
    for count in begun.tolist():
        if count:
            values[rows[:count]] = backup(values.take(places[:count]))
    return values


def expectation(reading: Reading, data: Floats) -> Backup:
    """The step of a chain whose probabilities are known."""
    if _is_dense(reading):
        across = np.ascontiguousarray(_dense(reading, data).T)
        return lambda values: values @ across
    matrix = _sparse(reading, data)
    return lambda values: np.ascontiguousarray((matrix @ values.T).T)


def _is_dense(reading: Reading) -> bool:
    n = reading.n
    return n <= SMALL_STATES or (
        n <= DENSE_STATES and 10 * reading.indices.size >= n * n
    )


def _dense(reading: Reading, data: Floats) -> Floats:
    matrix = np.zeros((reading.n, reading.n))
    matrix[reading.sources(), reading.indices] = data
    return matrix


def _sparse(reading: Reading, data: Floats) -> csr_array:
    from scipy.sparse import csr_array

    parts = (data, reading.indices, reading.indptr)
    return csr_array(parts, (reading.n, reading.n))


def ever(reading: Reading, data: Floats, table: Table, violated: int) -> Floats:
    """The probability that `violated` is ever reached, from every pair [q, s].

    Args:
        reading: The chain and its letters.
        data: The probability of each of the reading's transitions.
        table: The next state of the monitor: [monitor state, column of letters].
        violated: The state asked about; it is absorbing. Below 0: there is none.
    """
    if violated < 0:
        return np.zeros((len(table), reading.n))
    used, column = np.unique(reading.letters, return_inverse=True)
    plan = plan_elimination(table[:, used].tolist(), violated)
    if plan.is_short and reading.n <= DENSE_STATES:
        layers = Layers(plan, _dense(reading, data), column)
        if layers.affordable():
            return layers.solve()
    if plan.unknowns:
        return _solve_sparse(reading, data, table, plan)
    after = table[:, reading.letters]
    return sweep(expectation(reading, data), after, violated, plan.levels())


def sweep(
    backup: Backup, table: Table, violated: int, levels: Iterable[Ints]
) -> Floats:
    """The same for a monitor without cycles, level by level."""
    values = np.zeros(table.shape)
    values[violated] = 1
    states = np.arange(table.shape[1])
    for rows in levels:
        values[rows] = backup(values[table[rows], states])
    return np.clip(values, 0, 1, out=values)


def _solve_sparse(reading: Reading, data: Floats, table: Table, plan: Plan) -> Floats:
    """One sparse system over all live pairs, for monitors with many cycles."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    states, n = np.flatnonzero(plan.live), reading.n
    values = np.zeros((len(plan.rows), n))
    values[plan.violated] = 1
    if not states.size:
        return values
    size = states.size * reading.indices.size
    if size > MAX_SPARSE_TRANSITIONS:
        raise TooLarge(
            f"the law and the chain together have {size:,} transitions, more than "
            f"{MAX_SPARSE_TRANSITIONS:,}, and the law's cycles forbid the layered way",
            mend="ask within a number of steps, or use a coarser clock",
        )
    pairs = states.size * n
    hit, miss = pairs, pairs + 1
    position = np.zeros(len(plan.rows), dtype=np.int64)
    position[states] = np.arange(states.size)
    after = table[states][:, reading.letters[reading.indices]]
    target = position[after] * n + reading.indices
    target[after == plan.violated] = hit
    target[~plan.live[after] & (after != plan.violated)] = miss
    source = np.arange(states.size)[:, None] * n + reading.sources()
    weight = np.broadcast_to(data, target.shape)
    leaving = source != target
    graph = coo_array(
        (weight[leaving], (source[leaving], target[leaving])), (pairs + 2, pairs + 2)
    ).tocsr()
    inverse = graph.T.tocsr()

    def reaching(node: int) -> Bools:
        found = np.zeros(pairs + 2, dtype=bool)
        found[breadth_first_order(inverse, node, return_predecessors=False)] = True
        return found

    possible = reaching(hit)
    # Where `violated` cannot be reached is as good as the other exit.
    lost = np.flatnonzero(~possible)
    exits = coo_array(
        (np.ones(lost.size), (np.full(lost.size, miss), lost)), inverse.shape
    )
    inverse = (inverse + exits).tocsr()
    sure = possible & ~reaching(miss)
    chance = sure.astype(float)
    open_ = np.flatnonzero(possible & ~sure)
    if open_.size:
        place = np.full(pairs + 2, -1)
        place[open_] = np.arange(open_.size)
        begins, ends = source[leaving], target[leaving]
        moves = place[begins] >= 0
        begins, ends, shares = place[begins[moves]], ends[moves], weight[leaving][moves]
        inside = place[ends] >= 0
        left = row_sums(begins[~inside], shares[~inside], open_.size)
        gain = row_sums(begins, shares * sure[ends], open_.size)
        chance[open_] = absorbed(
            begins[inside], place[ends[inside]], shares[inside], left, gain
        )
    values[states] = chance[:pairs].reshape(states.size, n)
    return np.clip(values, 0, 1, out=values)

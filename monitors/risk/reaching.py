"""The probability that a monitor reaches `violated` along a chain, for all pairs at
once.

`within` computes the probability within a horizon, with one matrix product per step.
`ever` computes it without a horizon. Value iteration is not suitable for `ever`: chains
learned from driving stay in the same state 997 times in 1000 and need tens of thousands
of sweeps. Instead, a few states of the monitor are kept as unknowns, so that the others
form no cycle (for a bounded response, only `idle` is kept). The other states are affine
functions of the unknowns, layer by layer. If the layers are too large, `ever` solves
one sparse system over all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import TooLarge
from forewarn.monitors.chains.absorption import reached
from forewarn.monitors.risk.product import Bools, Floats, Ints, Reading

if TYPE_CHECKING:
    from scipy.sparse import csr_array


MAX_UNKNOWNS = 3_000
MAX_LAYER_CELLS = 50_000_000

FLOOR = 1e-150
"""Smaller positive probabilities are raised to this value, so that none underflows to
0.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan for eliminating the states of a monitor.

    `live` states can reach `violated`; the others cannot. The states of each level
    refer only to earlier levels, to `unknowns`, to `violated` and to states that are
    not live.
    """

    live: Bools
    unknowns: list[int]
    levels: list[list[int]]


def plan_elimination(table: Sequence[Sequence[int]], violated: int) -> Plan:
    rows = [set(row) for row in table]
    referrers: list[list[int]] = [[] for _ in rows]
    for q, row in enumerate(rows):
        for successor in row:
            referrers[successor].append(q)
    live = [False] * len(rows)
    stack = [violated]
    while stack:
        for q in referrers[stack.pop()]:
            if not live[q] and q != violated:
                live[q] = True
                stack.append(q)
    waiting = {q: sum(live[r] for r in row) for q, row in enumerate(rows) if live[q]}
    unknowns, levels, depth = list[int](), list[list[int]](), [0] * len(rows)
    ready = [q for q, count in waiting.items() if count == 0]
    most_used = iter(sorted(waiting, key=lambda q: -len(referrers[q])))
    while waiting:
        if ready:
            state = ready.pop()
            depth[state] = 1 + max(depth[r] for r in rows[state])
            if depth[state] > len(levels):
                levels.append([])
            levels[depth[state] - 1].append(state)
        else:
            state = next(q for q in most_used if q in waiting)
            unknowns.append(state)
        del waiting[state]
        for q in referrers[state]:
            if q in waiting:
                waiting[q] -= 1
                if waiting[q] == 0:
                    ready.append(q)
    return Plan(np.array(live), unknowns, levels)


Backup = Callable[[Floats], Floats]
"""One step of a chain: maps the values [k, n] of successors to expected values [k,
n].
"""

Table = NDArray[np.integer[Any]]
"""The next monitor state, by monitor state and column of letters."""

SMALL_STATES = 200
"""With at most this many states, a chain is stored as a dense matrix."""

DENSE_STATES = 1_000
"""The limit on states for a dense matrix if one in ten transitions is possible."""

MAX_SPARSE_TRANSITIONS = 5_000_000


def within(
    backup: Backup, table: Ints, start: Floats, first: Ints, steps: int
) -> Floats:
    """Returns the values V_h after h = `steps` steps: V_h(q, s) = sum P(s, s')
    V_h-1(table[q, s'], s').

    Args:
        backup: One step of the chain, with known probabilities or robust.
        table: For each monitor state and successor, the next monitor state.
        start: The values V_0.
        first: For each monitor state, the first step at which its values may change;
            negative if they never do.
        steps: The number of steps.
    """
    values = start.copy()
    rows = np.argsort(first, kind="stable")[np.count_nonzero(first < 0) :]
    places = table[rows] * table.shape[1] + np.arange(table.shape[1])
    begun = np.searchsorted(first[rows], np.arange(1, steps + 1), side="right")
    for count in begun.tolist():
        if count:
            further = backup(values.take(places[:count]))
            if count == len(rows) and np.array_equal(further, values[rows]):
                break
            values[rows[:count]] = further
    return values


def expectation(reading: Reading, data: Floats) -> Backup:
    """Returns the one-step expectation for a chain with known probabilities."""
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
    """Returns the probability that `violated` is ever reached from each pair [q, s].

    Args:
        reading: The chain and its letters.
        data: The probability of each transition of `reading`.
        table: The next state of the monitor, by [monitor state, column of letters].
        violated: The absorbing state whose probability is computed; negative if there
            is none.
    """
    if violated < 0:
        return np.zeros((len(table), reading.n))
    used = np.unique(reading.letters)
    plan = plan_elimination(table[:, used].tolist(), violated)
    after = table[:, reading.letters]
    if not plan.unknowns:
        return sweep(expectation(reading, data), after, violated, plan.levels)
    unknown = len(plan.unknowns) * reading.n
    cells = len(table) * reading.n * (unknown + 2)
    if plan.levels and unknown <= MAX_UNKNOWNS and cells <= MAX_LAYER_CELLS:
        return _solve_layers(expectation(reading, data), after, violated, plan)
    return _solve_sparse(reading, data, table, violated, plan)


def sweep(
    backup: Backup, table: Table, violated: int, levels: Iterable[Sequence[int]]
) -> Floats:
    """Computes `ever` for a monitor without cycles, level by level."""
    values = np.zeros(table.shape)
    values[violated] = 1
    states = np.arange(table.shape[1])
    for rows in levels:
        values[rows] = backup(values[table[rows], states])
    return np.clip(values, 0, 1, out=values)


def _solve_layers(backup: Backup, after: Table, violated: int, plan: Plan) -> Floats:
    """Solves one system for the unknown states; the values of the others are affine
    functions of the unknown ones, level by level.

    For a state of the monitor, a layer [k, s] contains the probabilities of reaching
    each unknown pair k, `violated`, and the states from which `violated` cannot be
    reached.
    """
    states = np.arange(after.shape[1])
    unknown = len(plan.unknowns) * states.size
    layers = np.zeros((len(after), unknown + 2, states.size))
    layers[violated, unknown] = 1
    layers[~plan.live & (np.arange(len(after)) != violated), unknown + 1] = 1
    for k, q in enumerate(plan.unknowns):
        layers[q, k * states.size + states, states] = 1

    def layer(q: int) -> Floats:
        found = backup(layers[after[q], :, states].T)
        found[(found > 0) & (found < FLOOR)] = FLOOR
        return found

    for level in plan.levels:
        for q in level:
            layers[q] = layer(q)
    system = np.concatenate([layer(q) for q in plan.unknowns], axis=1).T
    source, target = np.nonzero(system)
    chance, _ = reached(source, target, system[source, target], unknown)
    values: Floats = np.append(chance, (1.0, 0.0)) @ layers
    return np.clip(values, 0, 1, out=values)


def _solve_sparse(
    reading: Reading, data: Floats, table: Table, violated: int, plan: Plan
) -> Floats:
    """Solves one sparse system over all live pairs, if layers would be too large."""
    states, n = np.flatnonzero(plan.live), reading.n
    size = states.size * reading.indices.size
    if size > MAX_SPARSE_TRANSITIONS:
        raise TooLarge(
            f"the product of the law and the chain has {size:,} transitions, more "
            f"than {MAX_SPARSE_TRANSITIONS:,}, and the law's cycles rule out the "
            "faster method",
            mend="limit the number of steps, or use a coarser clock",
        )
    pairs = states.size * n
    position = np.zeros(len(table), dtype=np.int64)
    position[states] = np.arange(states.size)
    after = table[states][:, reading.letters[reading.indices]]
    target = position[after] * n + reading.indices
    target[after == violated] = pairs
    target[~plan.live[after] & (after != violated)] = pairs + 1
    source = np.arange(states.size)[:, None] * n + reading.sources()
    weight = np.broadcast_to(data, target.shape)
    chance, _ = reached(source.ravel(), target.ravel(), weight.ravel(), pairs)
    values = np.zeros((len(table), n))
    values[violated] = 1
    values[states] = chance.reshape(states.size, n)
    return values

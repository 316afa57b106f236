"""The probability that a monitor reaches `violated` along a chain, for all pairs at
once.

`within` computes the probability within a horizon, with one matrix product per step.
`ever` computes it without a horizon. Value iteration is not suitable for `ever`: chains
learned from driving stay in the same state 997 times in 1000 and need tens of thousands
of sweeps. Instead, a few states of the monitor are kept as unknowns, so that the others
form no cycle (for a bounded response, only `idle` is kept). The other states are affine
functions of the unknowns, layer by layer. A countdown is a sequence of layers that
differ only in the state below them, and a sequence of K layers costs log K matrix
products. If the layers are too large, `ever` solves one sparse system over all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import TooLarge
from forewarn.monitors.chains.absorption import absorbed, absorbed_full, row_sums
from forewarn.monitors.risk.product import Bools, Floats, Ints, Reading

if TYPE_CHECKING:
    from scipy.sparse import csr_array


MAX_UNKNOWNS = 3_000
MAX_LAYER_CELLS = 50_000_000

FLOOR = 1e-150
"""The minimum of probabilities above 0, so that none underflows to 0."""


@dataclass(slots=True)
class Countdown:
    """A sequence of monitor states that differ only in the state below each.

    `pattern` contains the successors of each state by letter, with BELOW in place of
    the previous state; `base` precedes the first state.
    """

    states: list[int]
    pattern: tuple[int, ...]
    base: int


BELOW = -1


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan for eliminating the states of a monitor.

    `live` states can reach `violated`; the others cannot. The countdowns in `runs` are
    ordered so that each refers only to earlier ones, to unknowns, to `violated` and to
    states that are not live.
    """

    rows: list[tuple[int, ...]]
    violated: int
    live: Bools
    unknowns: list[int]
    runs: list[Countdown]

    @property
    def is_short(self) -> bool:
        """Whether countdowns cover enough of the monitor to compute it layer by
        layer.
        """
        parts = len(self.runs) + len(self.unknowns)
        return parts <= max(8, int(self.live.sum()) // 8)

    def levels(self) -> list[Ints]:
        """The live states in levels, each of which depends only on earlier levels and
        unknowns.
        """
        depth = [0] * len(self.rows)
        levels: list[list[int]] = []
        for q in (q for run in self.runs for q in run.states):
            depth[q] = 1 + max(depth[r] for r in self.rows[q])
            if depth[q] > len(levels):
                levels.append([])
            levels[depth[q] - 1].append(q)
        return [np.array(level) for level in levels]


def plan_elimination(table: Sequence[Sequence[int]], violated: int) -> Plan:
    rows = [tuple(row) for row in table]
    referrers: list[list[int]] = [[] for _ in rows]
    for q, row in enumerate(rows):
        for successor in set(row):
            referrers[successor].append(q)
    live = np.zeros(len(rows), dtype=bool)
    stack = [violated]
    while stack:
        for q in referrers[stack.pop()]:
            if not live[q] and q != violated:
                live[q] = True
                stack.append(q)
    order, unknowns = _order(rows, referrers, live)
    return Plan(rows, violated, live, unknowns, _runs(order, rows, referrers, violated))


def _order(
    rows: list[tuple[int, ...]], referrers: list[list[int]], live: Bools
) -> tuple[list[int], list[int]]:
    """Returns the live states, each after its successors, and the states kept as
    unknowns.
    """
    alive = live.tolist()
    waiting = {
        q: sum(alive[r] for r in set(row)) for q, row in enumerate(rows) if alive[q]
    }
    order, unknowns = list[int](), list[int]()
    ready = [q for q, count in waiting.items() if count == 0]
    most_used = iter(sorted(waiting, key=lambda q: -len(referrers[q])))
    while waiting:
        if ready:
            state = ready.pop()
            order.append(state)
        else:
            state = next(q for q in most_used if q in waiting)
            unknowns.append(state)
        del waiting[state]
        for q in referrers[state]:
            if q in waiting:
                waiting[q] -= 1
                if waiting[q] == 0:
                    ready.append(q)
    return order, unknowns


def _runs(
    order: list[int],
    rows: list[tuple[int, ...]],
    referrers: list[list[int]],
    violated: int,
) -> list[Countdown]:
    runs: list[Countdown] = []
    before = violated
    for q in order:
        base = before if before in rows[q] else violated
        pattern = tuple(BELOW if r == base else r for r in rows[q])
        if runs and base == before == runs[-1].states[-1] and referrers[base] == [q]:
            if pattern == runs[-1].pattern:
                runs[-1].states.append(q)
                before = q
                continue
        runs.append(Countdown([q], pattern, base))
        before = q
    return runs


@dataclass(slots=True)
class _Powers:
    """The matrix N^(2^j) and the sum of N^i for i < 2^j, computed on demand."""

    powers: list[Floats]
    sums: list[Floats] = field(default_factory=list)

    def at(self, j: int) -> tuple[Floats, Floats]:
        if not self.sums:
            self.sums.append(np.eye(len(self.powers[0])))
        while len(self.powers) <= j:
            power, total = self.powers[-1], self.sums[-1]
            self.sums.append(total + power @ total)
            self.powers.append(_floored(power @ power))
        return self.powers[j], self.sums[j]


def _floored(values: Floats) -> Floats:
    values[(values > 0) & (values < FLOOR)] = FLOOR
    return values


class Layers:
    """The values of monitor states as affine functions of the unknowns, layer by layer.

    The unknowns are the values of the pairs (q, s) with q an unknown state that can be
    entered with the letter of s. A layer is a matrix [n, unknowns + 2] of
    probabilities: of reaching each unknown, `violated`, and states from which
    `violated` cannot be reached.
    """

    def __init__(self, plan: Plan, chain: Floats, column: Ints) -> None:
        self._plan, self._chain = plan, chain
        self._groups = [np.flatnonzero(column == u) for u in range(column.max() + 1)]
        self._column = column
        self._places: dict[int, Ints] = {}
        count, unknown = 0, dict[int, Bools]()
        for q in plan.unknowns:
            unknown[q] = np.zeros(len(chain), dtype=bool)
        for q in np.flatnonzero(plan.live).tolist():
            for u, successor in enumerate(plan.rows[q]):
                if successor in unknown:
                    unknown[successor][self._groups[u]] = True
        for q, entered in unknown.items():
            places = np.full(len(chain), -1)
            places[entered] = count + np.arange(entered.sum())
            self._places[q] = places
            count += int(entered.sum())
        self._count = count
        self._powers: dict[tuple[int, ...], _Powers] = {}
        self._layers: dict[int, Floats] = {}

    def affordable(self) -> bool:
        cells = len(self._plan.runs) * len(self._chain) * (self._count + 2)
        return self._count <= MAX_UNKNOWNS and cells <= MAX_LAYER_CELLS

    def solve(self) -> Floats:
        plan, n = self._plan, len(self._chain)
        self._layers[plan.violated] = np.zeros((n, self._count + 2))
        self._layers[plan.violated][:, -2] = 1
        for run in plan.runs:
            self._layers[run.states[-1]] = self._climb(run)
        system = [np.zeros((0, self._count + 2))]
        for q in plan.unknowns:
            layer = self._layers[q] = self._fixed(plan.rows[q])
            system.append(layer[self._places[q] >= 0])
        solution = np.append(_absorption(np.concatenate(system)), (1.0, 0.0))
        values = np.zeros((len(plan.rows), n))
        values[plan.violated] = 1
        for q in plan.unknowns:
            values[q] = self._layers[q] @ solution
        for run in plan.runs:
            self._fill(values, run)
        return np.clip(values, 0, 1, out=values)

    def _fixed(self, pattern: tuple[int, ...]) -> Floats:
        """The part of a layer that does not depend on the state below."""
        plan, chain = self._plan, self._chain
        layer = np.zeros((len(chain), self._count + 2))
        for u, successor in enumerate(pattern):
            states = self._groups[u]
            if successor == BELOW:
                continue
            if successor in self._places:
                layer[:, self._places[successor][states]] += chain[:, states]
            elif successor == plan.violated:
                layer[:, -2] += chain[:, states].sum(axis=1)
            elif not plan.live[successor]:
                layer[:, -1] += chain[:, states].sum(axis=1)
            else:
                layer += chain[:, states] @ self._layers[successor][states]
        return layer

    def _descent(self, run: Countdown) -> _Powers:
        """The powers of the chain, restricted to the letters that lead to the state
        below.
        """
        below = tuple(u for u, r in enumerate(run.pattern) if r == BELOW)
        if below not in self._powers:
            kept = np.isin(self._column, below)
            self._powers[below] = _Powers([self._chain * kept])
        return self._powers[below]

    def _climb(self, run: Countdown) -> Floats:
        """The layer of the last state of a countdown."""
        fixed = self._fixed(run.pattern)
        if BELOW not in run.pattern:
            return fixed
        layer, powers = self._layers[run.base], self._descent(run)
        for j in range(len(run.states).bit_length()):
            if len(run.states) >> j & 1:
                power, total = powers.at(j)
                layer = _floored(power @ layer + total @ fixed)
        return layer

    def _fill(self, values: Floats, run: Countdown) -> None:
        """Computes the values of a countdown from the values below it."""
        targets = np.array(run.pattern)[self._column]
        successors = values[targets, np.arange(len(targets))]
        fixed = self._chain @ np.where(targets == BELOW, 0.0, successors)
        filled = np.empty((len(run.states), len(targets)))
        if BELOW not in run.pattern:
            values[run.states] = fixed
            return
        powers = self._descent(run)
        filled[0] = powers.at(0)[0] @ values[run.base] + fixed
        done, j = 1, 0
        while done < len(filled):
            power, total = powers.at(j)
            more = min(done, len(filled) - done)
            filled[done : done + more] = filled[:more] @ power.T + total @ fixed
            done, j = done + more, j + 1
        values[run.states] = filled


def _absorption(system: Floats) -> Floats:
    """The probability of leaving through the first of two exits, the last two columns.

    States with probability 0 or 1 follow from the graph.
    """
    stay, hit, miss = system[:, :-2].copy(), system[:, -2], system[:, -1]
    np.fill_diagonal(stay, 0)
    edges = stay > 0
    possible = _backwards(edges, hit > 0)
    sure = possible & ~_backwards(edges, (miss > 0) | ~possible)
    result = sure.astype(float)
    open_ = np.flatnonzero(possible & ~sure)
    if open_.size:
        inner = stay[np.ix_(open_, open_)]
        known = hit[open_] + stay[np.ix_(open_, np.flatnonzero(sure))].sum(axis=1)
        lost = miss[open_] + stay[np.ix_(open_, np.flatnonzero(~possible))].sum(axis=1)
        result[open_] = absorbed_full(inner, known + lost, known[:, None])[:, 0]
    return result


def _backwards(edges: Bools, seeds: Bools) -> Bools:
    """The states with a path to the seeds."""
    reached, frontier = seeds.copy(), seeds
    while frontier.any():
        frontier = edges[:, frontier].any(axis=1) & ~reached
        reached |= frontier
    return reached


Backup = Callable[[Floats], Floats]
"""One step of a chain: maps the values [k, n] of successors to expected values [k,
n].
"""

Table = NDArray[np.integer[Any]]
"""The next monitor state, by monitor state and column of letters."""

SMALL_STATES = 200
"""With at most this many states, a chain is stored as a dense matrix."""

DENSE_STATES = 1_000
"""The limit on states for a dense matrix if one in ten transitions is possible, and for
layers.
"""

MAX_SPARSE_TRANSITIONS = 5_000_000


def within(
    backup: Backup, table: Ints, start: Floats, first: Ints, steps: int
) -> Floats:
    """The values V_h after h = `steps` steps: V_h(q, s) = sum P(s, s') V_h-1(table[q,
    s'], s').

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
            values[rows[:count]] = backup(values.take(places[:count]))
    return values


def expectation(reading: Reading, data: Floats) -> Backup:
    """The step of a chain with known probabilities."""
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
    """The probability that `violated` is ever reached from each pair [q, s].

    Args:
        reading: The chain and its letters.
        data: The probability of each transition of `reading`.
        table: The next state of the monitor, by [monitor state, column of letters].
        violated: The absorbing state whose probability is computed; negative if there
            is none.
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
    """Computes `ever` for a monitor without cycles, level by level."""
    values = np.zeros(table.shape)
    values[violated] = 1
    states = np.arange(table.shape[1])
    for rows in levels:
        values[rows] = backup(values[table[rows], states])
    return np.clip(values, 0, 1, out=values)


def _solve_sparse(reading: Reading, data: Floats, table: Table, plan: Plan) -> Floats:
    """Solves one sparse system over all live pairs, for monitors with many cycles."""
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
            f"the product of the law and the chain has {size:,} transitions, more "
            f"than {MAX_SPARSE_TRANSITIONS:,}, and the law's cycles rule out the "
            "faster method",
            mend="limit the number of steps, or use a coarser clock",
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
    # Pairs that cannot reach `violated` count as the other exit.
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

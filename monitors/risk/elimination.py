"""Monitors eliminated state by state, until one small linear system remains.

Value iteration is the wrong tool without a horizon: chains learned from driving stay
where they are 997 times in 1000 and need tens of thousands of sweeps. Instead a few
states of the monitor are kept as unknowns, such that the others have no cycle left
(for a bounded response `idle` alone). Those others are affine functions of the
unknowns, layer upon layer. A countdown is a run of layers that differ in nothing but
the state below them, and a run of K layers costs log K matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from forewarn.monitors.chains.absorption import absorbed_full
from forewarn.monitors.risk.product import Bools, Floats, Ints

MAX_UNKNOWNS = 3_000
MAX_LAYER_CELLS = 50_000_000

FLOOR = 1e-150
"""Probabilities above 0 are kept at or above this, so that none turns into 0."""


@dataclass(slots=True)
class Run:
    """Monitor states of which each differs from the one before in that alone.

    `pattern` is the row of each over the letters in use, with BELOW in place of the
    state before it; before the first stands `base`.
    """

    states: list[int]
    pattern: tuple[int, ...]
    base: int


BELOW = -1


@dataclass(frozen=True, slots=True)
class Plan:
    """In which order the states of a monitor can be eliminated.

    `live` states can reach `violated`; the others never do. The `runs` stand so that
    each refers only to earlier ones, to unknowns, to `violated` and to what is not
    live.
    """

    rows: list[tuple[int, ...]]
    violated: int
    live: Bools
    unknowns: list[int]
    runs: list[Run]

    @property
    def is_short(self) -> bool:
        """Whether runs cover the monitor so well that layers are the best way."""
        parts = len(self.runs) + len(self.unknowns)
        return parts <= max(8, int(self.live.sum()) // 8)

    def levels(self) -> list[Ints]:
        """The live states, each level needing only earlier ones and the unknowns."""
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
    """Live states, each after its successors; and those kept as unknowns for that."""
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
) -> list[Run]:
    runs: list[Run] = []
    before = violated
    for q in order:
        base = before if before in rows[q] else violated
        pattern = tuple(BELOW if r == base else r for r in rows[q])
        if runs and base == before == runs[-1].states[-1] and referrers[base] == [q]:
            if pattern == runs[-1].pattern:
                runs[-1].states.append(q)
                before = q
                continue
        runs.append(Run([q], pattern, base))
        before = q
    return runs


@dataclass(slots=True)
class _Powers:
    """N^(2^j), and the sum of N^i for i < 2^j, made when asked for."""

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
    """Affine functions of the unknowns, layer upon layer.

    The unknowns are the values of the pairs (q, s) with q an unknown state that can be
    entered with the letter of s. A layer is a matrix [n, unknowns + 2]: the probability
    to come to each unknown, to `violated`, and to where nothing can be violated.
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

    def _descent(self, run: Run) -> _Powers:
        """The powers of the chain restricted to the letters that lead below."""
        below = tuple(u for u, r in enumerate(run.pattern) if r == BELOW)
        if below not in self._powers:
            kept = np.isin(self._column, below)
            self._powers[below] = _Powers([self._chain * kept])
        return self._powers[below]

    def _climb(self, run: Run) -> Floats:
        """The layer at the top of a run."""
        fixed = self._fixed(run.pattern)
        if BELOW not in run.pattern:
            return fixed
        layer, powers = self._layers[run.base], self._descent(run)
        for j in range(len(run.states).bit_length()):
            if len(run.states) >> j & 1:
                power, total = powers.at(j)
                layer = _floored(power @ layer + total @ fixed)
        return layer

    def _fill(self, values: Floats, run: Run) -> None:
        """The values of a run, from those below it."""
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
    """The chance of the column before the last, in a chain with two exits.

    States with chance 0 and 1 are found in the graph and not computed.
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

"""Absorption probabilities of a chain: one linear system, solved without subtraction.

States are eliminated one by one, and the weight of the transitions into an eliminated
state is passed on to its successors (state reduction, after Grassmann, Taksar and
Heyman). Without subtractions, results are accurate however rarely the chain leaves a
state: with n states the relative error is at most about n rounding errors. The cheapest
state is eliminated first. Once most pairs of states are connected, the remaining system
is solved as a dense matrix.

Elimination would make the matrix of a large, fast-mixing chain dense, but on such
chains iteration converges quickly. A second linear system bounds the error of an
iterated solution. A chain that is neither small nor fast-mixing is rejected.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import TooLarge

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FULL_STATES = 200
"""With at most this many states, a dense matrix is used from the start."""

MAX_FULL = 3_000
"""The maximum number of states for a dense matrix."""

MANY_STATES = 20_000
"""With more states than this, iteration is tried first."""

MAX_EDGES = 3_000_000
"""The maximum number of transitions that may arise during elimination."""

FEW_EDGES = 200_000
"""Iteration is tried once the number of transitions exceeds four times the original
number plus this number.
"""

SOUND = 1e-10
"""The maximum error of an iterated solution, relative to its largest value."""

_BLOCK = 64

ABOVE_0, BELOW_1 = np.nextafter([0.0, 1.0], 0.5).tolist()
"""The smallest number above 0, and the largest below 1."""


def absorbed(
    source: Ints, target: Ints, weight: Floats, left: Floats, gain: Floats
) -> Floats:
    """Solves x[i] (left[i] + sum of weights) = gain[i] + sum of weight x[target] for x.

    If `gain` is the part of `left` that leads to a good end, the result is the
    probability of reaching a good end. If `gain` is 1 and the weights and `left` sum to
    1, the result is the expected number of steps.

    Args:
        source: The source state of each transition; self-loops are ignored.
        target: The target state of each transition.
        weight: The probability of each transition, or a weight proportional to it
            within its row.
        left: The weight of leaving the chain for good from each state. Every state must
            be able to reach a state where this weight is positive.
        gain: The non-negative right-hand side, as one column or several.

    Raises:
        TooLarge: The system is too large to solve with a guaranteed error bound.
    """
    n = len(left)
    apart = (source != target) & (weight > 0.0)
    source, target, weight = source[apart], target[apart], weight[apart]
    right = gain if gain.ndim == 2 else gain[:, None]
    if n <= FULL_STATES or (n <= MAX_FULL and 8 * source.size >= n * n):
        matrix = np.zeros((n, n))
        np.add.at(matrix, (source, target), weight)
        return absorbed_full(matrix, left, right).reshape(gain.shape)
    parts = (source, target, weight, left, right)
    solved = None
    if n <= MANY_STATES:
        solved = _reduced(*parts, FEW_EDGES + 4 * source.size)
    if solved is None:
        solved = _iterated(*parts)
    if solved is None:
        solved = _reduced(*parts, MAX_EDGES)
    if solved is None:
        raise TooLarge(
            f"{n:,} states are too many to solve with a guaranteed error bound: "
            f"elimination leaves more than {MAX_FULL:,} states with "
            f"{MAX_EDGES:,} transitions, and iteration is too slow",
            mend="limit the number of steps, or use fewer predicates",
        )
    return solved.reshape(gain.shape)


def reached(source: Ints, target: Ints, weight: Floats, n: int) -> tuple[Floats, Bools]:
    """Returns for each of n states the probability of reaching the good exit, and
    whether the graph alone determines it.

    Probabilities that the graph determines are exactly 0 or 1; all others lie strictly
    between 0 and 1.

    Args:
        source: The source state of each transition.
        target: The target state of each transition: `n` for the good exit, `n + 1` for
            the bad one.
        weight: The probability of each transition.
        n: The number of states.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    moves = (source != target) & (weight > 0.0)
    source, target, weight = source[moves], target[moves], weight[moves]

    def leading_to(end: int, source: Ints, target: Ints) -> Bools:
        parts = (np.ones(source.size), (target, source))
        back = coo_array(parts, (n + 2, n + 2)).tocsr()
        found = np.zeros(n + 2, dtype=bool)
        found[breadth_first_order(back, end, return_predecessors=False)] = True
        return found

    possible = leading_to(n, source, target)
    # A state that cannot reach the good exit is treated like the bad exit.
    lost = np.flatnonzero(~possible)
    ends = np.full(lost.size, n + 1)
    risky = leading_to(n + 1, np.append(source, lost), np.append(target, ends))
    sure = possible & ~risky
    chance = sure[:n].astype(np.float64)
    open_ = np.flatnonzero(possible & risky)
    if open_.size:
        place = np.full(n + 2, -1)
        place[open_] = np.arange(open_.size)
        moves = place[source] >= 0
        begin, end, share = place[source[moves]], target[moves], weight[moves]
        inside = place[end] >= 0
        left = _row_sums(begin[~inside], share[~inside], open_.size)
        gain = _row_sums(begin, share * sure[end], open_.size)
        solved = absorbed(begin[inside], place[end[inside]], share[inside], left, gain)
        chance[open_] = np.clip(solved, ABOVE_0, BELOW_1)
    return chance, ~(possible & risky)[:n]


def _row_sums(rows: Ints, weight: Floats, n: int) -> Floats:
    """Returns the sum of the weights in each of n rows."""
    return np.bincount(rows, weight, n).astype(np.float64)


def absorbed_full(matrix: Floats, left: Floats, gain: Floats) -> Floats:
    """Solves the system of `absorbed` for a dense matrix of weights, whose diagonal is
    ignored.
    """
    n = len(left)
    rows = np.concatenate([matrix, left[:, None], gain], axis=1)
    rows[np.arange(n), np.arange(n)] = 0.0
    totals = np.zeros(n)
    for begin in range(0, n, _BLOCK):
        end = min(begin + _BLOCK, n)
        for k in range(begin, end):
            totals[k] = rows[k, k + 1 : n + 1].sum()
            given = _share(rows[k + 1 : end, k], totals[k])
            rows[k + 1 : end, k + 1 :] += np.outer(given, rows[k, k + 1 :])
            _clear(rows, k + 1, end)
        # The whole block is applied to the rows below it at once.
        shares = np.empty((n - end, end - begin))
        for k in range(begin, end):
            given = shares[:, k - begin] = _share(rows[end:, k], totals[k])
            rows[end:, k + 1 : end] += np.outer(given, rows[k, k + 1 : end])
        rows[end:, end:] += shares @ rows[begin:end, end:]
        _clear(rows, end, n)
    solved = np.zeros((n, gain.shape[1]))
    for k in reversed(range(n)):
        known = rows[k, n + 1 :] + rows[k, k + 1 : n] @ solved[k + 1 :]
        solved[k] = _share(known, totals[k])
    return solved


def _share(given: Floats, total: float) -> Floats:
    return given / total if total > 0.0 else np.zeros_like(given)


def _clear(rows: Floats, begin: int, end: int) -> None:
    """Sets the weights of new self-loops to 0; the original self-loops are ignored,
    too.
    """
    at = np.arange(begin, end)
    rows[at, at] = 0.0


def _reduced(
    source: Ints,
    target: Ints,
    weight: Floats,
    left: Floats,
    gain: Floats,
    limit: int,
) -> Floats | None:
    """Eliminates states with few transitions, and solves the rest directly.

    Returns None if the number of transitions exceeds the limit.
    """
    n = len(left)
    after: list[dict[int, float]] = [{} for _ in range(n)]
    before: list[set[int]] = [set() for _ in range(n)]
    parts = zip(source.tolist(), target.tolist(), weight.tolist(), strict=True)
    for i, j, w in parts:
        after[i][j] = after[i].get(j, 0.0) + w
        before[j].add(i)
    leaves, right = left.tolist(), list(gain.copy())
    costs = [(len(before[k]) * len(after[k]), k) for k in range(n)]
    heapify(costs)
    edges, remaining = sum(map(len, after)), n
    taken: list[tuple[int, float]] = []
    gone = [False] * n
    while costs:
        if remaining <= MAX_FULL and 8 * edges >= remaining * remaining:
            break
        if edges > limit:
            return None
        cost, k = heappop(costs)
        if gone[k]:
            continue
        now = len(before[k]) * len(after[k])
        if now > cost:
            heappush(costs, (now, k))
            continue
        row = after[k]
        total = leaves[k] + sum(row.values())
        edges -= len(row) + len(before[k])
        for i in before[k]:
            other = after[i]
            share = other.pop(k) / total
            edges -= len(other)
            for j, w in row.items():
                if j != i:
                    other[j] = other.get(j, 0.0) + share * w
                    before[j].add(i)
            edges += len(other)
            leaves[i] += share * leaves[k]
            right[i] = right[i] + share * right[k]
        for j in row:
            before[j].discard(k)
            heappush(costs, (len(before[j]) * len(after[j]), j))
        for i in before[k]:
            heappush(costs, (len(before[i]) * len(after[i]), i))
        gone[k] = True
        remaining -= 1
        taken.append((k, total))
    solved = np.zeros(gain.shape)
    names = [k for k in range(n) if not gone[k]]
    if names:
        place = {k: at for at, k in enumerate(names)}
        matrix = np.zeros((len(names), len(names)))
        for at, k in enumerate(names):
            for j, w in after[k].items():
                matrix[at, place[j]] = w
        rest = np.array([leaves[k] for k in names])
        solved[names] = absorbed_full(matrix, rest, np.array([right[k] for k in names]))
    for k, total in reversed(taken):
        known = right[k]
        for j, w in after[k].items():
            known = known + w * solved[j]
        solved[k] = known / total
    return solved


def _iterated(
    source: Ints, target: Ints, weight: Floats, left: Floats, gain: Floats
) -> Floats | None:
    """Returns a solution by iteration if its error is provably small; otherwise None.

    The error is e = (I - A)^-1 r, where r is the residual. Let s be |r| plus the
    rounding error, and w a solution for the right-hand side s. If (I - A) w is verified
    to be at least s / 2, then e is at most 2 w.
    """
    from scipy.sparse import coo_array, eye_array

    n = len(left)
    total = left + _row_sums(source, weight, n)
    share = coo_array((weight / total[source], (source, target)), (n, n)).tocsr()
    system = (eye_array(n) - share).tocsr()
    columns = []
    for column in (gain / total[:, None]).T:
        found, residual = _krylov(system, column)
        scale = max(float(np.abs(found).max()), 1e-300)
        rounding = 4 * np.finfo(float).eps * (np.abs(found) + scale)
        rest = np.abs(residual) + rounding
        most, short = _krylov(system, rest)
        half = rest - short >= rest / 2
        if not (half.all() and most.min() >= 0 and 2 * most.max() <= SOUND * scale):
            return None
        columns.append(found)
    return np.stack(columns, axis=1)


def _krylov(system: csr_array, known: Floats) -> tuple[Floats, Floats]:
    """Returns an approximate solution, refined while the refinement helps, and its
    residual.
    """
    from scipy.sparse.linalg import bicgstab

    found, residual = np.zeros(known.size), known
    size = float(np.abs(residual).max())
    floor = 1e-15 * size
    while size > floor:
        # The residual is scaled, because the solver mistakes small numbers for a
        # breakdown.
        step, _ = bicgstab(system, residual / size, rtol=1e-6, maxiter=100)
        found = found + size * step
        residual, before = known - system @ found, size
        size = float(np.abs(residual).max())
        if size > before / 10:
            break
    return found, residual

"""Interval chains, whose transition probabilities are only known to lie within bounds.

A learned row is an estimate from finitely many visits; Clopper-Pearson bounds limit its
error.

Unseen transitions may still happen, so a visited state has an additional unseen
successor. The maximum probability assumes that this successor always reaches the goal;
the minimum assumes that it never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidInput, InvalidModel, TooLarge
from forewarn.monitors.chains.absorption import absorbed
from forewarn.monitors.chains.model import Counts, Model

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

MAX_CELLS = 20_000_000
"""The maximum number of cells (states times the longest row), to limit memory."""


@dataclass(frozen=True, slots=True, eq=False)
class IntervalChain:
    """A chain whose rows are intervals, in CSR form.

    `unseen` is the maximum probability that each state may give to successors that were
    never seen; if it is None, no row has an unseen successor. `successors`, `least` and
    `room` hold the same rows padded to one width (`[state, width]`): the successor
    states, their lower bounds, and how much may be added to each. Padding repeats a
    successor of the row with probability 0. If `unseen` is given, the last entry of
    each row is the unseen successor, with a placeholder as its state.
    """

    states: tuple[str, ...]
    indptr: Ints
    indices: Ints
    low: Floats
    high: Floats
    unseen: Floats | None = None
    successors: Ints = field(init=False, repr=False)
    least: Floats = field(init=False, repr=False)
    room: Floats = field(init=False, repr=False)
    slack: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        lengths = np.diff(self.indptr)
        width = int(lengths.max(initial=1)) + (self.unseen is not None)
        cells = len(self.states) * width
        if cells > MAX_CELLS:
            raise TooLarge(
                f"{len(self.states)} states with up to {width} successors need "
                f"{cells} interval cells; the limit is {MAX_CELLS}",
                mend="allow fewer successors, or use fewer predicates",
            )
        place = np.arange(width)
        filled = place < lengths[:, None]
        at = np.minimum(self.indptr[:-1, None] + place, self.indptr[1:, None] - 1)
        least = np.where(filled, self.low[at], 0.0)
        room = np.where(filled, (self.high - self.low)[at], 0.0)
        if self.unseen is not None:
            room[:, -1] = self.unseen
        for name, value in (
            ("successors", self.indices[at].astype(np.int64)),
            ("least", least),
            ("room", room),
            ("slack", np.maximum(1.0 - least.sum(axis=1), 0.0)),
        ):
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        return len(self.states)

    def ahead(self, values: Floats, *, maximise: bool) -> Floats:
        """Returns the values of each row's successors; an unseen successor has the
        value 1 if `maximise`, otherwise 0.
        """
        found: Floats = values[..., self.successors]
        if self.unseen is not None:
            found[..., -1] = 1.0 if maximise else 0.0
        return found


class RobustStep:
    """Computes robust expectations repeatedly, for values that change little between
    calls.

    Nature raises the best successors to their upper bounds until the probability is
    used up; the successor at which this happens is the pivot. The choice stays optimal
    while no raised successor has a worse value than the pivot, and no other successor
    has a better value. Only rows that violate this condition are sorted again.
    """

    def __init__(self, chain: IntervalChain, *, maximise: bool) -> None:
        self._chain, self._maximise = chain, maximise
        self._sign = 1.0 if maximise else -1.0
        self.choice: Floats = np.empty(0)
        """The distribution that nature chose for each row, in the shape of the last
        values.
        """
        self._side: NDArray[np.int8] = np.empty(0, np.int8)
        self._pivot: Ints = np.empty(0, np.int64)

    def __call__(self, values: Floats) -> Floats:
        """Computes a robust Bellman backup: expected values from `values[..., n]`."""
        successor_values = self._chain.ahead(values, maximise=self._maximise)
        stale: Bools
        if self.choice.shape != successor_values.shape:
            self.choice = np.empty(successor_values.shape)
            self._side = np.empty(successor_values.shape, np.int8)
            self._pivot = np.empty((*successor_values.shape[:-1], 1), np.int64)
            stale = np.ones(successor_values.shape[:-1], bool)
        else:
            pivot = np.take_along_axis(successor_values, self._pivot, axis=-1)
            stale = np.any((successor_values - pivot) * self._side < 0.0, axis=-1)
        if stale.any():
            self._choose(successor_values, stale)
        expected: Floats = np.einsum("...j,...j->...", self.choice, successor_values)
        return expected

    def _choose(self, values: Floats, stale: Bools) -> None:
        where = np.nonzero(stale)
        state = where[-1]
        chain = self._chain
        order = np.argsort(-self._sign * values[where], axis=1, kind="stable")
        room = np.take_along_axis(chain.room[state], order, axis=1)
        slack = chain.slack[state][:, None]
        filled = np.cumsum(room, axis=1)
        added = np.clip(slack - (filled - room), 0.0, room)
        last = order.shape[1] - 1
        position = np.minimum((filled < slack).sum(axis=1, keepdims=True), last)
        side = np.sign(position - np.arange(last + 1)) * self._sign
        side = np.where((room > 0.0) & (slack > 0.0), side, 0.0)
        spread, sides = np.empty(order.shape), np.empty(order.shape, np.int8)
        np.put_along_axis(spread, order, added, axis=1)
        np.put_along_axis(sides, order, side.astype(np.int8), axis=1)
        self.choice[where] = chain.least[state] + spread
        self._side[where] = sides
        self._pivot[where] = np.take_along_axis(order, position, axis=1)


def clopper_pearson(
    states: Sequence[str], counts: Counts, delta: float, open_rows: Bools | None = None
) -> IntervalChain:
    """Returns exact binomial bounds that hold for all transitions at once.

    The error probability `delta` is split evenly over the necessary intervals. A state
    with three or more successors needs one interval per successor, a state with two
    successors needs one, and a state with one successor needs none. All unseen
    successors together count as a single successor that was seen zero times. A row
    without visits has the interval [0, 1] everywhere; a closed row without successors
    is absorbing.

    Args:
        states: The names of the states.
        counts: The count of each allowed transition.
        delta: The maximum probability that any interval misses the true value.
        open_rows: The states that may have successors that were never seen.
    """
    if not 0.0 < delta < 1.0:
        raise InvalidInput(f"delta is {delta}, but must be between 0 and 1")
    opened = np.zeros(counts.n, bool) if open_rows is None else open_rows
    absorbing = np.flatnonzero(counts.sizes == 0)
    at = counts.indptr[absorbing]
    indices = np.insert(counts.indices, at, absorbing)
    hits = np.insert(counts.seen, at, 0).astype(np.float64)
    lengths = np.maximum(counts.sizes, 1)
    ways = lengths + opened
    tail = delta / max(int(np.where(ways > 2, ways, ways == 2).sum()), 1) / 2
    visits = counts.visits.astype(np.float64)
    trials = np.repeat(visits, lengths)
    low, high = binomial_bounds(hits, trials, tail)
    certain = np.repeat(ways, lengths) == 1
    low[certain] = high[certain] = 1.0
    indptr = np.append(0, np.cumsum(lengths))
    unseen = None
    if opened.any():
        # Only the upper bound is used, so it receives the whole share of delta.
        _, most = binomial_bounds(np.zeros_like(visits), visits, 2 * tail)
        unseen = np.where(opened, most, 0.0)
    return IntervalChain(tuple(states), indptr, indices, low, high, unseen)


def model_intervals(
    model: Model, delta: float, *, closed_support: bool = False
) -> IntervalChain:
    """Returns the interval chain of a learned model, over its chain's states.

    Args:
        model: A model with counts.
        delta: The maximum probability that any interval misses the true value.
        closed_support: Whether only transitions in the model's support are assumed
            possible, as most papers do.
    """
    if model.counts is None:
        raise InvalidModel(
            "intervals need transition counts, and this model has none",
            mend="learn it from traces instead of importing its probabilities",
        )
    if closed_support:
        return clopper_pearson(model.chain.states, model.counts, delta)
    opened = open_rows(model)
    counts = _with_ends(model.counts, model.chain.end, opened)
    return clopper_pearson(model.chain.states, counts, delta, opened)


def premise(model: Model, *, closed_support: bool = False) -> str:
    """Returns the assumptions behind bounds on this model, as text."""
    if closed_support:
        return (
            f"that only the {model.support} transitions are possible (closed support)"
        )
    if open_rows(model).any():
        return "only the Markov property: a state may also have unobserved successors"
    return f"that only the {model.support} transitions and the end are possible"


def open_rows(model: Model) -> Bools:
    """Returns the states of a learned model that may have successors that were never
    observed.

    The result excludes END, and states whose successors were declared or already
    include all that the abstraction allows.
    """
    counts, chain = model.counts, model.chain
    if counts is None or model.support in ("declared", "valid"):
        return np.zeros(chain.n, bool)
    opened = np.ones(chain.n, bool)
    if chain.end is not None:
        opened[chain.end] = False
    if model.abstraction is None:
        return opened
    abstraction = Abstraction.from_dict(
        dict(model.abstraction), "the model's abstraction"
    )
    try:
        valid = abstraction.valid_states(int(counts.sizes.max(initial=0)))
    except TooLarge:
        return opened
    for state, name in enumerate(chain.states):
        if state != chain.end:
            bits = abstraction.bits(name)
            after = {
                abstraction.state_name(v) for v in valid
                if abstraction.may_follow(bits, v)
            }  # fmt: skip
            row = {chain.states[j] for j in counts.row(state)}
            opened[state] = not after <= row
    return opened


def _with_ends(counts: Counts, end: int | None, opened: Bools) -> Counts:
    """Returns the counts with END as a successor of every state, because a trace may
    end in a state where no trace has ended so far.

    Rows with an unseen successor may lead to END in any case, and rows without
    successors stay unchanged.
    """
    if end is None or (opened | (np.arange(counts.n) == end)).all():
        return counts
    rows = [counts.row(state) for state in range(counts.n)]
    for state, row in enumerate(rows):
        if row and not opened[state]:
            row.setdefault(end, 0)
    return Counts.from_rows(rows)


def binomial_bounds(hits: Floats, trials: Floats, tail: float) -> tuple[Floats, Floats]:
    """Returns lower and upper Clopper-Pearson bounds, each with error probability
    `tail`.
    """
    from scipy.special import betaincinv

    pairs, back = np.unique(np.stack([hits, trials]), axis=1, return_inverse=True)
    k, n = pairs
    low, high = np.zeros(len(k)), np.ones(len(k))
    inner = k > 0
    low[inner] = betaincinv(k[inner], (n - k + 1)[inner], tail)
    inner = k < n
    # The symmetric form is used, because 1 - tail would be rounded.
    high[inner] = 1.0 - betaincinv((n - k)[inner], (k + 1)[inner], tail)
    return low[back.ravel()], high[back.ravel()]


_CERTAIN = 1e-12


def robust_reach(
    chain: IntervalChain, goal: Bools, lost: Bools, *, maximise: bool
) -> Floats:
    """Returns the minimum or maximum probability of ever reaching the goal from each
    state.

    The method is robust policy iteration over the states whose value the graph does not
    determine. Paths that pass through a state in `lost` do not count.

    If nature maximises, its first policy gives every possible transition a positive
    probability, so the goal is reached from every state from which it can be reached.
    If nature minimises, states from which nature can surely avoid the goal are set to 0
    beforehand. In both cases, strict improvement never leads to a policy that stays in
    a loop forever, so the equations have a unique solution.
    """
    room = chain.room.sum(axis=1)
    share = np.minimum(chain.slack, room) / np.where(room > 0.0, room, 1.0)
    policy = chain.least + chain.room * share[:, None]
    open_states = _led(chain, goal, lost, policy, maximise) & ~goal
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
        # A gain may be due to rounding only, so the search ends when the values stop
        # changing.
        moved = sign * (solved - values[open_states])
        if not (moved > _CERTAIN * solved).any():
            break
        values[open_states] = solved
    return np.clip(values, 0.0, 1.0)


def _led(
    chain: IntervalChain, goal: Bools, lost: Bools, policy: Floats, maximise: bool
) -> Bools:
    """Returns the states from which the goal can be reached: under the given policy if
    nature maximises, and under every choice of nature if nature minimises.
    """
    moving, found = ~(goal | lost), goal
    if maximise and chain.unseen is not None:
        found = goal | (moving & (policy[:, -1] > 0.0))
    while True:
        inside = found[chain.successors]
        if chain.unseen is not None:
            inside[:, -1] = False
        if maximise:
            led = ((policy > 0.0) & inside).any(axis=1)
        else:
            outside = ((chain.least + chain.room) * ~inside).sum(axis=1)
            led = ((chain.least > 0.0) & inside).any(axis=1)
            led |= outside < 1.0 - _CERTAIN
        further = found | (moving & led)
        if np.array_equal(further, found):
            return found
        found = further


def _solve(
    chain: IntervalChain, policy: Floats, goal: Bools, unknown: Bools, maximise: bool
) -> Floats:
    """Returns the probability of reaching the goal from the unknown states under one
    policy.
    """
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

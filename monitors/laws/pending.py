"""The pending obligations in the states of a law's automaton, derived from its
transitions alone.

Equivalent laws therefore have the same obligations, whichever way they are written. The
*relieved* state of a state is the same state without its pending obligations.
Candidates are the states that differ from the given state only for a bounded time: on
any further frames, both soon reach the same state, or one of them is violated. The
relieved state is the most lenient candidate that is no more lenient than the law's
initial state. A state's pending obligations are what it forbids beyond its relieved
state. What both states forbid is the law's mode. For example, `always (a -> always not
bad)` changes its mode after `a`, but nothing is pending. The same is true of the
equivalent law `always (once a -> not bad)`.

A pending obligation is broken if the law is violated before the obligation is settled,
and the same frame does not violate the law from the relieved state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.laws.minimal import merge_equivalent, steps_to

MAX_COMPARED = 128
"""The maximum number of states for which all pairs are compared."""

MAX_ROWS = 50_000
"""The maximum number of pairs of a state and its relieved state that are tracked."""

MET, UNMET = 0, 1
"""Rows of a completion: the pending obligation was met, or was not met."""

_Table = NDArray[np.int32]
_Bools = NDArray[np.bool_]


def relieved_states(step: _Table, initial: int, violated: int, guess: _Table) -> _Table:
    """Returns the relieved state of each state; the state itself if nothing is pending.

    Args:
        step: The transitions of a minimal automaton.
        initial: The automaton's initial state.
        violated: The automaton's violated state, or -1.
        guess: The result to return if the automaton is too large to compare all pairs
            of states.
    """
    n = len(step)
    if violated < 0:
        return np.arange(n, dtype=np.int32)
    if n > MAX_COMPARED:
        return guess
    columns = np.unique(step, axis=1).T
    near, within = _soon_the_same(columns, violated), _inclusion(columns, violated)
    alive = np.arange(n) != violated
    first = _at_first(columns, initial, near, within, alive)
    relieved = np.arange(n, dtype=np.int32)
    for state in np.flatnonzero(alive).tolist():
        others = np.flatnonzero(near[state] & alive & within[:, first])
        most = others[within[np.ix_(others, others)].all(axis=0)]
        if most.size:
            relieved[state] = most[0]
    return relieved


def _at_first(
    columns: _Table, initial: int, near: _Bools, within: _Bools, alive: _Bools
) -> int:
    """Returns the state before anything has happened, which has no pending obligation.

    This is the initial state or, if the law constrains only the first frame, a state
    that soon behaves like it.
    """
    again = bool((columns[:, alive] == initial).any())
    if again or within[alive, initial].all():
        return initial
    others = np.flatnonzero(near[initial] & alive)
    most = others[within[np.ix_(others, others)].all(axis=0)]
    return int(most[0]) if most.size else initial


def _soon_the_same(columns: _Table, violated: int) -> _Bools:
    """Returns for each pair [q, m] whether any frames soon lead both states to the same
    state or violate one of them.
    """
    same = np.eye(columns.shape[1], dtype=bool)
    while True:
        same[violated] = same[:, violated] = True
        further = np.ones_like(same)
        for after in columns:
            further &= same[after[:, None], after]
        if (further <= same).all():
            return same
        same = further


def _inclusion(columns: _Table, violated: int) -> _Bools:
    """Returns for each pair [q, m] whether all frames that break the law from m also
    break it from q.
    """
    within = np.ones((columns.shape[1], columns.shape[1]), dtype=bool)
    within[:, violated] = False
    within[violated] = True
    while True:
        further = within.copy()
        for after in columns:
            further &= within[after[:, None], after]
        further[violated] = True
        if (further == within).all():
            return within
        within = further


def completion(
    step: _Table, violated: int, relieved: _Table
) -> tuple[_Table, NDArray[np.int32]]:
    """Returns the table that tracks pending obligations, and the row in which each
    state begins.

    A row is a pair of a state and its relieved state, both of which read further
    letters. If there are too many pairs, only the state is tracked, and an obligation
    that arises while another is pending counts as pending too.
    """
    columns, back = np.unique(step, axis=1, return_inverse=True)
    found = _pairs(columns, violated, relieved)
    table, owed = found if found is not None else _alone(columns, violated, relieved)
    # Rows 0 and 1 are the first of their classes, so they keep their numbers.
    classes = merge_equivalent(table, np.arange(len(table)) == UNMET)
    _, firsts, classes = np.unique(classes, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(firsts))[classes].astype(np.int32)
    least = number[table[np.sort(firsts)]]
    return least[:, back.ravel()], number[owed]


def _pairs(
    step: _Table, violated: int, relieved: _Table
) -> tuple[_Table, NDArray[np.int64]] | None:
    n = len(step)
    large = n > MAX_COMPARED
    if large:
        lasting = _longest_pending(step, violated, relieved)
        fragile = _soonest(step, violated, relieved)
    own = np.arange(n)
    starts = np.flatnonzero((relieved != own) & (own != violated))
    keys = starts * np.int64(n) + relieved[starts]
    known = np.array([-2, -1], np.int64)
    rows: list[NDArray[np.int64]] = []
    order: list[NDArray[np.int64]] = []
    fresh = keys
    while fresh.size:
        q, m = np.divmod(fresh, n)
        after, beside = step[q].astype(np.int64), step[m].astype(np.int64)
        if large:
            # A state that cannot be violated before all obligations are settled may be
            # replaced by the relieved state.
            settled = fragile[beside] > lasting[after]
            settled &= relieved[beside] == relieved[after]
            beside = np.where(settled, relieved[after], beside)
        target = after * n + beside
        # If both states are violated at once, an obligation that arose later may be the
        # cause. The pending one still counts as unmet, unless it cannot be the cause.
        broken = after == violated
        target[(after == beside) | (beside == violated)] = -2
        target[broken & (step[relieved[q]] != violated)] = -1
        rows.append(target)
        order.append(fresh)
        known = np.union1d(known, fresh)
        if len(known) > MAX_ROWS:
            return None
        fresh = np.setdiff1d(target, known)
    numbered = np.concatenate([np.array([-2, -1], np.int64), *order])
    by_key = np.argsort(numbered)

    def number(wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        return by_key[np.searchsorted(numbered, wanted, sorter=by_key)]

    ends = np.repeat(np.array([[MET], [UNMET]]), step.shape[1], axis=1)
    table = np.concatenate([ends, *(number(row) for row in rows)]).astype(np.int32)
    owed = np.zeros(n, np.int64)
    owed[starts] = number(keys)
    if violated >= 0:
        owed[violated] = UNMET
    return table, owed


def _alone(
    step: _Table, violated: int, relieved: _Table
) -> tuple[_Table, NDArray[np.int64]]:
    n = len(step)
    table = np.where(step == step[relieved], MET, step + 2)
    table[(step == violated) & (table != MET)] = UNMET
    ends = np.repeat(np.array([[MET], [UNMET]]), step.shape[1], axis=1)
    own = np.arange(n)
    owed = np.where(relieved == own, MET, own + 2)
    owed[violated] = UNMET
    return np.concatenate([ends, table]).astype(np.int32), owed


def _longest_pending(
    step: _Table, violated: int, relieved: _Table
) -> NDArray[np.float64]:
    """Returns the maximum number of frames for which an obligation stays pending;
    infinite in a cycle.
    """
    going = (step != step[relieved]) & (step != violated)
    # The longest paths, computed backwards from states that every frame settles.
    waiting = going.sum(axis=1)
    longest = np.where(waiting == 0, 0.0, np.inf)
    before: list[list[int]] = [[] for _ in range(len(step))]
    for source, letter in np.argwhere(going).tolist():
        before[step[source, letter]].append(source)
    left, depth = waiting.tolist(), [0] * len(step)
    queue = np.flatnonzero(waiting == 0).tolist()
    for state in queue:
        longest[state] = depth[state]
        for source in before[state]:
            depth[source] = max(depth[source], depth[state] + 1)
            left[source] -= 1
            if left[source] == 0:
                queue.append(source)
    pending = relieved != np.arange(len(step))
    return np.where(pending, longest + 1, 0.0)


def _soonest(step: _Table, violated: int, relieved: _Table) -> NDArray[np.float64]:
    """Returns the minimum number of frames to a violation that the relieved state
    prevents.
    """
    own = np.arange(len(step))[:, None]
    prevented = np.where(step[relieved] != violated, step, own)
    distance = steps_to(prevented, np.arange(len(step)) == violated)
    return np.where(distance < 0, np.inf, distance)

"""Whether the others reject what one contributor counted.

It is the bet of the test for drift (`guarding.drift`), on all of a tally at once: in
each state the stake is what an estimate from the contributor's own transitions gives
the next one, the odds are the highest probability that the counts of all others allow
it. Without forgetting, the product of the bets does not depend on their order, and has
a closed form. In whatever world the bounds hold it is above `1 / rate` with a
probability of at most `rate`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from forewarn.monitors.chains.intervals import binomial_bounds
from forewarn.monitors.fleet.stacking import Ints, Stack
from forewarn.monitors.guarding.drift import FALSE_ALARM_RATE

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_AT_ONCE = 100
"""One in so many is left out at a time, the worst first: then the rest are asked."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A contributor that the others reject.

    Args:
        index: Which of them.
        state: The state whose transitions contradict the others most.
        evidence: How far the bets went: from 1 on, too far.
    """

    index: int
    state: str
    evidence: float


def rejected(
    stack: Stack, delta: float = 0.05, rate: float = FALSE_ALARM_RATE
) -> list[Rejected]:
    """The contributors that the others reject, the worst first.

    Args:
        stack: What each counted. The first is what is there already: nobody rejects it.
        delta: How improbable it may be that the others' bounds miss.
        rate: How improbable it may be that one is rejected wrongly.
    """
    totals = _sums(stack.pair, stack.times, len(stack.before))
    left = np.ones(stack.contributors, bool)
    found: list[Rejected] = []
    while True:
        worst = [
            each for each in _worst(stack, totals, left, delta, rate) if each.index
        ]
        for each in worst[: max(1, int(left.sum()) // _AT_ONCE)]:
            found.append(each)
            left[each.index] = False
            out = stack.who == each.index
            np.subtract.at(totals, stack.pair[out], stack.times[out])
        if not worst:
            return found


def _worst(
    stack: Stack, totals: Floats, left: Bools, delta: float, rate: float
) -> list[Rejected]:
    """Those of the contributors left whom the others left reject, the worst first."""
    states = len(stack.states)
    groups = stack.contributors * states
    state_of = np.tile(np.arange(states), stack.contributors)
    entries = left[stack.who]
    pair, times = stack.pair[entries], stack.times[entries]
    # One contributor's transitions out of one state.
    group = stack.who[entries] * states + stack.before[pair]
    others = totals[pair] - times
    known = others > 0
    visits = _sums(stack.before, totals, states)[state_of]
    visits = visits - _sums(group, times, groups)
    outside = _sums(group[~known], times[~known], groups)
    # The others' successors, and one place for all that they never saw.
    places = _sums(stack.before, totals > 0, states)[state_of] + 1.0
    spread = 1.0 / (places - _sums(group[~known], None, groups))
    group, times, others = group[known], times[known], others[known]
    stakes = (
        _sums(group, _urn(times, spread[group]), groups)
        + np.where(outside > 0, _urn(outside, spread), 0.0)
        - gammaln(_sums(group, times, groups) + outside + 1.0)
    )
    tail = delta / max(int((totals > 0).sum()) + states, 1)
    with np.errstate(divide="ignore"):
        most = np.where(visits > 0, -np.expm1(np.log(tail) / visits), 1.0)
    gained = stakes - outside * np.log(most)
    # A frequency lies below its bound: who passes by it passes by the bound.
    odds = np.log(others / visits[group])
    limit = np.log(max(states, 1)) - np.log(rate)
    doubtful = (gained - _sums(group, times * odds, groups) > limit)[group]
    if doubtful.any():
        bounds = binomial_bounds(others[doubtful], visits[group[doubtful]], tail)
        odds[doubtful] = np.log(bounds[1])
    reached = (gained - _sums(group, times * odds, groups)) / limit
    found: dict[int, Rejected] = {}
    for at in np.argsort(-reached)[: int((reached > 1.0).sum())].tolist():
        index, state = at // states, stack.states[at % states]
        found.setdefault(index, Rejected(index, state, float(reached[at])))
    return list(found.values())


def _sums(index: Ints, values: Floats | Bools | None, length: int) -> Floats:
    """The sum of the values of each index; without values, how many there are."""
    return np.bincount(index, values, length).astype(np.float64)


def _urn(times: Floats, share: Floats) -> Floats:
    """The logarithm of share (share + 1) … (share + times - 1)."""
    return np.asarray(gammaln(times + share) - gammaln(share))

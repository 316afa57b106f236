"""The others reject who saw another world, and hardly ever who saw theirs."""

import numpy as np
import pytest

from forewarn.monitors.chains.intervals import binomial_bounds
from forewarn.monitors.chains.learning import Tally
from forewarn.monitors.fleet import merging as rejecting
from forewarn.monitors.fleet.merging import Rejected, Stack
from tests.monitors.fleet.cases import NAMES, TRUE, named, of, walked


def rejected(base: Tally, tallies: list[Tally], **rate: float) -> list[Rejected]:
    stack = Stack.of([named(each, "any") for each in (base, *tallies)])
    return rejecting.rejected(stack, **rate)


def test_the_evidence_is_what_bets_on_each_transition_gain() -> None:
    base = of(["a", "b"] * 200 + ["a"] * 30 + ["c", "a"])
    own = of(["a", "c", "a", "d", "a", "c", "a", "c", "a", "a", "b"] * 3)
    names = "abcd"
    row = base.seen["a"]
    visits, states = sum(row.values()), 4
    pairs = {(i, j) for each in (base, own) for i in each.seen for j in each.seen[i]}
    tail = 0.05 / (len(pairs) + states)
    hits = np.array([row.get(name, 0) for name in names], np.float64)
    _, high = binomial_bounds(hits, np.full(4, float(visits)), tail)
    outside = 1 - tail ** (1 / visits)
    highest = {i: high[i] for i in range(4) if hits[i]}
    # One pseudo-count is spread over what the others know, and the rest.
    counted = dict.fromkeys([*highest, None], 1 / (len(highest) + 1))
    gained = 0.0
    for after, times in own.seen["a"].items():
        i = names.index(after) if names.index(after) in highest else None
        odds = outside if i is None else highest[i]
        for _ in range(times):
            gained += np.log(counted[i] / sum(counted.values()) / odds)
            counted[i] += 1
    rate = 0.5
    found = rejected(base, [own], rate=rate)
    assert [each.state for each in found] == ["a"]
    limit = np.log(states) - np.log(rate)
    assert found[0].evidence == pytest.approx(gained / limit)


def test_tally_of_the_same_world_is_hardly_ever_rejected() -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        tallies = [walked(TRUE, steps, rng) for steps in (50, 500, 5_000)]
        assert not rejected(Tally(), tallies)


@pytest.mark.parametrize("odd", [1, 5])
def test_the_majority_stays(odd: int) -> None:
    rng = np.random.default_rng(4)
    changed = TRUE.copy()
    changed[2] = [0.1, 0.0, 0.8, 0.1]
    tallies = [walked(changed, 5_000, rng) for _ in range(odd)]
    tallies += [walked(TRUE, 5_000, rng) for _ in range(12)]
    found = rejected(Tally(), tallies)
    assert sorted(each.index for each in found) == list(range(1, odd + 1))
    assert {each.state for each in found} == {NAMES[2]}


def test_what_only_one_has_seen_is_nothing_against_it() -> None:
    assert not rejected(of(["a", "b"] * 50), [of(["c", "d"] * 500)])


def test_transition_that_no_other_tally_has_is_rejected() -> None:
    found = rejected(of(["a", "b"] * 5_000), [of(["a", "c"] * 50)])
    assert [each.state for each in found] == ["a"]


def test_empty_tally_is_not_a_contributor() -> None:
    assert not rejected(of(["a", "b"]), [])
    assert not rejected(Tally(), [Tally()])

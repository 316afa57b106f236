"""The sequential rule: its figures, its stopping and its coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.scenarios.running.sampling import SequentialEstimate, massart, okamoto

PROBABILITIES = (0.0, 0.02, 0.1, 0.3, 0.5, 0.62, 0.9, 1.0)


def test_the_formula_of_the_worked_example() -> None:
    # epsilon = 0.1 and delta = 0.05 over five states: 200 ln 200 = 1059.7.
    assert 200 * math.log(200) == pytest.approx(1059.7, abs=0.05)
    assert massart(1 / 4, 0.1, 0.01) == pytest.approx(229.3, abs=0.05)
    assert massart(151 / 184, 0.1, 0.01) == pytest.approx(196.6, abs=0.05)
    assert okamoto(0.1, 0.01) == 265


def test_it_asks_for_most_near_one_half_and_never_for_more_than_okamoto() -> None:
    needed = np.array([massart(rate, 0.05, 0.05) for rate in np.linspace(0, 1, 101)])
    assert needed.argmax() in range(45, 56)
    assert (needed > 0).all() and needed.max() <= okamoto(0.05, 0.05)
    assert needed[0] < 0.15 * okamoto(0.05, 0.05)


def test_it_stops_at_the_first_sufficient_trial_and_then_counts_no_more() -> None:
    rule = SequentialEstimate(0.1, 0.05)
    assert rule.estimate is None and rule.needed == okamoto(0.1, 0.05) == 185
    assert rule.sentence() == "There are no trials yet; at most 185 are needed."
    stopped = [rule.add(False) for _ in range(60)].index(True) + 1
    # With no hits, H is 737.8 (1/4 - (1/2 - 1/15)^2) = 45.9.
    assert stopped == rule.trials == 46 and rule.hits == 0
    assert rule.add(True) and rule.trials == 46
    assert rule.sentence() == (
        "0 of 46 trials: the probability is 0, with an error of at most 0.1 at"
        " confidence 0.95."
    )


def test_it_says_how_many_more_at_this_rate() -> None:
    rule = SequentialEstimate(0.1, 0.05)
    for outcome in (True, False):
        assert not rule.add(outcome)
    assert (
        rule.sentence()
        == "1 of 2 trials: too few to stop; at this rate 182 are needed."
    )


def test_none_seen_is_not_never() -> None:
    rule = SequentialEstimate(0.1, 0.05)
    for _ in range(25):
        rule.add(False)
    # At 0.1129 each, 25 trials show none in one case of twenty.
    told = "Without any hit, the probability may still be up to 0.11."
    assert rule.sentence().endswith(f"needed. {told}")
    assert (1 - 0.1129) ** 25 == pytest.approx(0.05, abs=1e-4)


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0.1), (0.1, 1), (-1, 0.1)])
def test_risks_outside_the_unit_interval_are_refused(
    epsilon: float, delta: float
) -> None:
    with pytest.raises(InvalidInput, match=", but must be between 0 and 1"):
        SequentialEstimate(epsilon, delta)


def error_rate(truth: float, epsilon: float, delta: float, runs: int) -> float:
    rng = np.random.default_rng(round(truth * 1000))
    wrong = 0
    for _ in range(runs):
        rule = SequentialEstimate(epsilon, delta)
        for outcome in rng.random(okamoto(epsilon, delta) + 1) < truth:
            if rule.add(outcome):
                break
        assert rule.enough and rule.estimate is not None
        wrong += abs(rule.estimate - truth) > epsilon
    return wrong / runs


@pytest.mark.parametrize("truth", PROBABILITIES)
def test_the_sequential_rule_covers(truth: float) -> None:
    assert error_rate(truth, epsilon=0.1, delta=0.05, runs=200) <= 0.05
    # Asked for nearly nothing it is wrong at times, so the rate can be seen at all.
    if truth == 0.5:
        assert error_rate(truth, epsilon=0.1, delta=0.9, runs=200) > 0.05


@pytest.mark.soak
@pytest.mark.parametrize("truth", PROBABILITIES)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.05), (0.1, 0.01)])
def test_the_sequential_rule_covers_in_many_runs(
    truth: float, epsilon: float, delta: float
) -> None:
    assert error_rate(truth, epsilon, delta, runs=2000) <= delta

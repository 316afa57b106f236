"""Evidence is fair while rates are kept, grows when they are not, and can be kept."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom, binom

from forewarn.monitors.evaluation.evidence import InvalidEvidence, Rate, Reference

PROMISED = Reference(promised=0.1)
COUNTED = Reference(happened=50, runs=500)


def after(reference: Reference, outcomes: list[bool], level: float = 0.01) -> Rate:
    rate = Rate(reference, level)
    for each in outcomes:
        rate.observe(each)
    return rate


@pytest.mark.parametrize("more", [0, 1, 7, 60])
def test_chances_are_those_of_the_binomial_and_the_beta_binomial(more: int) -> None:
    expected = binom(more, 0.1).pmf(range(more + 1))
    assert PROMISED.chances(3, 9, more) == pytest.approx(expected)
    assert PROMISED.chances(3, 9, more, 4) == pytest.approx(expected[4:])
    expected = betabinom(more, 26 + 3, 226 + 6).pmf(range(more + 1))
    assert COUNTED.chances(3, 9, more) == pytest.approx(expected)
    assert COUNTED.chances(3, 9, more, 4) == pytest.approx(expected[4:])


@settings(max_examples=15, deadline=None)
@given(
    st.one_of(
        st.floats(0.005, 0.95).map(lambda p: Reference(promised=p)),
        st.integers(0, 400).map(lambda k: Reference(happened=k, runs=400)),
    ),
    st.integers(0, 510),
    st.randoms(use_true_random=False),
)
def test_every_bet_is_fair(reference: Reference, runs: int, random: object) -> None:
    """So that no way to stop makes the evidence large without a reason."""
    share = reference.promised or reference.happened / 400 + 0.05
    rng = np.random.default_rng(random.getrandbits(32))  # type: ignore[attr-defined]
    before = (rng.random(runs) < share).tolist()
    now = after(reference, before)
    _, chance = reference.chances(now.happened, now.runs, 1)
    won = after(reference, [*before, True]).evidence
    lost = after(reference, [*before, False]).evidence
    expected = chance * won + (1 - chance) * lost
    assert expected == pytest.approx(now.evidence, rel=1e-6)
    assert lost <= now.evidence * (1 + 1e-6), "so only what happens can be too much"


def deployments(share: float, runs: int, times: int, seed: int) -> list[list[bool]]:
    rng = np.random.default_rng(seed)
    return (rng.random((times, runs)) < share).tolist()


def test_a_rate_that_doubles_is_found() -> None:
    found = [
        after(PROMISED, each).exceeded for each in deployments(0.2, 200, 20, seed=1)
    ]
    assert sum(found) >= 16


def test_a_kept_rate_is_not_reported_as_exceeded() -> None:
    for each in deployments(0.1, 510, 5, seed=2):
        assert not after(PROMISED, each).exceeded
        assert not after(COUNTED, each).exceeded


def test_a_change_that_comes_late_is_found_too() -> None:
    rng = np.random.default_rng(3)
    quiet = after(PROMISED, (rng.random(2000) < 0.1).tolist())
    assert not quiet.exceeded
    for each in rng.random(800) < 0.25:
        quiet.observe(bool(each))
    assert quiet.exceeded


def test_an_exceeded_rate_stays_exceeded() -> None:
    rate = after(PROMISED, [True] * 60)
    assert rate.exceeded
    for _ in range(2000):
        rate.observe(False)
    assert rate.exceeded


def test_few_training_runs_are_poor_evidence() -> None:
    few = Reference(happened=2, runs=20)
    runs = [True, *[False] * 4] * 20
    assert after(few, runs).evidence < after(COUNTED, runs).evidence


def test_evidence_resumes_where_it_stopped() -> None:
    rate = after(COUNTED, [True, False, False] * 80, level=0.02)
    kept = Rate.from_dict(json.loads(json.dumps(rate.as_dict())), "state.json")
    for each in (rate, kept):
        each.observe(True)
    assert (kept.evidence, kept.most, kept.level) == (rate.evidence, rate.most, 0.02)


@pytest.mark.parametrize(
    "wrong",
    [
        {"outcomes": "012"},
        {"level": 0.0},
        {"reference": {"promised": 0.0}},
        {"reference": {"happened": 3, "runs": 2}},
    ],
)
def test_evidence_that_was_not_written_is_rejected(wrong: dict[str, object]) -> None:
    content = {**after(PROMISED, [True]).as_dict(), **wrong}
    with pytest.raises(InvalidEvidence):
        Rate.from_dict(content, "state.json")

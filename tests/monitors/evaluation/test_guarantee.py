"""Guarantees about guarded runs: how many runs they take, and what they say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from forewarn.monitors.evaluation.figures import runs_for, suffices
from forewarn.monitors.evaluation.guarantee import Guarantee, bound
from forewarn.monitors.guarding.policy import Policy, Step, load_policy, write_policy

CERTIFIED = Guarantee(
    violating=0.01, slowed=0.1, confidence=0.95, runs=628, broke=2, prolonged=40,
    seeds=(7, 634), scenario="s4", pilot="sumo-driver", drawn="d", model="m",
    policy="p",
)  # fmt: skip


def test_number_of_runs_that_certifies_one_percent() -> None:
    assert [runs_for(found, 0.01) for found in (0, 1, 2)] == [299, 473, 628]


@given(
    st.integers(0, 5), st.floats(0.005, 0.5), st.floats(0.8, 0.99), st.integers(1, 900)
)
def test_a_share_is_certified_only_where_few_would_find_so_little(
    part: int, allowed: float, confidence: float, whole: int
) -> None:
    fewest = runs_for(part, allowed, 1 - confidence)
    chance = float(binom.cdf(part, whole, allowed))
    if not math.isclose(chance, 1 - confidence, rel_tol=1e-6):
        assert (whole >= fewest) == (chance <= 1 - confidence)


@given(st.integers(0, 20), st.integers(21, 900), st.floats(0.01, 0.9))
def test_the_suggested_number_of_runs_exceeds_the_present_one(
    part: int, whole: int, allowed: float
) -> None:
    enough = suffices(part, whole, allowed)
    if enough is None:
        assert part / whole >= allowed
    elif bound(part, whole, allowed, 0.95) > allowed:
        assert enough > whole


def test_a_guarantee_states_its_rates_and_runs() -> None:
    assert CERTIFIED.certified
    assert CERTIFIED.sentence() == (
        "With 95 % confidence, at most 1 % of runs break a law and at most 10 % are"
        " slowed by more than 10 %, if runs are drawn in the same way, with this pilot,"
        " model and policy (2 and 40 of 628 held-out runs did)."
    )
    alone = CERTIFIED.model_copy(update={"slowed": 1.0, "prolonged": 628})
    assert alone.certified
    assert "slowed" not in alone.sentence()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (
            {"broke": 3},
            "3 of 628 runs broke a law, too many to certify at most 1 %: 1052",
        ),
        ({"broke": 7}, "at most 1 %: no number of runs suffices at this rate"),
        ({"prolonged": 60}, "60 of 628 runs were slowed by more than 10 %"),
    ],
)
def test_a_failed_guarantee_states_the_reason(
    changed: dict[str, int], why: str
) -> None:
    (said,) = CERTIFIED.model_copy(update=changed).lacking()
    assert why in said


def test_a_certified_policy_is_wrong_as_rarely_as_it_says() -> None:
    rng, allowed, runs = np.random.default_rng(3), 0.02, 313
    for truth, most in ((0.0201, 0.05), (0.05, 0.001)):
        drawn = rng.binomial(runs, truth, 20_000)
        stated = drawn <= max(k for k in range(4) if runs_for(k, allowed) <= runs)
        assert stated.mean() <= most * 1.1


def test_a_guarantee_in_a_policy_is_void_for_another_policy(tmp_path: Path) -> None:
    acting = Policy(rules={"law": (Step("stop", 0.5),)})
    kept = CERTIFIED.model_copy(update={"policy": acting.digest})
    path = tmp_path / "p.yaml"
    write_policy(path, replace(acting, kept=kept, name="certified"))
    read = load_policy(path)
    assert read.kept == kept
    assert kept.holds("d", "m", replace(read, shadow=True).digest)
    for changed in (
        replace(read, hold_s=1.0), replace(read, rules={"law": (Step("stop", 0.6),)})
    ):  # fmt: skip
        assert not kept.holds("d", "m", changed.digest)
    assert not kept.holds("d", "other", read.digest)

"""What is guaranteed of a threshold holds of runs to come; refusals say what helps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.evaluation.certified import (
    Asked,
    Guarantee,
    Lack,
    alike,
    certify,
    judge,
    over_groups,
)
from forewarn.monitors.evaluation.figures import at_most, suffices
from forewarn.monitors.evaluation.warned import Broken, Climb
from forewarn.monitors.risk.calibration import Calibration

ASKED = Asked(0.1, 0.5, 0.9)


def climbs(clean: list[float], violating: list[float]) -> list[Climb]:
    """Runs whose risk rose so high; the violating ones were so risky in time."""
    kept = [Climb(i, 10.0, ((1.0, top),), None) for i, top in enumerate(clean)]
    broken = Broken("law", 9.0, 8.0)
    return kept + [
        Climb(len(kept) + i, 10.0, ((1.0, top), (8.5, 1.0)), broken)
        for i, top in enumerate(violating)
    ]


def test_of_many_certificates_few_are_broken() -> None:
    """Half of the error goes to each rate, so no more than all of it goes wrong."""
    random, issued, broken = np.random.default_rng(3), 0, 0
    for _ in range(300):
        found = certify(
            "law", climbs(list(random.random(120)), list(random.random(25) ** 0.05)),
            ASKED,
        )  # fmt: skip
        if found.lacks or found.threshold is None:
            continue
        issued += 1
        # Of runs to come, as they are drawn: uniform, and its 20th root.
        clean, missed = 1.0 - found.threshold, found.threshold**20
        broken += clean > 0.1 or missed > 0.5
    assert issued > 100
    assert broken <= 0.1 * issued


def test_the_threshold_is_the_lowest_that_the_binomial_bound_allows() -> None:
    tops = [i / 200 for i in range(200)]
    found = certify("law", climbs(tops, [0.99] * 20), ASKED)
    assert found.threshold is not None
    (alarms, _) = found.guarantees
    assert alarms.bound == at_most(alarms.failures, 200, ASKED.delta) <= 0.1
    assert at_most(alarms.failures + 1, 200, ASKED.delta) > 0.1


def test_too_few_clean_runs_say_how_many_more() -> None:
    found = certify("law", climbs([0.1] * 20, [0.9] * 20), ASKED)
    (lack,) = found.lacks
    assert found.threshold is None and lack.more is not None
    enough = certify("law", climbs([0.1] * (20 + lack.more), [0.9] * 20), ASKED)
    assert enough.lacks == ()
    less = certify("law", climbs([0.1] * (19 + lack.more), [0.9] * 20), ASKED)
    assert less.lacks


def test_a_guard_that_misses_too_many_is_refused() -> None:
    found = certify("law", climbs([0.2] * 99, [0.9] * 6 + [0.1] * 6), ASKED)
    (lack,) = found.lacks
    assert lack.rate == "missed" and lack.more is None
    assert "6 of 12 violating runs are missed" in lack.sentence()


def test_runs_that_fit_the_curve_may_set_the_threshold_too() -> None:
    """A rising curve keeps the order of heights, whatever made it of these runs."""
    random, broken = np.random.default_rng(6), 0
    for _ in range(400):
        heights = random.random(60)
        # The curve puts the highest run that it was fitted to far below.
        top = float(heights[:30].max())
        curve = Calibration(((top - 0.01, 0.1), (top, 0.2)))
        tops = [float(each) for each in curve(heights)]
        found = certify("law", climbs(tops, []), Asked(0.1, None, 0.9))
        assert found.threshold is not None
        said, meant = zip((0, 0), *curve.points, (1, 1), strict=True)
        broken += 1 - np.interp(found.threshold, meant, said) > 0.1
    assert broken <= 0.1 * 400 + 12


def test_no_threshold_is_higher_than_the_model_reaches() -> None:
    """Other runs' folds may climb higher than the model that is deployed."""
    asked = Asked(0.1, None, 0.95)

    def found(tops: list[float], reach: float) -> tuple[float | None, str]:
        kept = climbs([*tops, *[0.1] * (40 - len(tops))], [])
        settled = certify("law", kept, asked, reach)
        return settled.threshold, "; ".join(lack.reason for lack in settled.lacks)

    assert found([0.3, 0.2], 0.789) == (0.301, "")
    # Between the height of what must be spared and the reach there is the reach alone.
    assert found([0.3995, 0.2], 0.3999) == (0.3999, "")
    at, why = found([0.4, 0.4], 0.4)
    assert (
        at is None
        and "2 of 40 clean runs reach this risk; 67 more clean runs are needed" in why
    )
    at, why = found([], 0.001)
    assert at is None and why == "the risk never exceeds 0.001 before a violation"


def test_a_risk_that_clean_runs_reach_too_is_refused() -> None:
    found = certify("law", climbs([0.9] * 99, [0.9] * 30), ASKED, reach=0.9)
    (lack,) = found.lacks
    assert "never exceeds 0.9" in lack.why and lack.more is None


@given(st.integers(0, 40), st.integers(0, 60), st.floats(0.02, 0.6))
def test_reported_lack_is_the_smallest_sufficient_number(
    failures: int, more: int, most: float
) -> None:
    runs = failures + more
    found = judge("law", "missed", failures, runs, most, 0.05)
    if isinstance(found, Guarantee):
        assert found.bound <= most
        return
    assert isinstance(found, Lack)
    needed = suffices(failures, runs, most, 0.05)
    assert (found.more is None) == (needed is None)


def test_the_bound_over_groups_holds_though_runs_within_are_alike() -> None:
    """Ten alike runs a driver are no ten times as much evidence."""
    random, wrong = np.random.default_rng(5), 0
    for _ in range(200):
        bad = random.random(20) < 0.2
        _, bound = over_groups([(10 * int(each), 10) for each in bad], 0.1)
        wrong += bound < 0.2
    assert wrong <= 20


@pytest.mark.parametrize(("parts", "differ"), [([9, 0, 1], True), ([3, 4, 3], False)])
def test_groups_differ_where_chance_hardly_explains_it(
    parts: list[int], differ: bool
) -> None:
    assert (alike([(part, 20) for part in parts]) < 0.05) is differ

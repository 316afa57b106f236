"""Detections, warning times and false alarms, against series made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.evaluation.figures import (
    bootstrap,
    mean_interval,
    rate,
    spread,
    wilson,
)
from forewarn.monitors.evaluation.warned import (
    Broken,
    Warned,
    WarnedRun,
    alarms,
    warned_early,
    warned_run,
)
from forewarn.monitors.guarding.policy import Step
from forewarn.scenarios.measuring.measure import outcomes
from forewarn.scenarios.running.series import Series

HALF = Step("alert", 0.5)


def run(
    risks: list[float],
    trigger: float | None = None,
    violation: float | None = None,
    forced: frozenset[int] = frozenset(),
    step: Step = HALF,
) -> WarnedRun:
    """A run with a frame a second; an invariant where only the violation is given."""
    broken = None
    if violation is not None:
        since = violation if trigger is None else trigger
        broken = Broken("law", violation, since)
    times = [float(i) for i in range(len(risks))]
    flags = alarms(risks, step.threshold, forced, step.inclusive)
    return warned_run(times, flags, broken)


@pytest.mark.parametrize(
    ("risks", "trigger", "violation", "alarm", "detected"),
    [
        ([0.1, 0.2, 0.6, 0.6], 3, 5, 2, True),
        ([0.1, 0.2, 0.3, 0.6], 3, 5, 3, False),  # at the trigger is too late
        ([0.1, 0.2, 0.3, 0.4, 0.6], 3, 5, 4, False),
        ([0.6, 0.1, 0.1, 0.1], 3, 5, 0, True),  # the first alarm counts
        ([0.1, 0.1, 0.1, 0.1], 3, 5, None, False),
        ([0.1, 0.5, 0.1, 0.1], None, 2, 1, True),  # at the threshold it alarms
        ([0.1, 0.1, 1.0], None, 2, 2, False),  # at the violation is too late
        ([0.1, math.nan, 0.1, 1.0], None, 3, 1, True),  # no number is an alarm
    ],
)
def test_detected_is_what_was_warned_of_strictly_before_its_trigger(
    risks: list[float],
    trigger: float | None,
    violation: float,
    alarm: float | None,
    detected: bool,
) -> None:
    found = run(risks, trigger, violation)
    assert (found.alarm_s, found.detected) == (alarm, detected)


def test_the_papers_form_does_not_count_the_threshold_itself() -> None:
    paper = Step("alert", 0.5, inclusive=False)
    assert run([0.5, 0.6], step=paper).alarm_s == 1
    assert run([0.5, 0.5], step=paper).alarm_s is None


def test_forced_interventions_are_alarms_at_any_threshold() -> None:
    assert run([0.0, 0.0, 0.0], forced=frozenset({1})).alarm_s == 1


def test_alarms_are_counted_as_they_begin() -> None:
    assert run([0.6, 0.6, 0.1, 0.6, 0.1]).onsets == 2
    assert run([0.1, 0.1]).onsets == 0


def test_the_figures_of_a_small_case() -> None:
    found = Warned(
        (
            run([0.1, 0.6, 0.6, 0.6, 0.6], 4, 6),  # 3 s to the trigger, 5 to the end
            run([0.1, 0.1, 0.1, 0.6, 0.6], 4, 6),  # 1 s, 3 s
            run([0.1, 0.1, 0.1, 0.1, 0.6], 4, 6),  # missed
            run([0.1, 0.6, 0.1, 0.6, 0.1]),  # a false alarm, twice
            run([0.1, 0.1, 0.1, 0.1, 0.1]),
            run([0.1, 0.1, 0.1, 0.1, 0.1]),
            run([0.1, 0.1, 0.1, 0.1, 0.1]),
        )
    ).as_dict(2.0)
    assert (found["violating"], found["clean"]) == (3, 4)
    assert (found["detected"], found["missed"]) == (2, 1)
    assert found["early"] == 1, "3 s before, where the risk looks 2 s ahead"
    assert found["awt_trigger_s"] == {"mean": 2, "median": 2, "p10": 1.2, "max": 3}
    assert found["awt_violation_s"] == {"mean": 4, "median": 4, "p10": 3.2, "max": 5}
    assert found["detection_rate"] == pytest.approx(2 / 3)
    assert (found["false_alarms"], found["false_alarm_rate"]) == (1, 0.25)
    assert found["false_alarms_per_hour"] == pytest.approx(2 / (4 * 4 / 3600))
    assert found["base_rate"] == pytest.approx(3 / 7)
    low, high = found["intervals"]["awt_trigger_s"]
    assert 1 <= low <= 2 <= high <= 3


def test_alarms_earlier_than_the_horizon_are_reported() -> None:
    row = {"early": 2, "detected": 5}
    assert warned_early(row, 3.0) == (
        "2 of 5 detected violations had an alarm more than 3 s before the trigger,"
        " which is beyond the risk's horizon"
    )
    assert warned_early({"early": 0, "detected": 5}, 3.0) is None


def test_figures_without_runs_are_none() -> None:
    found = Warned((run([0.1, 0.1]),)).as_dict(3.0)
    assert found["awt_trigger_s"] == dict.fromkeys(("mean", "median", "p10", "max"))
    assert found["detection_rate"] is None
    assert found["intervals"]["detection_rate"] is None
    assert found["intervals"]["awt_trigger_s"] is None
    assert Warned((run([0.1], 3, 5),)).as_dict(3.0)["false_alarm_rate"] is None


RISKS = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@given(RISKS, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_never_alarms_sooner(
    risks: list[float], one: float, other: float
) -> None:
    low, high = sorted((one, other))
    sooner = run(risks, step=Step("alert", low)).alarm_s
    later = run(risks, step=Step("alert", high)).alarm_s
    assert later is None or (sooner is not None and sooner <= later)


# -- what a risk foretells -------------------------------------------------------------


def foretold(broken: Broken | None, horizon_s: float, frames: int = 10) -> list[int]:
    series = Series([float(i) for i in range(frames)], {"law": [0.5] * frames})
    _, happened = outcomes(series, "law", broken, horizon_s)
    return happened.astype(int).tolist()


def test_the_outcome_of_a_risk_covers_its_horizon() -> None:
    # The obligation arises at 4 s and is broken at 7 s; after that nothing counts.
    assert foretold(Broken("law", 7, 4), 2) == [0, 0, 1, 1, 1, 1, 1, 1]
    assert foretold(Broken("law", 6, 6), 2) == [0, 0, 0, 0, 1, 1, 1]
    assert foretold(None, 2) == [0] * 10
    # Decided after the end, by repeating the last frame.
    assert foretold(Broken("law", 12, 9), 1) == [0] * 8 + [1, 1]


def test_times_that_are_rounded_do_not_shift_a_frame() -> None:
    times = [round(0.1 * i, 1) for i in range(60)]
    series = Series(times, {"law": [0.0] * 60})
    for steps in range(40, 60):
        broken = Broken("law", times[steps], times[steps])
        _, happened = outcomes(series, "law", broken, 3.0)
        assert happened.sum() == 31 and len(happened) == steps + 1


# -- intervals -------------------------------------------------------------------------


def test_wilsons_interval_against_published_figures() -> None:
    # Newcombe 1998, table I: 81 of 263 and 15 of 148, at 95 %.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0, 0.1611), abs=5e-5)
    assert wilson(29, 29) == pytest.approx((0.8830, 1), abs=5e-5)
    assert wilson(0, 0) is None and rate(0, 0) is None


@given(st.integers(1, 300), st.data())
def test_wilsons_interval_holds_the_share(whole: int, data: st.DataObject) -> None:
    part = data.draw(st.integers(0, whole))
    found = wilson(part, whole)
    assert found is not None
    assert 0 <= found[0] <= part / whole <= found[1] <= 1


@pytest.mark.parametrize("whole", [20, 50, 200])
def test_wilsons_interval_covers_the_share_on_average(whole: int) -> None:
    """Weighed exactly: as often as it says on average, and less at single shares."""
    from scipy.stats import binom

    ends = np.array([wilson(part, whole) for part in range(whole + 1)], float)
    covered = []
    for share in np.arange(0.005, 1.0, 0.01):
        inside = (ends[:, 0] <= share) & (share <= ends[:, 1])
        covered.append(binom.pmf(np.arange(whole + 1), whole, share)[inside].sum())
    assert np.mean(covered) > 0.945
    assert 0.8 < np.min(covered) < 0.95


def test_the_bootstrap_covers_a_mean() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(60):
        found = mean_interval(rng.normal(2.0, 1.0, 50))
        assert found is not None
        held += found[0] <= 2.0 <= found[1]
    assert held >= 50
    assert mean_interval(np.array([])) is None
    assert mean_interval(np.array([math.nan])) is None
    assert mean_interval(np.array([1.0, math.nan])) == (1.0, 1.0)
    assert bootstrap(3, lambda draws: np.full(len(draws), math.nan)) is None


def test_spread_of_a_single_value() -> None:
    assert spread([2.0]) == {"mean": 2, "median": 2, "p10": 2, "max": 2}

"""Tuning: thresholds against brute force, folds, a policy that keeps its promise."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import read_json, write_json
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.scenarios.measuring.recorded import recorded_runs
from forewarn.scenarios.measuring.warning_times import alarms, warned_run
from forewarn.scenarios.running.pool import Here
from forewarn.scenarios.running.series import Series
from forewarn.scenarios.running.truth import Broken
from forewarn.scenarios.schema import load_scenario
from forewarn.scenarios.training.thresholds import (
    LOWEST_THRESHOLD,
    Climb,
    climb,
    threshold,
)
from forewarn.scenarios.training.tune import (
    WORSE,
    training_runs,
    tune,
    tuned_policy,
)
from tests.scenarios import learned

ROAD = load_scenario("tiny-road")
RISKS = st.lists(st.floats(0, 1) | st.just(math.nan), min_size=1, max_size=10)


@given(RISKS, st.sets(st.integers(0, 9)), st.floats(LOWEST_THRESHOLD, 1))
def test_a_climb_tells_all_that_thresholds_need(
    risks: list[float], forced: set[int], at: float
) -> None:
    times = [0.5 * i for i in range(len(risks))]
    held = frozenset(i for i in forced if i < len(risks))
    series = Series(times, {"law": risks}, held)
    broken = Broken("law", 2.0, 1.0)
    found = climb(series, "law", 7, broken).warned(at)
    direct = warned_run(times, alarms(risks, Step("alert", at), held), broken)
    assert (found.alarm_s, found.detected) == (direct.alarm_s, direct.detected)
    assert (found.duration_s, found.broken) == (direct.duration_s, broken)


def clean(top: float) -> Climb:
    return Climb(1, 9.0, ((0.0, top),), None)


def alarmed(climbs: list[Climb], at: float) -> int:
    return sum(each.warned(at).alarm_s is not None for each in climbs)


TOPS = st.lists(st.integers(0, 1100).map(lambda n: n / 1000), min_size=1, max_size=30)


@given(TOPS, st.floats(0, 1))
def test_the_threshold_is_the_lowest_that_keeps_the_rate(
    tops: list[float], allowed: float
) -> None:
    climbs = [clean(top if top <= 1 else math.inf) for top in tops]
    most = math.floor(allowed * len(climbs) + 1e-9)
    fine = [
        at / 1000
        for at in range(int(1000 * LOWEST_THRESHOLD), 1001)
        if alarmed(climbs, at / 1000) <= most
    ]
    assert threshold(climbs, allowed) == (fine[0] if fine else 1.0)


def test_violating_runs_do_not_raise_the_threshold() -> None:
    broken = Climb(2, 9.0, ((0.0, 0.9),), Broken("law", 5, 5))
    assert threshold([broken, clean(0.2), clean(0.1)], 0.0) == 0.201
    assert threshold([broken], 0.0) == LOWEST_THRESHOLD


def test_the_policy_keeps_the_rate_on_runs_it_was_not_tuned_on(tmp_path: Path) -> None:
    paths = recorded_runs(learned.traces("tiny-road"))
    model = learned.model("tiny-road")
    allowed = 0.05
    found = tune(ROAD, model, paths, allowed, [1.0, 3.0], Policy(), folds=4)
    assert sorted(each.horizon_s for each in found) == [1.0, 3.0]
    assert found[0].in_time >= found[1].in_time - WORSE
    for each in found:
        assert each.seeds == tuple(range(learned.SEEDS))
        for warned in each.warned.values():
            assert len(warned.runs) == learned.SEEDS
            rate = warned.false_alarm_rate
            assert rate is not None and rate <= allowed
    policy = tuned_policy(found[0], Policy(), "stop", "tuned")
    assert Policy.from_dict(policy.as_dict(), "x") == policy
    assert policy.horizon_s == found[0].horizon_s
    assert policy.steps_for("no_collision") == (
        Step("stop", found[0].thresholds["no_collision"]),
    )


def test_out_of_fold_a_run_is_judged_by_a_model_that_does_not_know_it() -> None:
    """With as many folds as runs, each run's own states can be unknown."""
    paths = recorded_runs(learned.traces("tiny-kitchen"))[:6]
    kitchen, model = load_scenario("tiny-kitchen"), learned.model("tiny-kitchen")
    stops = Policy(unknown_state="stop")
    (found,) = tune(kitchen, model, paths, 1.0, [3.0], stops, folds=6)
    (warned,) = found.warned.values()
    # Six robots know little of each other; one model of all would know every state.
    assert any(run.alarm_s == 0 or run.alarm_s for run in warned.clean)


def test_too_few_runs_for_the_folds_are_refused() -> None:
    with pytest.raises(InvalidInput, match="2 runs cannot be dealt into 5 folds"):
        paths = recorded_runs(learned.traces("tiny-road"))[:2]
        tune(ROAD, learned.model("tiny-road"), paths, 0.1, [3.0], Policy())


def test_training_runs_come_out_again_or_are_refused(tmp_path: Path) -> None:
    model = learned.model("tiny-road")
    found = training_runs(ROAD, model, Here(), tmp_path / "a")
    ours = learned.traces("tiny-road")
    assert [p.read_bytes() for p in found] == [
        p.read_bytes() for p in recorded_runs(ours)
    ]
    content = read_json(model)
    content["training"]["files"][3]["sha256"] = "0" * 64
    changed = tmp_path / "changed.json"
    write_json(changed, content)
    with pytest.raises(InvalidInput, match="seed 3 comes out differently now"):
        training_runs(ROAD, changed, Here(), tmp_path / "b")
    del content["training"]["files"]
    write_json(changed, content)
    with pytest.raises(InvalidInput, match="does not say which runs of tiny-road"):
        training_runs(ROAD, changed, Here(), tmp_path / "b")

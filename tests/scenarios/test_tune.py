"""Tuning: thresholds against brute force, and a policy that keeps its promise."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import read_json, write_json
from forewarn.abstractions.readers.stored import Stored
from forewarn.monitors.chains.model import load_model
from forewarn.monitors.evaluation.figures import at_most, spared
from forewarn.monitors.evaluation.foretold import Foretold, climb_of
from forewarn.monitors.evaluation.warned import (
    LOWEST_THRESHOLD,
    Broken,
    Climb,
    alarms,
    threshold,
    warned_run,
)
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.risk.evidence import laws_of
from forewarn.scenarios.measuring.recorded import recorded_runs, training_runs
from forewarn.scenarios.running.pools import Here
from forewarn.scenarios.schema import load_scenario
from forewarn.scenarios.training.tune import (
    WORSE,
    Settled,
    tune,
    tuned_policy,
)
from tests.scenarios import learned

ROAD = load_scenario("tiny-road")
RISKS = st.lists(st.floats(0, 1), min_size=1, max_size=10)


@given(RISKS, st.sets(st.integers(0, 9)), st.floats(LOWEST_THRESHOLD, 1))
def test_a_climb_tells_all_that_thresholds_need(
    risks: list[float], forced: set[int], at: float
) -> None:
    times = [0.5 * i for i in range(len(risks))]
    held = frozenset(i for i in forced if i < len(risks))
    broken = Broken("law", 2.0, 1.0)
    unknown = np.array([i in held for i in range(len(risks))])
    told = Foretold(
        7, np.array(times), times[-1], {3.0: np.array(risks)},
        np.zeros(len(risks), int), unknown, ~unknown, broken,
    )  # fmt: skip
    stopping = replace(Policy(), unknown_state="stop")
    found = climb_of(told, 3.0, 7, stopping.unknown_state == "stop").warned(at)
    direct = warned_run(times, alarms(risks, at, held), broken)
    assert (found.alarm_s, found.detected) == (direct.alarm_s, direct.detected)
    assert (found.duration_s, found.broken) == (direct.duration_s, broken)


def clean(top: float) -> Climb:
    return Climb(1, 9.0, ((0.0, top),), None)


def alarmed(climbs: list[Climb], at: float) -> int:
    return sum(each.warned(at).alarm_s is not None for each in climbs)


TOPS = st.lists(st.integers(0, 1100).map(lambda n: n / 1000), min_size=1, max_size=30)


@given(TOPS, st.integers(0, 30))
def test_the_threshold_is_the_lowest_that_spares_enough(
    tops: list[float], spared: int
) -> None:
    climbs = [clean(top if top <= 1 else math.inf) for top in tops]
    fine = [
        at / 1000
        for at in range(int(1000 * LOWEST_THRESHOLD), 1001)
        if alarmed(climbs, at / 1000) <= spared
    ]
    found = threshold(climbs, spared)
    # At 1 itself a broken law and certainty alarm: that is no threshold to seek.
    assert found == (fine[0] if fine and found < math.inf else math.inf)
    assert found < math.inf or alarmed(climbs, 1.0) > spared


def test_violating_runs_do_not_raise_the_threshold() -> None:
    broken = Climb(2, 9.0, ((0.0, 0.9),), Broken("law", 5, 5))
    assert threshold([broken, clean(0.2), clean(0.1)], 0) == 0.201
    assert threshold([broken], 0) == LOWEST_THRESHOLD


def tuned(
    paths: Sequence[Stored], horizons_s: Sequence[float] = (3.0,), name: str = ""
) -> Settled:
    model = learned.model("tiny-road")
    return tune(ROAD.laws, model, paths, 0.1, horizons_s, Policy(name))


def test_the_laws_are_those_of_the_model() -> None:
    model = load_model(learned.model("tiny-road"))
    formulas = {repr(law.formula) for law in ROAD.laws}
    assert {repr(law.formula) for law in laws_of(model)} == formulas


def test_the_policy_keeps_its_promise_on_runs_it_was_not_tuned_on() -> None:
    paths = recorded_runs(learned.traces("tiny-road", learned.FRESH))
    allowed = 0.1
    found = tune(
        ROAD.laws,
        learned.model("tiny-road"),
        paths,
        allowed,
        [1.0, 3.0],
        Policy("tuned"),
    )
    assert sorted(each.horizon_s for each in found.tried) == [1.0, 3.0]
    assert found.best.in_time >= found.tried[1].in_time - WORSE
    calibration, aside = found.seeds
    assert len(calibration) == len(aside) == learned.SEEDS // 2
    assert not set(calibration) & set(aside)
    # All runs set the thresholds; two horizons were tried by them.
    delta = 0.05 / 2
    for law, each in found.laws.items():
        warned, promise = each.warned, found.promises[law]
        assert len(warned.runs) == learned.SEEDS
        assert promise.false_alarms == allowed
        most = spared(len(warned.clean), allowed, delta)
        assert most is not None and warned.false_alarms <= most
        assert promise.alarmed == warned.false_alarms
        violating = len(warned.violating)
        assert promise.missed == at_most(violating - warned.detected, violating, delta)
    policy = tuned_policy(found, Policy("tuned"), "stop")
    assert Policy.from_dict(policy.as_dict(), "x") == policy
    assert policy.promises == found.promises
    assert policy.horizon_s == found.best.horizon_s
    assert policy.steps_for("no_collision") == (
        Step("stop", found.thresholds["no_collision"]),
    )


def test_runs_that_the_model_knows_promise_nothing() -> None:
    paths = recorded_runs(learned.traces("tiny-road"))
    with pytest.raises(
        InvalidInput, match="the model was learned from 120 of these"
    ) as told:
        tune(
            ROAD.laws,
            learned.model("tiny-road"),
            paths,
            0.1,
            [3.0],
            Policy(),
        )
    assert "--allow" not in str(told.value), "that is an option of measure"
    fresh = recorded_runs(learned.traces("tiny-road", learned.FRESH))[:9]
    with pytest.raises(InvalidInput, match="9 runs are too few"):
        tune(
            ROAD.laws,
            learned.model("tiny-road"),
            fresh,
            0.1,
            [3.0],
            Policy(),
        )


def test_too_few_clean_runs_give_no_threshold_and_no_policy() -> None:
    paths = recorded_runs(learned.traces("tiny-road", learned.FRESH))[:20]
    found = tune(ROAD.laws, learned.model("tiny-road"), paths, 0.1, [3.0], Policy())
    assert not found.thresholds and not found.promises
    for why in found.without.values():
        clean, needed = (int(n) for n in re.findall(r"(\d+)(?: more)? clean runs", why))
        assert clean + needed == 29
    with pytest.raises(InvalidInput, match="no threshold achieves the guarantee"):
        tuned_policy(found, Policy(), "alert")


def test_training_runs_come_out_again_or_are_refused(tmp_path: Path) -> None:
    model = learned.model("tiny-road")
    found = training_runs(ROAD, model, Here(), tmp_path / "a")
    ours = learned.traces("tiny-road")
    assert [p.path.read_bytes() for p in found] == [
        p.path.read_bytes() for p in recorded_runs(ours)
    ]
    content = read_json(model)
    content["training"]["files"][-1]["sha256"] = "0" * 64
    changed = tmp_path / "changed.json"
    write_json(changed, content)
    with pytest.raises(
        InvalidInput, match="seeds? .*119 (has|have) a different result now"
    ):
        training_runs(ROAD, changed, Here(), tmp_path / "a")
    del content["training"]["files"]
    write_json(changed, content)
    with pytest.raises(
        InvalidInput, match=("the model does not list the runs of tiny-road")
    ):
        training_runs(ROAD, changed, Here(), tmp_path / "a")

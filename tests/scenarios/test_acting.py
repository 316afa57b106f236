"""Thresholds for acting: measured with the guard acting, and what they are worth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.scenarios.running.pools.local import Here
from forewarn.scenarios.schema import load_scenario
from forewarn.scenarios.training.acting import Acted, acted, acting_policy, best_of
from tests.scenarios import learned

ROAD = load_scenario("tiny-road")
LAWS = ROAD.laws


def test_it_counts_what_a_guard_that_acts_prevents(tmp_path: Path) -> None:
    base = Policy("acts", horizon_s=3.0)
    policies = [(at, acting_policy(base, LAWS, "stop", at)) for at in (0.1, 0.9)]
    assert policies[0][1].steps_for(LAWS[0].name) == (Step("stop", 0.1),)
    model = learned.model("tiny-road")
    seeds = range(learned.FRESH, learned.FRESH + 12)
    low, high = acted(ROAD, model, policies, seeds, 0.05, Here(), tmp_path)
    assert low.violating == high.violating > 0
    assert low.prevented >= high.prevented
    assert low.interventions >= high.interventions
    assert low.worth == low.prevented - 0.05 * low.interventions


def test_nobody_is_stopped_for_a_law_that_asks_to_move() -> None:
    warned = Policy("warns", rules={"38_1": (Step("alert", 0.2),)})
    moving = find_laws("38_1")
    both = acting_policy(warned, [*moving, *LAWS], "stop", 0.3)
    assert both.steps_for("38_1") == (Step("alert", 0.2),)
    assert both.steps_for(LAWS[0].name) == (Step("stop", 0.3),)
    with pytest.raises(InvalidInput, match="38_1: who is to move is not helped"):
        acting_policy(warned, moving, "stop", 0.3)


TRIED = Acted(0.3, 10, 8, 0, 20, 1.0, 0.05)


def test_the_best_is_worth_most_and_of_those_alike_is_in_the_middle() -> None:
    late = replace(TRIED, threshold=0.5, interventions=18)
    later = replace(TRIED, threshold=0.7, interventions=17)
    eager = replace(TRIED, threshold=0.1, prevented=9, interventions=60)
    assert best_of([eager, TRIED, late, later]) is late
    cheap = [replace(each, cost=0.01) for each in (eager, TRIED, late)]
    assert best_of(cheap).threshold == 0.1


def test_acting_that_is_worth_nothing_is_refused() -> None:
    dear = replace(TRIED, cost=0.5)
    with pytest.raises(InvalidInput, match="acting is worth nothing"):
        best_of([dear])

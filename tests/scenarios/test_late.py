"""The last moment at which an intervention helps: found by repeating violating runs."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.plugins.contracts import Source
from forewarn.plugins.tiny import TinyWorld
from forewarn.scenarios.measuring.late import (
    LEADS_S,
    Again,
    LastMoment,
    Late,
    Violation,
    kind_of,
    last_moment,
    last_moments,
    late_lines,
    refuse_unrepeatable,
)
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools import Here
from forewarn.scenarios.running.runner import Runner
from forewarn.scenarios.schema import load_scenario

ROAD = load_scenario("tiny-road")


@cache
def broken_one(law: str) -> Episode:
    """The first run that breaks a law."""
    runs = map(Runner(ROAD).run, range(7000, 7200))
    return next(run for run in runs if run.first(law) is not None)


@pytest.mark.parametrize("law", [law.name for law in ROAD.laws])
def test_it_is_the_first_moment_that_helps_from_the_violation_backwards(
    law: str,
) -> None:
    run = broken_one(law)
    (found,) = (
        each for each in last_moments(ROAD, [run], "stop", Here()) if each.law == law
    )
    broken = run.first(law)
    assert broken is not None and found.lead_s is not None
    assert (found.seed, found.time_s) == (run.seed, broken.time_s)
    job = Violation(plan(ROAD), run.seed, broken, "stop", broken == run.violations[0])
    again = Again.of(job.plan, os.getpid())
    leads = [lead for lead in LEADS_S if lead <= found.lead_s]
    assert found.runs >= len(leads)
    helped = [again.helps(job, round(broken.time_s - lead, 6)) for lead in leads]
    assert helped == [lead == found.lead_s for lead in leads]


def test_a_run_that_comes_out_differently_is_refused() -> None:
    run = broken_one(ROAD.laws[0].name)
    broken = replace(run.violations[0], time_s=run.violations[0].time_s + 0.1)
    job = Violation(plan(ROAD), run.seed, broken, "stop", True, checked=True)
    with pytest.raises(InvalidInput, match=("is not reproducible")):
        last_moment(job)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"fixed": True}, "is recorded"),
        ({"embedded": False}, "does not wait for the guard"),
    ],
)
def test_worlds_that_cannot_replay_a_seed_say_so(
    change: dict[str, bool], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_unrepeatable(ROAD, 1, "--if-acted")
    source: Source = Runner(ROAD).world(1).source
    monkeypatch.setattr(TinyWorld, "source", replace(source, **change))  # type: ignore[arg-type]
    with pytest.raises(
        InvalidInput,
        match=f"{why}, so a seed cannot be repeated .* without --if-acted",
    ):
        refuse_unrepeatable(ROAD, 1, "--if-acted")


def test_the_intervention_is_the_severest_of_the_policy() -> None:
    steps = (Step("alert", 0.1), Step("slow", 0.4))
    assert kind_of(Policy(rules={"*": steps})) == "slow"
    assert kind_of(Policy(rules={"*": steps[:1]})) == "stop"
    assert kind_of(Policy(rules={"*": (Step("reflect", 0.4),)})) == "reflect"


def test_alarms_are_held_to_the_last_moment() -> None:
    moments = tuple(
        LastMoment("law", seed, 20.0, lead, 3)
        for seed, lead in enumerate((1.0, 2.0, None, 1.0))
    )
    alarms = {0: 19.0, 1: 18.5, 2: 10.0, 3: None}
    late = Late("law", "stop", moments, alarms, frozenset({0, 2, 9}))
    facts = late.as_dict()
    assert facts == {
        "kind": "stop", "violating": 4, "preventable": 3, "median": 1.0,
        "longest": 2.0, "alarms_in_time": 1, "alarms_too_late": 1, "no_alarm": 1,
        "prevented": 1, "runs": 12,
    }  # fmt: skip
    assert list(late_lines("law", facts)) == [
        "law: 3 of 4 violations can be prevented by a single stop; it must begin"
        " at least 1.0 s before the violation (median; maximum 2.0 s).",
        "law: in 1 of these 3 runs, the first alarm came too late for a stop; in 1,"
        " there was no alarm.",
        "law: the guard prevents 1 of these 3 violations.",
    ]
    told = list(late_lines("law", {**facts, "kind": "reflect"}))
    assert "by a single reflection;" in told[0] and "for a reflection;" in told[1]
    assert not list(late_lines("law", Late("law", "stop", (), {}, None).as_dict()))

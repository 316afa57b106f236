"""Sampling until enough is known: when it stops, what it promises, what it says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.readers.stored import stored_runs
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.cli import main
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.scenarios.running.campaign import campaign, frames_kept, jobs
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.pools import Here
from forewarn.scenarios.running.sampling import Goal, Sampler, sizes
from forewarn.scenarios.schema import load_scenario
from tests.scenarios import learned

GOAL = Goal("pac", 0.1, 0.05, 0.2)


def coarse() -> Abstraction:
    content = {
        "format": "forewarn.abstraction/1",
        "name": "hardly anything",
        "vocabulary": "driving",
        "period_s": 0.1,
        "predicates": ["speed > 20 km/h"],
    }
    return Abstraction.from_dict(content, "test")


def test_it_looks_after_each_doubling() -> None:
    assert list(sizes(400)) == [25, 50, 100, 200, 400]
    assert list(sizes(130)) == [25, 50, 100, 130]
    assert list(sizes(25)) == [25] and list(sizes(3)) == [3]


def test_the_bound_holds_once_states_were_visited_often_enough(tmp_path: Path) -> None:
    (fast,) = find_laws(
        "fast := always speed > 20 km/h", vocabulary=load_vocabulary("driving")
    )
    scenario = replace(load_scenario("tiny-road"), abstraction=coarse(), laws=(fast,))
    shipped = load_scenario("tiny-road")
    todo = jobs(plan(shipped), shipped, range(40), tmp_path, ["trace"])
    episodes = list(campaign(todo, Here()))
    sampler = Sampler(scenario, GOAL, tmp_path)
    (early,) = sampler.look(episodes[:1])
    assert not early.report.holds and early.report.short
    (late,) = sampler.look(episodes)
    assert late.report.holds and late.holds("pac")
    # 2 steps, of an invariant: nothing is owed beyond them.
    assert late.report.horizon == 2
    assert sampler.looks == 2 and late.report.delta == pytest.approx(0.05 / 4)
    for each in late.report.states:
        assert each.needed is not None and each.visits >= each.needed
    facts = late.as_dict()
    assert facts["states_with_enough"] == facts["states_asked"] > 0
    assert facts["short"] == {} and facts["error"] <= 0.1


def test_the_more_often_it_looks_the_less_each_look_may_be_wrong() -> None:
    scenario = load_scenario("tiny-road")
    folder = learned.traces("tiny-road")
    kept = [frames_kept(folder)]
    todo = jobs(plan(scenario), scenario, range(30), folder, kept)
    episodes = list(campaign(todo, Here()))
    sampler = Sampler(scenario, replace(GOAL, within_s=3.0), folder)
    deltas = [sampler.look(episodes)[0].report.delta for _ in range(4)]
    assert sum(deltas) < 0.05
    assert deltas == pytest.approx([0.025, 0.0125, 0.00625, 0.003125])


def collect(folder: Path, *options: str) -> dict[str, Any]:
    arguments = ["collect", "tiny-road", "--out", str(folder), "--json", *options]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_until_rate_stops_by_the_rule_of_chen_and_massart() -> None:
    folder = learned.traces("tiny-road")  # seeds 0 to 119 are there already
    found = collect(folder, "--until", "rate", "--epsilon", "0.15")
    assert found["pac"]["holds"] and found["pac"]["until"] == "rate"
    assert found["episodes"] in (50, 100)
    assert len(stored_runs(map(Path, found["traces"]))) >= found["episodes"]
    for law in found["pac"]["laws"]:
        rate = law["rate"]
        assert rate["holds"] and rate["episodes"] >= rate["needed"]
        assert rate["estimate"] == rate["violating"] / rate["episodes"]


def test_a_budget_ends_it_and_it_says_how_far_it_got() -> None:
    folder = learned.traces("tiny-road")
    found = collect(folder, "--until", "pac", "--budget", "60")
    pac = found["pac"]
    assert (found["episodes"], pac["holds"], pac["looks"]) == (60, False, 3)
    for law in pac["laws"]:
        assert not law["holds"] and law["error"] > 0.1 and law["short"]
        assert law["states_with_enough"] < law["states_asked"]
    assert {"episodes", "frames", "failed", "traces"} <= set(found)
    arguments = ["collect", "tiny-road", "--out", str(folder), "--until", "pac"]
    done = CliRunner().invoke(main, [*arguments, "--budget", "30"])
    assert "the budget of 30 is used up" in done.stdout
    assert "The guarantee does not hold" in done.stdout


def test_time_is_a_budget_too(tmp_path: Path) -> None:
    found = collect(tmp_path, "--until", "pac", "--budget", "0.2s")
    assert 1 <= found["episodes"] < 400 and not found["pac"]["holds"]


@pytest.mark.parametrize("budget", ["soon", "0", "5 parsecs", "-3"])
def test_a_budget_that_is_none_is_refused(budget: str, tmp_path: Path) -> None:
    arguments = ["collect", "tiny-road", "--out", str(tmp_path), "--until", "pac"]
    done = CliRunner().invoke(main, [*arguments, f"--budget={budget}"])
    assert done.exit_code == 2 and "--budget" in done.stderr

"""Measuring: figures worked out a second time, held-out seeds, baselines."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import read_json, write_json
from forewarn.monitors.chains.model import load_model
from forewarn.monitors.evaluation.figures import Promise
from forewarn.monitors.evaluation.warned import Broken
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.tiny import TinyWorld
from forewarn.scenarios.measuring.measure import (
    EpisodeRisks,
    Wish,
    judge_runs,
    measure,
)
from forewarn.scenarios.measuring.pairs import compare, ended, finished
from forewarn.scenarios.measuring.recorded import Spectator, look_at_all, recorded_runs
from forewarn.scenarios.measuring.seeds import refuse_trained, trained_seeds
from forewarn.scenarios.running.campaign import campaign, jobs, pool
from forewarn.scenarios.running.episode import Episode, by_seed
from forewarn.scenarios.running.plan import plan, runner_of
from forewarn.scenarios.running.pools import Here
from forewarn.scenarios.running.runner import Runner
from forewarn.scenarios.running.series import read_series
from forewarn.scenarios.schema import load_scenario
from tests.scenarios import learned

SEEDS = range(6000, 6060)
FEW = range(6000, 6012)
THRESHOLDS = (0.2, 0.5, 0.9)


def wish(name: str, policy: Policy | None = None, **more: Any) -> Wish:
    scenario = load_scenario(name)
    policy = policy or Policy(horizon_s=scenario.horizon_s)
    wanted = Wish(scenario, learned.model(name), policy, SEEDS, THRESHOLDS)
    return replace(wanted, **more)


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("road")
    found = measure(wish("tiny-road", baselines=("deadline",)), Here(), folder)
    return found.as_dict(), folder


@cache
def ground_truth() -> list[Episode]:
    runner = Runner(load_scenario("tiny-road"))
    return [runner.run(seed) for seed in SEEDS]


# -- worked out a second time ----------------------------------------------------------


@pytest.mark.slow
def test_the_figures_are_those_of_a_guard_that_alerts(
    road: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    """Offline thresholds against guards that really had them, law by law."""
    facts, _ = road
    for row in facts["laws"]:
        if row["threshold"] != THRESHOLDS[1]:
            continue
        step = Step("alert", row["threshold"])
        # Other laws have no rule: they do not speak.
        rules = {row["law"]: (step,)}
        policy = Policy(rules=rules, shadow=True, hysteresis=0.0, hold_s=0.0)
        acting = plan(load_scenario("tiny-road"), learned.model("tiny-road"), policy)
        todo = jobs(acting, load_scenario("tiny-road"), SEEDS, tmp_path)
        episodes = by_seed(list(campaign(todo, Here())))
        detected = missed = clean = alarmed = 0
        ahead: list[float] = []
        for episode in episodes:
            broken = episode.first(row["law"])
            first = min((a.time_s for a in episode.alarms), default=None)
            if broken is None:
                clean += 1
                alarmed += first is not None
            elif first is not None and first < broken.since_s:
                detected += 1
                ahead.append(broken.since_s - first)
            else:
                missed += 1
        assert (row["detected"], row["missed"]) == (detected, missed)
        assert (row["clean"], row["false_alarms"]) == (clean, alarmed)
        assert row["violating"] == detected + missed
        if ahead:
            assert row["awt_trigger_s"]["mean"] == pytest.approx(sum(ahead) / detected)
            assert row["awt_trigger_s"]["max"] == pytest.approx(max(ahead))


def test_the_brier_score_worked_out_frame_by_frame(
    road: tuple[dict[str, Any], Path],
) -> None:
    facts, folder = road
    for law in ("stop_at_red", "no_collision"):
        row = next(row for row in facts["laws"] if row["law"] == law)
        squares: list[float] = []
        events: list[float] = []
        starts: list[float] = []
        for episode in ground_truth():
            (path,) = folder.glob(f"*-{episode.seed:06}.series.json.gz")
            series = read_series(path)
            broken = episode.first(law)
            starts.append(series.risks[law][0])
            for time_s, risk in zip(series.times_s, series.risks[law], strict=True):
                if broken is not None and time_s > broken.time_s:
                    break
                goes_wrong = broken is not None and broken.since_s <= time_s + 3 + 1e-9
                squares.append((risk - goes_wrong) ** 2)
                events.append(float(goes_wrong))
        mean = sum(events) / len(events)
        assert row["brier"] == pytest.approx(sum(squares) / len(squares))
        assert row["brier_of_base_rate"] == pytest.approx(mean * (1 - mean))
        assert row["initial_risk"] == pytest.approx(sum(starts) / len(starts))
        low, high = row["intervals"]["brier"]
        assert low < row["brier"] < high


def test_violations_are_those_of_runs_without_a_guard(
    road: tuple[dict[str, Any], Path],
) -> None:
    facts, _ = road
    episodes = ground_truth()
    for row in facts["laws"]:
        broken = sum(episode.first(row["law"]) is not None for episode in episodes)
        assert row["violating"] == broken > 0
        assert row["base_rate"] == pytest.approx(broken / len(SEEDS))


def test_foresight_is_worth_something(road: tuple[dict[str, Any], Path]) -> None:
    facts, _ = road
    best = {row["law"]: row for row in facts["laws"] if row["threshold"] == 0.5}
    assert best["no_collision"]["detection_rate"] >= 0.9
    assert best["no_collision"]["false_alarm_rate"] <= 0.15
    assert best["stop_at_red"]["detection_rate"] >= 0.6
    assert best["stop_at_red"]["false_alarm_rate"] <= 0.1
    for row in best.values():
        assert row["brier"] < row["brier_of_base_rate"]
    for row in facts["baselines"]["deadline"]["laws"]:
        # A law's own monitor speaks at the trigger, and never before.
        assert row["detected"] == 0
    assert facts["baselines"]["deadline"]["skipped"] == {}


def test_the_guard_acting_cuts_violations_on_seeds_it_does_not_know(
    road: tuple[dict[str, Any], Path],
) -> None:
    guarded = road[0]["guarded"]
    assert guarded["pairs"] == guarded["episodes"] == len(SEEDS)
    without = sum(law["violating_unguarded"] for law in guarded["laws"])
    acting = sum(law["violating_guarded"] for law in guarded["laws"])
    assert without >= 10 and acting <= without / 3
    assert 0.9 < guarded["duration_ratio"] < 1.3
    assert guarded["episodes_with"]["stop"] > 0


@pytest.mark.slow
def test_processes_and_runs_on_file_measure_the_same(tmp_path: Path) -> None:
    wanted = wish("tiny-road", seeds=FEW, baselines=("deadline",))
    facts = measure(wanted, Here(), tmp_path / "one").as_dict()
    assert measure(wanted, pool(2), tmp_path / "two").as_dict() == facts
    scenario, model = wanted.scenario, load_model(wanted.model)
    shadow = replace(wanted.policy, shadow=True)
    traced, recorded = tmp_path / "traces", tmp_path / "records"
    list(campaign(jobs(plan(scenario), scenario, FEW, traced, ["trace"]), Here()))
    watching = plan(scenario, wanted.model, shadow)
    list(campaign(jobs(watching, scenario, FEW, recorded, ["record"]), Here()))
    for folder in (traced, recorded):
        guarding = Guarding([model], shadow, laws=scenario.references)
        rivals = wanted.rivals(tmp_path)
        spectator = Spectator(guarding, scenario.laws, rivals)
        looked = list(look_at_all(recorded_runs(folder), spectator))
        found = judge_runs(wanted, [EpisodeRisks(*each) for each in looked]).as_dict()
        for key in ("laws", "baselines", "seeds", "frames", "unknown", "reliability"):
            assert found[key] == facts[key], key


def test_drift_is_told_by_what_came_of_the_runs(tmp_path: Path) -> None:
    wanted = wish("tiny-road", guarded=False)
    told = dict.fromkeys(["no_collision"], Promise(
        false_alarms=0.1, missed=0.5, confidence=0.95, clean=999, alarmed=9,
        violating=1, undetected=0,
    ))  # fmt: skip
    known = replace(wanted, policy=replace(wanted.policy, promises=told))
    drift = measure(known, Here(), tmp_path).as_dict()["drift"]
    assert "violations of stop_at_red" in drift["not_examined"]
    (row,) = (each for each in drift["examined"] if each["what"] == "violations")
    broken = sum(each.first("no_collision") is not None for each in ground_truth())
    assert (row["runs"], row["happened"]) == (len(SEEDS), broken)
    assert row["reference"] == "training: 1 of 1000" and row["evidence"] > 100
    assert drift["found_at"] <= drift["runs"] == len(SEEDS)


# -- what is refused -------------------------------------------------------------------


def test_runs_that_a_model_knows_are_refused() -> None:
    model = load_model(learned.model("tiny-road"))
    assert trained_seeds(model, "tiny-road") == set(range(learned.SEEDS))
    assert trained_seeds(model, "another") == set()
    refuse_trained(model, "tiny-road", SEEDS)
    refuse_trained(model, "another", range(learned.SEEDS))
    with pytest.raises(InvalidInput, match=r"of these runs, including seed 100"):
        refuse_trained(model, "tiny-road", range(100, 140))


def test_if_every_episode_fails_it_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reset(*_: object) -> None:
        raise ConnectionError("no simulator")

    wanted = wish("tiny-road", seeds=range(3))
    monkeypatch.setattr(TinyWorld, "reset", reset)
    runner_of.cache_clear()
    with pytest.raises(InvalidInput, match="all 3 runs failed: ConnectionErr"):
        measure(wanted, Here(), tmp_path)


def test_a_model_that_changes_meanwhile_is_noticed(tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    model.write_bytes(learned.model("tiny-kitchen").read_bytes())
    wanted = wish("tiny-kitchen", model=model, seeds=range(9000, 9003))

    def rewritten(episodes: Any, *_: Any) -> Any:
        yield from episodes
        model.write_bytes(learned.model("tiny-road").read_bytes())

    with pytest.raises(InvalidInput, match="the model was changed during the run"):
        measure(wanted, Here(), tmp_path / "runs", rewritten)


def test_failed_episodes_are_counted_and_left_out(tmp_path: Path) -> None:
    wanted = wish("tiny-kitchen", seeds=range(9000, 9010))
    measure(wanted, Here(), tmp_path)
    # What is there already is not run again, so a lost episode can be put there.
    for path in (tmp_path / "episodes").glob("*-009003.json"):
        content = read_json(path)
        content |= {"ended": "failed", "error": "lost", "series": None}
        write_json(path, content)
    found = measure(wanted, Here(), tmp_path).as_dict()
    assert (found["episodes"], found["failed"], found["errors"]) == (10, 1, ["lost"])
    assert found["laws"][0]["violating"] + found["laws"][0]["clean"] == 9
    assert found["guarded"]["pairs"] == 9


def test_pairs_are_made_by_seed() -> None:
    def episode(seed: int, broken: bool, lasted: float = 10.0) -> Episode:
        violations = (Broken("no_collision", 3.0, 3.0),) if broken else ()
        return Episode(
            seed=seed,
            mode="guarded",
            ended="over",
            duration_s=lasted,
            frames=5,
            violations=violations,
        )

    before = [episode(1, True), episode(2, True), episode(3, False), episode(4, False)]
    after = [
        episode(4, True),
        episode(3, False, 12.0),
        episode(1, False),
        replace(episode(2, False), error="lost"),
    ]
    found = compare(before, after, load_scenario("tiny-road"))
    assert (found["pairs"], found["failed"], found["clean_pairs"]) == (3, 1, 1)
    law = next(law for law in found["laws"] if law["law"] == "no_collision")
    assert law == {
        "law": "no_collision",
        "violating_unguarded": 1,
        "violating_guarded": 1,
        "violation_rate_unguarded": 1 / 3,
        "violation_rate_guarded": 1 / 3,
        "caused": 1,
        "cut": 0.0,
        "saved": 1,
        "saved_arrived": None,
    }
    assert found["duration_ratio"] == pytest.approx(1.2)
    assert found["prolonged"] == 1


def test_a_run_is_prolonged_by_more_than_a_tenth() -> None:
    before = [
        Episode(seed=seed, mode="guarded", ended="over", duration_s=10.0)
        for seed in (1, 2)
    ]
    after = [replace(before[0], duration_s=11.0), replace(before[1], duration_s=11.2)]
    found = compare(before, after, load_scenario("tiny-road"))
    assert (found["clean_pairs"], found["prolonged"]) == (2, 1)


def test_a_run_that_never_reaches_the_goal_is_prolonged_and_has_no_duration() -> None:
    before = [
        Episode(seed=seed, mode="unguarded", ended="over", duration_s=10.0, goal_s=9.0)
        for seed in (1, 2)
    ]
    stopped = replace(before[0], ended="the robot was stopped", duration_s=4.0)
    stopped = replace(stopped, mode="guarded", goal_s=None)
    after = [stopped, replace(before[1], mode="guarded")]
    found = compare(before, after, load_scenario("fork-in-microwave"))
    assert (found["clean_pairs"], found["prolonged"], found["unfinished"]) == (2, 1, 1)
    assert found["duration_ratio"] == 1.0
    (said,) = finished(found)
    assert "1 of 2 clean runs take more than 10 % longer or do not finish" in said
    assert "1 reach the goal (2)" in said


def test_a_robot_without_a_goal_finishes_if_it_says_so() -> None:
    over = Episode(
        seed=1, mode="unguarded", ended="over", duration_s=10.0,
        violations=(Broken("no_metal_heated", 3.0, 3.0),), facts={"finished": 1.0},
    )  # fmt: skip
    stopped = replace(over, mode="guarded", violations=(), facts={"finished": 0.0})
    found = compare([over], [stopped], load_scenario("tiny-kitchen"))
    (said,) = finished(found)
    assert "0 finish (1)" in said
    assert "1 of 1 clean runs take more than 10 % longer or do not finish" in said
    assert found["duration_ratio"] is None


def test_guarded_runs_alone_are_told_with_how_they_ended() -> None:
    drives = Episode(
        seed=1, mode="guarded", ended="60 s had passed", duration_s=60.0,
        facts={"stands": True, "destination_s": None},
    )  # fmt: skip
    arrived = replace(drives, ended="arrived", facts={"destination_s": 30.0})
    broken = replace(arrived, violations=(Broken("no_collision", 3.0, 3.0),))
    (said,) = ended([drives, arrived, broken, replace(broken, error="lost")], False)
    assert said.startswith(
        "Of 3 runs with the guard, 1 break a law; 2 arrive; 1 stand still until the "
        "time limit."
    )
    assert "forewarn measure" in said
    assert not [*ended([replace(arrived, mode="unguarded")], False)]

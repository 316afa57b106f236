"""Training in one go: the same bytes again, a guard's risks, found predicates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Abstraction
from forewarn.cli import main
from forewarn.monitors.chains.model import load_model
from forewarn.monitors.guarding.policy import Policy, load_policy, write_policy
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.trust.hindsight import Judge
from forewarn.plugins.loop.guarding import Guarding
from forewarn.scenarios.measuring.recorded import (
    Spectator,
    kept_runs,
    read_run,
    recorded_runs,
)
from forewarn.scenarios.schema import load_scenario
from forewarn.scenarios.shipped import FOLDER
from forewarn.scenarios.training.train import (
    ORDINARY_SEED,
    holds,
    runs_set_aside,
    signals_read,
)
from tests.monitors.laws.named import load_law
from tests.scenarios import learned


@pytest.mark.parametrize("name", ["tiny-road", "tiny-kitchen"])
def test_hindsight_says_what_a_guard_would_have_said(name: str) -> None:
    scenario, horizon_s = load_scenario(name), 2.0
    model = load_model(learned.model(name))
    paths = recorded_runs(learned.traces(name))[:20]
    abstraction = Abstraction.from_dict(dict(model.abstraction or {}), name)
    judge = Judge(model, abstraction, scenario.laws, [horizon_s], model.period_s or 0)
    policy = Policy(horizon_s=horizon_s, shadow=True)
    guarding = Guarding([model], policy, laws=scenario.references)
    spectator = Spectator(guarding, scenario.laws)
    for number, (path, kept) in enumerate(zip(paths, kept_runs(paths), strict=True)):
        episode, series = spectator.look(read_run(path))
        for law, told in judge.look(number, kept):
            broken = episode.first(law)
            assert (broken is None) == (told.broken is None)
            if broken is not None:
                assert told.broken is not None
                assert told.broken.law == law
                assert told.broken.time_s == pytest.approx(broken.time_s)
                assert told.broken.since_s == pytest.approx(broken.since_s)
            said = series.risks[law][: len(told.times_s)]
            assert told.risks[horizon_s].tolist() == pytest.approx(list(said))
            assert told.duration_s == pytest.approx(episode.duration_s)


def test_who_is_stopped_is_held_where_something_is_owed_or_ways_cross() -> None:
    paths = recorded_runs(learned.traces("tiny-road"))[:2]
    times = kept_runs(paths)[0]
    crossing = {"junction_distance": np.array([np.nan, 30.0])}
    road = {"junction_distance": np.array([None, None], object)}
    never, owed = load_law("no_collision"), load_law("51_5")

    def held(law: Law, signals: dict[str, NDArray[Any]]) -> bool:
        return holds([law], [replace(times, signals=signals)], 0.1)

    assert held(owed, road) and held(owed, crossing) and held(never, crossing)
    assert not held(never, road) and not held(never, {})


def forewarn(*arguments: str | Path) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_training_reads_the_signals_of_pairs() -> None:
    read = signals_read(load_scenario("env-highway"))
    assert read is not None
    assert {"lead_speed", "nearest_speed", "nearest_distance"} <= set(read)


@pytest.mark.needs("sklearn")
def test_training_again_gives_the_same_bytes_two_at_a_time_too(tmp_path: Path) -> None:
    for out, count in (("a", 1), ("b", 2)):
        found = forewarn(
            "train", *["tiny-kitchen"] * count, "--jobs", str(count),
            "--episodes", "75", "--out", tmp_path / out, "--runs", tmp_path / "runs",
        )  # fmt: skip
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert {"tiny-kitchen.model.json.gz", "tiny-kitchen.policy.yaml"} <= set(names)
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (
            tmp_path / "b" / name
        ).read_bytes()
    trained, twin = found["trained"]
    assert trained == twin
    model = load_model(tmp_path / "a" / "tiny-kitchen.model.json.gz")
    assert model.training["abstraction"] == trained["abstraction"]
    policy = load_policy(tmp_path / "a" / "tiny-kitchen.policy.yaml")
    assert policy.horizon_s == trained["horizon_s"]
    chosen = trained["abstraction"]["chosen"]
    written = "tiny-kitchen.abstraction.yaml" in names
    assert written == (chosen != "hand-made")
    path = tmp_path / "a" / "tiny-kitchen.policy.yaml"
    whole = path.read_bytes()
    write_policy(path, replace(policy, ordinary={}))
    forewarn(
        "train", "tiny-kitchen", "--ordinary", "--out", tmp_path / "a",
        "--runs", tmp_path / "runs",
    )  # fmt: skip
    assert policy.ordinary and path.read_bytes() == whole
    kept = (tmp_path / "a" / "tiny-kitchen.model.json.gz").read_bytes()
    forewarn(
        "train", "tiny-kitchen", "--ordinary", "--episodes", "70",
        "--out", tmp_path / "a", "--runs", tmp_path / "runs",
    )  # fmt: skip
    assert (tmp_path / "a" / "tiny-kitchen.model.json.gz").read_bytes() == kept
    more = load_policy(path)
    assert replace(more, ordinary=policy.ordinary) == policy
    for figures in more.ordinary.values():
        assert sum(figures.highest.counts) == 70 and figures.violating is not None
    aside = runs_set_aside(tmp_path / "a", load_scenario("tiny-kitchen"))
    stored = recorded_runs(tmp_path / "runs" / "tiny-kitchen")
    seeds = {run.header.seed for run in kept_runs(stored)}
    new = range(ORDINARY_SEED, ORDINARY_SEED + 70 - len(aside))
    assert seeds == {*range(75), *new}


def test_a_model_of_published_counts_has_no_runs_to_repeat(tmp_path: Path) -> None:
    arguments = ["train", "fork-in-microwave", "--ordinary", "--out", str(FOLDER)]
    done = CliRunner().invoke(main, [*arguments, "--runs", str(tmp_path)])
    assert done.exit_code == 2
    assert "does not name the runs that were used to set its thresholds" in done.output


@pytest.mark.needs("sklearn")
def test_learn_finds_predicates_that_a_guard_then_uses(tmp_path: Path) -> None:
    traces, out = learned.traces("tiny-kitchen"), tmp_path / "kitchen.json"
    table = tmp_path / "cooks.csv"
    rows = (f"{seed},cook {seed % 3}\n" for seed in range(1000))
    table.write_text("".join(["seed,cook\n", *rows]))
    found = forewarn(
        "learn", traces, "--scenario", "tiny-kitchen", "--abstraction", "auto",
        "--group", "cook", "--facts", table, "--out", out,
    )  # fmt: skip
    facts = found["abstraction"]
    assert isinstance(facts, dict)
    assert facts["folds"] == 3  # a cook each
    assert {each["kind"] for each in facts["tried"]} == {
        "hand-made", "learned", "scored",
    }  # fmt: skip
    beside = tmp_path / "kitchen.abstraction.yaml"
    assert facts["out"] == str(beside) and beside.exists()
    again, (law,) = tmp_path / "again.json", load_scenario("tiny-kitchen").references
    forewarn(
        "learn", traces, "--abstraction", beside, "--law", law, "--out", again,
    )  # fmt: skip
    one, other = load_model(out), load_model(again)
    assert one.chain.states == other.chain.states
    runs = tmp_path / "runs"
    done = forewarn(
        "run", "tiny-kitchen", "--model", out, "--seed", "9000", "--out", runs
    )
    (episode,) = done["episodes"]
    assert forewarn("replay", episode["record"])


def test_auto_needs_laws_and_goes_with_no_update(tmp_path: Path) -> None:
    traces, model = learned.traces("tiny-road"), learned.model("tiny-road")
    for more, said in (
        ([], "needs --scenario or --law"),
        (["--scenario", "tiny-road", "--update", model], "--update cannot"),
        (["--law", "no_collision", "--group", "driver"], "the driver of the run"),
    ):
        arguments = ["learn", traces, "--abstraction", "auto", "--out", tmp_path / "x"]
        done = CliRunner().invoke(main, [str(each) for each in [*arguments, *more]])
        assert done.exit_code == 2 and said in done.stderr

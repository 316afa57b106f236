"""Two laws, from traces alone to a guard: each is served by a model of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from forewarn.abstractions.trace import write_trace
from forewarn.cli import main
from forewarn.monitors.chains.model import load_models
from forewarn.monitors.guarding.policy import load_policy
from forewarn.plugins.loop.guarding import Guarding
from tests.monitors.finding.test_by_law import run

pytestmark = pytest.mark.needs("sklearn")

LAWS = ("spill := always not spilled", "burn := always not burnt")


def told(*arguments: object, status: int = 0) -> str:
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == status, done.output
    return done.stdout


def written(folder: Path, seeds: range) -> Path:
    folder.mkdir()
    for seed in seeds:
        write_trace(folder / f"{seed:04}.jsonl", run(seed))
    return folder


@pytest.mark.slow
def test_from_traces_under_two_laws_to_a_guard_that_warns_of_both(
    tmp_path: Path,
) -> None:
    model, policy = tmp_path / "pots.json", tmp_path / "policy.yaml"
    asked = [word for law in LAWS for word in ("--law", law)]
    learn = ["learn", written(tmp_path / "training", range(60)), *asked]
    auto = ["--abstraction", "auto", "--horizon", "1", "--out", model]
    said = told(*learn, *auto)
    assert f"{model}: 2 models, for one guard" in said
    assert "spill: skill 0." in said and "burn: skill 0." in said
    spill, burn = load_models(model)
    assert (spill.laws, burn.laws) == ((LAWS[0],), (LAWS[1],))
    for number in (1, 2):
        found = yaml.safe_load(
            (tmp_path / f"pots.abstraction.{number}.yaml").read_text()
        )
        assert found["predicates"]
    # No world and no pilot: the runs and the model say all there is to know.
    fresh = written(tmp_path / "fresh", range(100, 200))
    tune = ["tune", "--runs", fresh, "--model", model, "--horizons", "1"]
    tuned = json.loads(
        told(*tune, "--false-alarm-rate", "0.2", "--out", policy, "--json")
    )
    for law in tuned["laws"]:
        assert law["detected"] >= 0.7 * law["violating"] > 0, law
    guard = Guarding.load(model, load_policy(policy)).guard()
    assert [law.name for law in guard.watch.laws] == ["spill", "burn"]
    assert len(guard.watch.parts) == 2

    shown = json.loads(told("show", model, "--json"))
    assert [each["laws"] for each in shown["models"]] == [[LAWS[0]], [LAWS[1]]]
    told("check", model, "--law", "burn", "--within", "10")
    told("check", model, "--of", "spill", "--prop", 'P=? [ F<=10 "spilled" ]')
    done = CliRunner().invoke(main, ["export", str(model), "--format", "csv"])
    assert done.exit_code == 2 and "of spill; burn" not in done.output
    assert (
        "each for its own laws: spill; burn (choose a model with --of LAW)"
        in done.stderr
    )
    more = ["learn", fresh, "--update", model, "--out", tmp_path / "more.json"]
    told(*more)
    counted = [each.training["traces"] for each in load_models(tmp_path / "more.json")]
    assert counted == [160, 160]

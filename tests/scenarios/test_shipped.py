"""What ships trained: it is whole, small, of its scenario, and used unless told not."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.abstractions.abstraction import Abstraction, load_abstraction
from forewarn.abstractions.files import read_bytes, write_json
from forewarn.cli import main
from forewarn.monitors.chains.formats.own import models_as_dict
from forewarn.monitors.chains.model import Model, load_models
from forewarn.monitors.guarding.certificate import deciding
from forewarn.monitors.guarding.policy import Policy, asks_to_move, load_policy
from forewarn.monitors.guarding.watch import load_watch
from forewarn.scenarios.measuring.pairs import standing
from forewarn.scenarios.schema import load_scenario, parse_scenario, shipped_scenarios
from forewarn.scenarios.shipped import FOLDER, Shipped, shipped_with

DRIVING = [
    name for name, path in shipped_scenarios().items() if path.parent.name == "driving"
]
ROADS = [
    name for name, path in shipped_scenarios().items() if path.parent.name == "highway"
]


@pytest.mark.parametrize(
    "name", [*DRIVING, "env-highway", "metadrive-idm", "virtualhome-chores"]
)
def test_every_driving_scenario_ships_trained(name: str) -> None:
    scenario = load_scenario(name)
    files = shipped_with(scenario)
    assert files is not None
    assert files.model.stat().st_size < 400_000
    models, policy = load_models(files.model), load_policy(files.policy)
    assert set(policy.rules) == {law.name for law in scenario.laws}
    told = [law for model in models for law in model.laws]
    assert sorted(told) == sorted(law.told for law in scenario.laws)
    paths = [files.abstraction]
    if len(models) > 1:
        paths = [each_abstraction(name, n) for n in range(1, len(models) + 1)]
    for model, path in zip(models, paths, strict=True):
        known = Abstraction.from_dict(dict(model.abstraction or {}), name)
        assert all(entry["scenario"] == name for entry in model.training["files"])
        if path.exists():
            assert load_abstraction(path).fingerprint() == known.fingerprint()
        else:
            assert known.fingerprint() == scenario.abstraction.fingerprint()


def each_abstraction(name: str, number: int) -> Path:
    """Where several models lie in one file, that of the n-th."""
    return FOLDER / f"{name}.{number}.abstraction.yaml"


@pytest.mark.parametrize("name", [*DRIVING, *ROADS])
def test_what_stops_ships_beside_what_warns(name: str) -> None:
    scenario = load_scenario(name)
    files = Shipped.in_folder(FOLDER, name)
    acting = files.acting
    if asks_to_move(scenario.laws):
        assert not acting.exists()  # who is stopped would break it
        return
    policy = load_policy(acting)
    assert {law: [s.kind for s in steps] for law, steps in policy.rules.items()} == {
        law.name: ["stop"] for law in scenario.laws
    }
    if policy.kept is not None:  # it is about this scenario, model and policy
        found = standing(policy, scenario, files.model, ())
        assert found is not None and found.sentence() == policy.kept.sentence()


def test_policy_certified_by_an_earlier_version_keeps_its_guarantee() -> None:
    scenario, files = load_scenario("s7"), Shipped.in_folder(FOLDER, "s7")
    policy = load_policy(files.acting)
    certified = policy.kept
    assert certified is not None

    def said(drawn: str) -> str:
        kept = certified.model_copy(update={"drawn": drawn})
        changed = replace(policy, kept=kept)
        found = standing(changed, scenario, files.model, ())
        assert found is not None
        return found.sentence()

    assert said(scenario.former_digest) == certified.sentence()
    assert "does not apply" in said("of another scenario")


def test_a_guarantee_is_of_what_decides_in_the_model(tmp_path: Path) -> None:
    (model,) = load_models(Shipped.in_folder(FOLDER, "fork-in-microwave").model)
    point, upper = Policy(), Policy(judge_by="upper")

    def digests(of: Model) -> tuple[str, str]:
        write_json(tmp_path / "model.json", models_as_dict((of,)))
        found = (deciding(tmp_path / "model.json", each) for each in (point, upper))
        return next(found), next(found)

    was = digests(model)
    bounds = replace(model, first_visits={"law": {}}, training={"traces": 1})
    assert digests(bounds)[0] == was[0] and digests(bounds)[1] != was[1]
    assert digests(replace(model, training={}))[1] == was[1]
    other = replace(model, period_s=2.0)
    assert not set(digests(other)) & set(was)


def test_every_shipped_model_bounds_its_laws_by_first_visits() -> None:
    for name in shipped_scenarios():
        files = Shipped.in_folder(FOLDER, name)
        for model in load_models(files.model) if files.model.exists() else ():
            assert len(model.first_visits) == len(model.laws), name


def test_nothing_stray_ships() -> None:
    ours = {
        path
        for name in shipped_scenarios()
        for path in (
            Shipped.in_folder(FOLDER, name).model,
            Shipped.in_folder(FOLDER, name).policy,
            Shipped.in_folder(FOLDER, name).abstraction,
            Shipped.in_folder(FOLDER, name).acting,
            *(each_abstraction(name, n) for n in range(1, 10)),
        )
    }
    there = {path for path in FOLDER.iterdir() if path.name[0] not in "_."}
    assert there <= ours
    assert sum(path.stat().st_size for path in there) < 4_000_000


def test_a_users_own_scenario_of_the_same_name_has_nothing(tmp_path: Path) -> None:
    shipped = load_scenario("s1")
    folder = Path(shipped.source).parent
    own = parse_scenario(shipped.text, str(tmp_path / "s1.yaml"), folder)
    assert shipped_with(own) is None
    assert shipped_with(load_scenario("tiny-road")) is None


def forewarn(*arguments: str) -> dict[str, object]:
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.needs("libsumo")
def test_run_warns_at_once_and_says_by_what(tmp_path: Path) -> None:
    out = ("--out", str(tmp_path), "--seed", "700000")
    found = forewarn("run", "s1", *out)
    policy = load_policy(Shipped.in_folder(FOLDER, "s1").policy)
    assert found["model"] == str(Shipped.in_folder(FOLDER, "s1").model)
    assert found["policy"] == policy.as_dict()
    stopping = forewarn("run", "s1", *out, "--intervene", "stop")["policy"]
    (step,) = policy.rules["stop_at_yellow"]
    assert isinstance(stopping, dict)
    assert stopping["rules"][0]["thresholds"] == {"stop": step.threshold}
    tuned = forewarn("run", "s1", *out, "--preset", "stop")["policy"]
    assert tuned == load_policy(Shipped.in_folder(FOLDER, "s1").acting).as_dict()
    alone = forewarn("run", "s1", *out, "--unguarded")
    assert alone["model"] is None and alone["policy"] is None
    said = CliRunner().invoke(main, ["run", "s1", *out]).stdout
    assert said.startswith("Guarded by the model that ships with s1, at the thresholds")


def test_unguarded_contradicts_a_model() -> None:
    done = CliRunner().invoke(main, ["run", "s1", "--unguarded", "--model", "x"])
    assert done.exit_code == 2
    assert "--unguarded cannot be combined with --model" in done.stderr


def _content(model: Path) -> Any:
    """All but the names of the runs, which contain the version that made them, and the
    results of the candidates, some of which have changed since."""
    content = json.loads(read_bytes(model))
    for one in content.get("models", [content]):
        for each in one["training"]["files"]:
            del each["name"]
        del one["training"]["abstraction"]["tried"]
    return content


@pytest.mark.soak
@pytest.mark.needs("sklearn")
@pytest.mark.needs("libsumo")
def test_a_shipped_tree_comes_out_again(tmp_path: Path) -> None:
    """Shipped scores do not: they were trained with an earlier form of the score."""
    name = "s2"
    forewarn("train", name, "--rerun", "--out", str(tmp_path))
    ours, again = (Shipped.in_folder(at, name) for at in (FOLDER, tmp_path))
    assert _content(again.model) == _content(ours.model)
    shipped, found = load_policy(ours.policy), load_policy(again.policy)
    # The thresholds that ship come from an earlier rule, on half of the runs.
    assert set(found.rules) >= set(shipped.rules)
    # What happened in ordinary runs comes from more runs.
    # The name was worded differently.
    found = replace(
        found, name=shipped.name, rules=shipped.rules, promises=shipped.promises,
        ordinary=shipped.ordinary,
    )  # fmt: skip
    assert found == shipped
    pattern = f"{name}.*abstraction.yaml"
    written = sorted(path.name for path in tmp_path.glob(pattern))
    assert written == sorted(path.name for path in FOLDER.glob(pattern))
    for each in written:
        assert (tmp_path / each).read_bytes() == (FOLDER / each).read_bytes()


def test_again_needs_something_that_ships(tmp_path: Path) -> None:
    arguments = ["train", "tiny-road", "--rerun", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "no model ships with tiny-road" in done.stderr


def test_every_model_loads_about_as_fast_as_the_others() -> None:
    """What `highway-lanes` costs, whose predicates share six signals, beside `s1`."""

    def seconds(name: str) -> float:
        files = Shipped.in_folder(FOLDER, name)
        horizon_s = load_policy(files.policy).horizon_s
        began = time.process_time()
        load_watch(load_models(files.model), horizon_s=horizon_s)
        return time.process_time() - began

    seconds("s6")  # imports what all of them need
    assert seconds("highway-lanes") < 2.0 * seconds("s1")

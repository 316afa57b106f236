"""`forewarn merge-tallies`, from guards that count to the model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forewarn.abstractions.files import read_json
from forewarn.cli import main
from forewarn.monitors.chains.learning import Tally
from forewarn.monitors.chains.model import load_model
from forewarn.monitors.fleet.files import read_tallies
from forewarn.scenarios.running.campaign import let_pass
from forewarn.scenarios.schema import load_scenario
from tests.scenarios import learned

WORLD = "tiny-road"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def run(folder: Path, tally: str, *options: object) -> Path:
    path = folder / tally
    done = call(
        "run", WORLD, "--model", learned.model(WORLD), "--no-scene",
        "--out", folder / "runs", "--tally", path, *options,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return path


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tally of runs in which nobody stepped in."""
    folder = tmp_path_factory.mktemp("watched")
    return run(
        folder, "car.tally.json.gz", "--intervene", "none", "--episodes", 12,
        "--seed", learned.FRESH,
    )  # fmt: skip


def test_merging_is_learning_from_the_traces(watched: Path, tmp_path: Path) -> None:
    """What guards that only watch counted is what their traces would have told."""
    merged, updated = tmp_path / "model.json", tmp_path / "updated.json"
    shutil.copy(learned.model(WORLD), merged)
    done = call("merge-tallies", watched, "--into", merged, "--json")
    assert done.exit_code == 0, done.output
    traces = tmp_path / "traces"
    call(
        "collect", WORLD, "--episodes", 12, "--seed", learned.FRESH, "--out", traces
    )  # fmt: skip
    done = call(
        "learn", traces, "--update", learned.model(WORLD), "--out", updated
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert Tally.of(load_model(merged)) == Tally.of(load_model(updated))


def test_an_intervening_guard_counts_fewer_transitions(
    watched: Path, tmp_path: Path
) -> None:
    acting = run(
        tmp_path, "car.tally.json.gz", "--intervene", "stop", "--threshold", 0.2,
        "--episodes", 12, "--seed", learned.FRESH,
    )  # fmt: skip
    assert read_tallies(acting)[0].transitions < read_tallies(watched)[0].transitions
    assert acting.stat().st_size < 4_000
    (tally,) = read_tallies(acting)
    assert sum(tally.stopped_by.values()) <= tally.traces == 12
    assert set(tally.stopped_by) <= {law.name for law in load_scenario(WORLD).laws}
    assert not read_tallies(watched)[0].stopped_by
    model = tmp_path / "model.json"
    shutil.copy(learned.model(WORLD), model)
    done = call("merge-tallies", acting, "--into", model)
    assert (
        done.exit_code == 1
        and "transitions after high risks are missing" in done.stdout
    )
    assert model.read_bytes() == learned.model(WORLD).read_bytes()
    done = call("merge-tallies", acting, "--into", model, "--accept")
    assert done.exit_code == 0
    assert "Of these 12 runs, interventions stopped" in done.stdout
    assert "tune the policies again" in done.stdout.replace("\n", " ")


def test_runs_that_are_let_pass_stand_for_those_that_are_stopped(
    tmp_path: Path,
) -> None:
    options = (
        "--intervene", "stop", "--threshold", 0.2, "--episodes", 12,
        "--seed", learned.FRESH, "--law", "touch := always not collision",
    )  # fmt: skip
    passing = run(tmp_path, "some.tally.json", *options, "--let-pass", 0.4)
    episodes = sorted((tmp_path / "runs" / "episodes").iterdir())
    modes = {each["seed"]: each["mode"] for each in map(read_json, episodes)}
    passed = let_pass(range(learned.FRESH, learned.FRESH + 12), 0.4)
    assert 0 < len(passed) < 12 == len(modes)
    assert passed == [seed for seed, mode in sorted(modes.items()) if mode == "shadow"]
    (tally,) = read_tallies(passing)
    assert tally.traces == 12
    assert sum(tally.let_pass.values()) <= len(passed)
    assert set(tally.stopped_by) == set(tally.let_pass) and not tally.unweighted
    model = tmp_path / "model.json"
    shutil.copy(learned.model(WORLD), model)
    done = call("merge-tallies", passing, "--into", model)
    assert done.exit_code == 0, done.output
    assert "Stops skipped because of --let-pass: " in done.stdout
    assert "are weighted to represent the stopped runs" in done.stdout


def test_no_run_is_let_pass_under_a_severe_law(tmp_path: Path) -> None:
    done = call(
        "run", "s3", "--intervene", "stop", "--let-pass", 0.05, "--out", tmp_path,
    )  # fmt: skip
    assert done.exit_code == 2
    assert "--let-pass cannot be used with severe laws: no_collision" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_same_runs_give_the_same_tally(watched: Path, tmp_path: Path) -> None:
    again = run(
        tmp_path, "car.tally.json.gz", "--intervene", "none", "--episodes", 12,
        "--seed", learned.FRESH,
    )  # fmt: skip
    assert again.read_bytes() == watched.read_bytes()


def test_merging_twice_is_merging_once(watched: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    shutil.copy(learned.model(WORLD), model)
    first = json.loads(call("merge-tallies", watched, "--into", model, "--json").stdout)
    once = model.read_bytes()
    again = json.loads(call("merge-tallies", watched, "--into", model, "--json").stdout)
    assert model.read_bytes() == once
    assert list(first["added"]) == again["known"] and not again["added"]
    assert first["contributors"] == again["contributors"]
    assert (
        "tallies already in the model"
        in call("merge-tallies", watched, "--into", model).stdout
    )


def test_merging_an_outlying_tally_ends_with_status_1(
    watched: Path, tmp_path: Path
) -> None:
    model, odd = tmp_path / "model.json", tmp_path / "odd.tally.json"
    shutil.copy(learned.model(WORLD), model)
    before = model.read_bytes()
    content = read_tallies(watched)[0].as_dict()
    # Wherever it was seen to be it mostly went to one other state.
    content["steps"] = [[0, 500] for _ in content["states"]]
    content["ends"] = []
    content.pop("passed")
    odd.write_text(json.dumps({**content, "id": "odd-one-out"}))
    done = call("merge-tallies", odd, "--into", model)
    assert done.exit_code == 1 and "left out odd-one-out" in done.stdout
    assert model.read_bytes() == before
    done = call("merge-tallies", odd, "--into", model, "--accept")
    assert done.exit_code == 0 and "is outside its old interval" in done.stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"laws": "0" * 64}, "these differ: laws"),
        ({"states": ["0", "0"]}, "a state appears twice"),
        ({"steps": []}, "one row for each state"),
        ({"starts": [0]}, "expected pairs"),
        ({"id": "A"}, "id"),
        ({"more": 1}, "unknown key 'more'"),
    ],
)
def test_invalid_tally_is_rejected(
    watched: Path, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    bad = tmp_path / "bad.tally.json"
    bad.write_text(json.dumps({**read_tallies(watched)[0].as_dict(), **change}))
    done = call("merge-tallies", bad, "--into", learned.model(WORLD))
    assert done.exit_code == 2 and said in done.stderr and str(bad) in done.stderr


def test_the_tally_of_other_runs_is_not_written_over(
    watched: Path, tmp_path: Path
) -> None:
    copy = tmp_path / watched.name
    shutil.copy(watched, copy)
    done = call(
        "run", WORLD, "--model", learned.model(WORLD), "--out", tmp_path / "runs",
        "--tally", copy,
    )  # fmt: skip
    assert done.exit_code == 2 and "the tally of other runs" in done.stderr
    assert copy.read_bytes() == watched.read_bytes()

"""`forewarn thor` and `doctor thor`: on the household, through the real controller."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main
from forewarn.thor_bridge.household.scenes import load_scenes, own_scenes
from forewarn.thor_bridge.wire import rooms
from tests.thor_bridge.test_conformance import FOUND, RUNS

through_the_controller = pytest.mark.needs("ai2thor", "msgpack")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ai2thor writes into the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))


def _thor(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["thor", *map(str, arguments)])


@pytest.fixture
def outcomes(tmp_path: Path) -> Path:
    path = tmp_path / "outcomes.jsonl"
    path.write_text("".join(json.dumps(run) + "\n" for run in RUNS))
    return path


@pytest.mark.parametrize(
    "how", [["--inside"], pytest.param([], marks=through_the_controller)]
)
def test_replay_counts_where_outcomes_agree(outcomes: Path, how: list[str]) -> None:
    done = _thor("replay", outcomes, *how, "--json")
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert set(content) == {*FOUND, "by_set"}
    assert {key: content[key] for key in FOUND} == FOUND
    assert content["by_set"]["plans"] == {
        "steps": 3, "agree": 3, "agreement": 1.0, "trajectories": 1, "identical": 1,
    }  # fmt: skip
    shown = _thor("replay", outcomes, *how).stdout.splitlines()
    assert shown[0].split() == [
        "set", "steps", "agree", "agreement", "runs", "identical",
    ]  # fmt: skip
    assert shown[-1].split() == ["all", "5", "4", "0.800", "2", "1"]


def test_replay_names_what_it_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"scene_name": "Kitchen1"}\n')
    done = _thor("replay", path)
    assert done.exit_code == 2
    assert f"{path}: line 1: a recorded run must have" in done.stderr
    path.write_text(json.dumps({**RUNS[0], "scene_name": "FloorPlan1"}))
    assert "--scenes FILE" in _thor("replay", path, "--inside").stderr


@through_the_controller
def test_harvested_scenes_play_like_the_originals(
    tmp_path: Path,
) -> None:
    out, command = tmp_path / "scenes.json.gz", _thor("player").stdout.strip()
    done = _thor(
        "harvest", out, "--player", command,
        "--scene", "Kitchen1", "--scene", "Bathroom1", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    scenes, own = load_scenes(out), own_scenes()
    assert list(told["scenes"]) == ["Kitchen1", "Bathroom1"] == list(scenes)
    for name, scene in scenes.items():
        assert told["scenes"][name] == {
            "objects": len(own[name].objects),
            "positions": len(own[name].grid),
        }
        assert set(scene.grid) == set(own[name].grid)
    # The same actions have the same outcomes in the harvested scenes.
    runs = tmp_path / "runs.jsonl"
    steps = [
        {"input": text, "success": True}
        for text in ("find Fork", "pick Fork", "find Microwave", "open Microwave",
                     "put Microwave", "close Microwave", "turn on Microwave")
    ]  # fmt: skip
    runs.write_text(json.dumps({"scene_name": "Kitchen1", "steps": steps}))
    given: list[list[str | Path]] = [[], ["--scenes", out]]
    for scenes_file in given:
        found = json.loads(_thor("replay", runs, *scenes_file, "--json").stdout)
        assert found["agree"] == len(steps)


def test_rooms_are_distinguished_from_other_scenes_of_a_build() -> None:
    has = {"FloorPlan10", "FloorPlan2", "FloorPlan_Train1_1", "Procedural"}
    assert rooms(has) == ["FloorPlan2", "FloorPlan10"]
    assert rooms({"Kitchen2", "Bath1"}) == ["Bath1", "Kitchen2"]


@through_the_controller
def test_harvest_rejects_an_unknown_scene(tmp_path: Path) -> None:
    out = tmp_path / "scenes.json"
    done = _thor("harvest", out, "--player", "household", "--scene", "Kitchen1",
                 "--scene", "Kitchen99")  # fmt: skip
    assert done.exit_code == 2
    assert "the player has no scene 'Kitchen99'" in done.stderr
    assert not out.exists()


@through_the_controller
def test_harvest_says_why_a_player_does_not_start(tmp_path: Path) -> None:
    done = _thor("harvest", tmp_path / "out.json", "--player", "/no/such/player")
    assert done.exit_code == 2
    assert "the simulator could not be started:" in done.stderr


def test_player_prints_its_command_line(tmp_path: Path) -> None:
    told = json.loads(_thor("player", "--seed", "7", "--json").stdout)
    words = shlex.split(told["command"])
    assert words[1:3] == ["-m", "forewarn.thor_bridge.household"]
    assert words[words.index("--seed") + 1] == "7"
    assert told["scenes"] == list(own_scenes())
    assert _thor("player", "--scenes", tmp_path / "none.json").exit_code == 2


def test_doctor_thor_says_what_the_real_build_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    done = CliRunner().invoke(main, ["doctor", "thor", "--json"])
    unity = next(p for p in json.loads(done.stdout)["pieces"] if p["name"] == "unity")
    assert unity["usable"] is False
    assert any("DISPLAY is not set" in line for line in unity["missing"])
    assert "DISPLAY is not set" in unity["remedy"]
    shown = CliRunner().invoke(main, ["doctor", "thor"]).stdout
    assert "DISPLAY is not set" in shown


@through_the_controller
@pytest.mark.soak
def test_the_household_agrees_with_the_real_ai2thor(shared_data: Path) -> None:
    """Step by step, in recordings of the real one, through its own controller."""
    folder = shared_data / "household"
    done = _thor("replay", folder / "thor_outcomes.jsonl", "--scenes",
                 folder / "ithor_scenes.json.gz", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    sets = json.loads(done.stdout)["by_set"]
    # The batch that is left out had mass failures of teleporting.
    kept = [tally for name, tally in sets.items() if name != "unsafe_agent_records"]
    steps = sum(tally["steps"] for tally in kept)
    assert sum(tally["agree"] for tally in kept) / steps >= 0.94
    assert sets["unsafe_detailed_traj_ground_truth"]["agreement"] >= 0.97

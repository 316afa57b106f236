"""Recorded plans carried out again: how they are counted, and how well they agree."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.thor_bridge.performing import (
    Conformance,
    RobotRun,
    read_recordings,
    replay,
)

RUNS = [
    {
        "set": "plans",
        "scene_name": "Kitchen1",
        "steps": [
            {"input": "find Fork", "success": True},
            {"input": "pick Fork", "success": True},
            {"input": "open Unicorn", "success": False},
        ],
    },
    {
        "set": "others",
        "scene_name": "Bathroom1",
        "steps": [
            {"input": "turn_on Faucet", "success": True},  # too far away
            {"input": "dance", "success": False},
        ],
    },
]
FOUND = {
    "steps": 5,
    "agree": 4,
    "agreement": 0.8,
    "trajectories": 2,
    "identical": 1,
}


@pytest.fixture
def outcomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "outcomes.jsonl"
    path.write_text("".join(json.dumps(run) + "\n" for run in RUNS))
    return path


def _counted(found: Conformance) -> None:
    content = found.as_dict()
    sets = content.pop("by_set")
    assert content == FOUND
    assert {name: tally["agreement"] for name, tally in sets.items()} == {
        "plans": 1.0,
        "others": 0.5,
    }


def test_outcomes_are_counted(outcomes: Path) -> None:
    seen: list[RobotRun] = []

    def watched(recordings: Iterable[RobotRun]) -> Iterator[RobotRun]:
        for recording in recordings:
            yield recording
            seen.append(recording)

    _counted(replay(outcomes, None, inside=True, watched=watched))
    assert seen == list(read_recordings(outcomes))


@pytest.mark.needs("ai2thor", "msgpack")
def test_outcomes_are_the_same_through_the_controller(outcomes: Path) -> None:
    _counted(replay(outcomes, None))


def test_a_recording_without_steps_has_no_agreement(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    path.write_text("")
    assert replay(path, None).as_dict()["agreement"] is None


@pytest.mark.parametrize(
    "line",
    [
        '{"steps": []}',
        '{"scene_name": "Kitchen1", "steps": [{"input": 1, "success": true}]}',
        '{"scene_name": "Kitchen1", "steps": [{"input": "drop"}]}',
        "[]",
    ],
)
def test_invalid_recording_is_rejected(tmp_path: Path, line: str) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(f"{json.dumps(RUNS[0])}\n{line}\n")
    with pytest.raises(InvalidInput, match="line 2: a recorded run must have"):
        list(read_recordings(path))


def test_a_missing_scene_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps({**RUNS[0], "scene_name": "FloorPlan1"}))
    with pytest.raises(InvalidInput, match="no scene 'FloorPlan1'"):
        replay(path, None, inside=True)


def test_the_household_agrees_with_the_real_ai2thor(shared_data: Path) -> None:
    folder = shared_data / "household"
    found = replay(
        folder / "thor_outcomes.jsonl", folder / "ithor_scenes.json.gz", inside=True
    )
    by_set = found.by_set
    # The batch that is left out had mass failures of teleporting.
    kept = [tally for name, tally in by_set.items() if name != "unsafe_agent_records"]
    steps, agree = sum(t.steps for t in kept), sum(t.agree for t in kept)
    assert agree / steps >= 0.96
    plans = by_set["unsafe_detailed_traj_ground_truth"]
    assert plans.agree / plans.steps >= 0.98

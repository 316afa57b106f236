"""MetaDrive's roads: one seed is one run, what is seen coming, what the guard does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn import load_vocabulary
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.cli import main
from forewarn.monitors.guarding.decision import Action

# `make test` does not install it: it takes 300 MB.
pytest.importorskip("metadrive", reason="metadrive is not installed")

from metadrive.engine.asset_loader import AssetLoader

from forewarn.plugins.driving.drivers import CAP, slower
from forewarn.plugins.metadrive.bridge import MetaDriveDriver, MetaDriveWorld

ONWARD = [12.0, 1.0, 1.0, 40.0, 6.0, 0.0, 0.0]
"""An action of an attentive driver who wants 12 m/s."""

SHARP = [*ONWARD[:-1], 1.0]


def act(told: list[float]) -> Action:
    return Action("act", {"action": told})


@pytest.fixture(scope="module")
def world() -> Iterator[MetaDriveWorld]:
    world = MetaDriveWorld(config={"map": 2, "traffic_density": 0.1})
    yield world
    world.close()


def frames(world: MetaDriveWorld, seed: int, **driver: Any) -> list[Frame]:
    pilot = MetaDriveDriver(**driver)
    pilot.reset(seed)
    seen = [world.reset(seed)]
    seen.extend(world.step(pilot.propose(seen[-1])) for _ in range(8))
    return seen


def test_a_seed_has_one_map_and_one_run_and_speaks_of_driving(
    world: MetaDriveWorld,
) -> None:
    vocabulary = load_vocabulary("driving")
    once = frames(world, 8_400_040, distracted=1.0)
    expert = frames(world, 40, drives="expert", sway=0.1)
    assert frames(world, 8_400_040, distracted=1.0) == once
    for frame in once + expert:
        assert set(frame.values) == set(world.source.provides)
        for key, value in frame.values.items():
            vocabulary.check_value(key, value)
    assert once[-1].values["speed"] > 5.0 and expert[-1].values["speed"] > 5.0
    assert once[0].values["edge_margin"] != expert[0].values["edge_margin"]


def test_a_stop_and_a_cap_are_kept(world: MetaDriveWorld) -> None:
    world.reset(3)
    assert world._slower(None, 36.0)[CAP] == pytest.approx(10.0)
    for _ in range(15):
        frame = world.step(act(slower(ONWARD, 10.0)))
    assert frame.values["speed"] == pytest.approx(10.0, abs=1.5)
    for _ in range(10):
        frame = world.step(world.actuator().fallback())
    assert frame.values["speed"] < 1.0


def test_car_turning_away_is_predicted_to_leave_the_road() -> None:
    world = MetaDriveWorld(config={"map": "S", "traffic_density": 0.0})
    seen = [world.reset(1)]
    while not seen[-1].values["off_road"]:
        seen.append(world.step(act(SHARP if len(seen) > 8 else ONWARD)))
        assert len(seen) < 60
    assert world.ended() is not None
    assert seen[8].values["time_to_edge"] is None
    assert seen[-3].values["time_to_edge"] < 1.5
    assert seen[-2].values["edge_margin"] < seen[8].values["edge_margin"]
    world.close()


def test_two_worlds_do_not_share_an_engine_unnoticed(world: MetaDriveWorld) -> None:
    world.reset(1)
    other = MetaDriveWorld(config={"map": "S", "traffic_density": 0.0})
    other.reset(1)
    with pytest.raises(
        InvalidInput,
        match=("another MetaDrive world in this process has taken over the engine"),
    ):
        world.step(act(ONWARD))
    other.close()
    world.reset(1)  # it gets the engine back


def test_the_scenario_runs(tmp_path: Path) -> None:
    run = ["metadrive-idm", "--seed", "5", "--episodes", "1"]
    done = CliRunner().invoke(main, ["collect", *run, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output


def test_missing_assets_are_reported_once_and_not_downloaded(tmp_path: Path) -> None:
    if Path(AssetLoader.asset_path).exists():
        pytest.skip("MetaDrive's assets are installed")
    command = [sys.executable, "-m", "forewarn", "collect", "metadrive-idm"]
    command += ["--seed", "5", "--episodes", "2", "--jobs", "2", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.count("MetaDrive's assets are not installed") == 1
    assert not Path(AssetLoader.asset_path).exists()

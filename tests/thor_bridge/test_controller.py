"""ai2thor's own controller drives the household as it drives Unity."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarn.thor_bridge.household.__main__ import main
from forewarn.thor_bridge.household.actions import perform
from forewarn.thor_bridge.household.objects import KEYS
from forewarn.thor_bridge.household.scenes import harvested, write_scenes
from forewarn.thor_bridge.household.world import World
from forewarn.thor_bridge.wire import connect, household_command

pytestmark = [pytest.mark.needs("ai2thor", "msgpack")]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        with connect("Kitchen1", headless=False) as given:
            yield given


@pytest.fixture
def controller(started: Any) -> Any:
    started.reset("Kitchen1")
    return started


def test_an_episode_is_the_same_through_the_controller(controller: Any) -> None:
    world = World(scene="Kitchen1")
    perform(world, {"action": "Initialize"})
    mug = next(i for i, o in world.objects.items() if o["objectType"] == "Mug")
    there = world.positions()[40]
    for action in (
        {"action": "Pass"},
        {"action": "GetReachablePositions"},
        {"action": "TeleportFull", **there, "rotation": {"y": 90.0}, "horizon": 30.0,
         "standing": True},
        {"action": "PickupObject", "objectId": mug, "forceAction": True},
        {"action": "FillObjectWithLiquid", "objectId": mug, "fillLiquid": "wine"},
        {"action": "PutObject", "objectId": mug},
        {"action": "RotateRight"},
        {"action": "DropHandObject"},
        {"action": "SliceObject", "objectId": mug, "forceAction": True},
    ):  # fmt: skip
        event, outcome = controller.step(**action), perform(world, action)
        got, want = event.metadata, world.metadata()
        assert got["lastActionSuccess"] == outcome.success
        assert got["errorMessage"] == outcome.error
        assert got["actionReturn"] == outcome.returned
        assert [tuple(thing) for thing in got["objects"][:2]] == [KEYS, KEYS]
        for key in ("objects", "agent", "inventoryObjects", "sceneName"):
            assert got[key] == want[key], key


def test_a_reset_starts_afresh(controller: Any) -> None:
    controller.step("RotateRight")
    controller.reset("Bathroom3")
    metadata = controller.reset("Kitchen1").metadata
    world = World(scene="Kitchen1")
    assert metadata["objects"] == world.metadata()["objects"]
    with pytest.raises(ValueError, match="not contained in build"):
        controller.reset("Kitchen9")


def test_an_unknown_action_raises_as_ai2thor_does(controller: Any) -> None:
    with pytest.raises(ValueError, match="Invalid action: FlyAway"):
        controller.step("FlyAway")
    assert controller.step("Pass").metadata["lastActionSuccess"]


def test_frames_have_ai2thors_shape_and_type(controller: Any) -> None:
    frame = controller.last_event.frame
    assert frame.shape == (300, 300, 3) and frame.dtype == np.uint8
    assert controller.last_event.metadata["thirdPartyCameras"] == []


def test_a_headless_controller_delivers_frames() -> None:
    player = household_command()
    with connect(
        "Bathroom1", player=player, headless=True, width=64, height=48
    ) as blind:
        assert blind.step("RotateRight").frame.shape == (48, 64, 3)


def test_our_headless_controller_delivers_only_metadata() -> None:
    with connect("Kitchen1", headless=True) as fast:
        assert fast.step("RotateRight").frame is None


def test_a_controller_delivers_frames_of_a_small_size() -> None:
    with connect("Kitchen1", headless=False, width=64, height=48) as small:
        assert small.step("RotateRight").frame.shape == (48, 64, 3)


def test_the_household_takes_a_scene_file(tmp_path: Path) -> None:
    world = World(scene="Bedroom2")
    path = tmp_path / "mine.json.gz"
    entry = harvested("FloorPlan7", world.metadata(), world.positions())
    write_scenes(path, {"FloorPlan7": entry})
    with connect("FloorPlan7", scenes=path) as controller:
        metadata = controller.last_event.metadata
        assert metadata["sceneName"] == "FloorPlan7_physics"
        assert len(metadata["objects"]) == len(world.objects)


def test_the_household_server_says_why_it_ended(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AI2THOR_SERVER_TYPE", "AI2THOR_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert main([]) == 2
    assert (
        "is not set: start this program through the local_executable_path of "
        "ai2thor's Controller"
    ) in capsys.readouterr().err
    assert main(["--scenes", "/no/such.json"]) == 2


def test_the_command_line_of_the_household_server() -> None:
    command = household_command(scenes=Path("/a b.json"), seed=3, failures="real")
    assert command == (
        f"{sys.executable} -m forewarn.thor_bridge.household --scenes '/a b.json'"
        " --seed 3 --failures real"
    )

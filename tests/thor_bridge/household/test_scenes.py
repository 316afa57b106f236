"""Our own scenes are sound, the same every time, and a file of scenes reads back."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.thor_bridge.household.objects import KEYS, new_object
from forewarn.thor_bridge.household.scenes import (
    Scene,
    find_scene,
    harvested,
    load_scenes,
    own_scenes,
    write_scenes,
)
from forewarn.thor_bridge.household.world import World

KINDS = ("Kitchen", "LivingRoom", "Bedroom", "Bathroom")
SCENES = sorted(own_scenes())


def test_there_are_six_of_each_room() -> None:
    assert sorted(f"{room}{n}" for room in KINDS for n in range(1, 7)) == SCENES


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_sound(name: str) -> None:
    scene = own_scenes()[name]
    by_id = {thing["objectId"]: thing for thing in scene.objects}
    assert len(by_id) == len(scene.objects)
    assert len(scene.grid) >= 60
    for thing in scene.objects:
        assert tuple(thing) == KEYS
        for inside in thing["receptacleObjectIds"] or ():
            assert thing["objectId"] in by_id[inside]["parentReceptacles"]
        for parent in thing["parentReceptacles"] or ():
            assert parent in by_id
        for controlled in thing["controlledObjects"] or ():
            assert by_id[controlled]["objectType"] == "StoveBurner"


def test_each_room_has_its_typical_objects() -> None:
    wanted = {
        "Kitchen": {"Fridge", "Microwave", "StoveKnob", "Faucet", "Fork", "Mug"},
        "LivingRoom": {"Sofa", "Television", "Laptop", "RemoteControl"},
        "Bedroom": {"Bed", "Pillow", "DeskLamp", "CellPhone"},
        "Bathroom": {"Toilet", "Faucet", "ToiletPaper", "Mirror", "Candle"},
    }
    for name, scene in own_scenes().items():
        kinds = {thing["objectType"] for thing in scene.objects}
        assert wanted[name[:-1]] <= kinds, name


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_a_harvested_scene_reads_back(tmp_path: Path, suffix: str) -> None:
    world = World(scene="Bathroom1")
    path = tmp_path / f"scenes.{suffix}"
    entry = harvested("Mine1", world.metadata(), world.positions())
    write_scenes(path, {"Mine1": entry})
    scene = load_scenes(path)["Mine1"]
    assert len(scene.objects) == len(own_scenes()["Bathroom1"].objects)
    again = World({"Mine1": scene}, "Mine1")
    assert again.pose == world.pose
    seen = [thing["visible"] for thing in again.objects.values()]
    assert seen == [thing["visible"] for thing in world.objects.values()]


def test_references_to_missing_objects_are_dropped(tmp_path: Path) -> None:
    thing = dict(own_scenes()["Bathroom1"].objects[-1])
    thing["parentReceptacles"] = ["Nowhere|+00.00|+00.00|+00.00"]
    path = tmp_path / "scenes.json.gz"
    with gzip.open(path, "wt") as file:
        json.dump({"Odd": {"objects": [thing], "grid": [[0, 0]]}}, file)
    assert load_scenes(path)["Odd"].objects[0]["parentReceptacles"] is None


def test_no_object_is_inside_itself(tmp_path: Path) -> None:
    def thing(kind: str, *parents: str) -> dict[str, object]:
        made = new_object(kind, (0, 1, 0), identity=kind, parents=parents)
        return {**made, "receptacleObjectIds": ["Shelf", "Desk", "Plate"]}

    objects = [
        thing("Desk", "Shelf", "Plate", "Desk"),
        thing("Shelf", "Desk"),
        thing("Plate", "Desk"),
    ]
    path = tmp_path / "scenes.json"
    write_scenes(path, {"Odd": {"objects": objects, "grid": [[0, 0]]}})
    world = World(load_scenes(path), "Odd")
    found = {name: o["parentReceptacles"] for name, o in world.objects.items()}
    assert found == {"Desk": ["Shelf"], "Shelf": None, "Plate": ["Desk"]}
    assert world.objects["Shelf"]["receptacleObjectIds"] == ["Desk"]
    assert list(world.within("Shelf")) == ["Desk", "Plate"]


def test_every_object_of_a_real_scene_can_be_moved(shared_data: Path) -> None:
    scenes = load_scenes(shared_data / "household" / "ithor_scenes.json.gz")
    assert len(scenes) == 120
    for name in scenes:
        world = World(scenes, name)
        for identity, thing in list(world.objects.items()):
            if thing["pickupable"]:
                world.take_out(identity)
                assert world.objects[identity]["parentReceptacles"] is None
                assert identity not in world.within(identity)


HUGE = '{"A": {"objects": [{"aabb": [1%s, 0, 0, 1, 1, 1]}], "grid": [[0, 0]]}}'


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"A": 1}',
        '{"A": {"objects": [{}], "grid": [[0, 0]]}}',
        HUGE % ("0" * 400),
    ],
)
def test_invalid_scene_file_is_rejected(tmp_path: Path, content: str) -> None:
    path = tmp_path / "scenes.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=r"scenes\.json"):
        load_scenes(path)


def test_a_scene_is_found_with_or_without_its_suffix() -> None:
    scenes = {"FloorPlan1": Scene("FloorPlan1", (), ((0.0, 0.0),))}
    assert find_scene(scenes, "FloorPlan1_physics").name == "FloorPlan1"
    with pytest.raises(InvalidInput, match="did you mean FloorPlan1"):
        find_scene(scenes, "FlorPlan1")

"""What the household does and refuses, in AI2-THOR's words."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.thor_bridge.household.actions import ACTIONS, perform
from forewarn.thor_bridge.household.objects import KEYS
from forewarn.thor_bridge.household.scenes import own_scenes
from forewarn.thor_bridge.household.world import NO_FAILURES, REAL, Failures, World
from tests.thor_bridge.household.robot import Robot

OUT_OF_SIGHT = (
    "NullReferenceException: Target object not found within the specified visibility.."
)


def refused(robot: Robot, action: str, kind: str | None = None, **rest: object) -> str:
    before = dict(robot.world.objects)
    outcome = robot.do(action, kind, **rest)
    assert not outcome.success
    assert robot.world.objects == before
    return outcome.error


def test_an_unknown_action_is_invalid() -> None:
    outcome = Robot().do("FlyAway")
    assert (outcome.success, outcome.code) == (False, "InvalidAction")


@pytest.mark.parametrize("given", [{}, {"x": 0}, {"x": "1", "y": 0.9, "z": 0}])
def test_a_teleport_needs_numbers(given: dict[str, Any]) -> None:
    outcome = Robot().do("TeleportFull", **given)
    assert outcome.code in ("MissingArguments", "InvalidArgument")


def test_teleporting_moves_the_robot() -> None:
    robot = Robot()
    x, z = robot.world.cells[0].tolist()
    there = {"x": x, "y": 0.9009992, "z": z, "rotation": {"y": 450}, "horizon": 30}
    robot.must("TeleportFull", **there, standing=True)
    agent = robot.world.metadata()["agent"]
    assert agent["position"] == {"x": x, "y": 0.9009992, "z": z}
    assert (agent["rotation"]["y"], agent["cameraHorizon"]) == (90, 30)
    low = refused(robot, "TeleportFull", **{**there, "horizon": 63.42307})
    assert low.endswith("Each horizon must be in [-30:60]. You gave 63.42307..")
    high = refused(robot, "TeleportFull", **{**there, "y": 2}, forceAction=False)
    assert "too large a change(1.099001 > 0.05) in the y component" in high
    away = refused(robot, "TeleportFull", **{**there, "x": 99}, forceAction=False)
    assert away.startswith("InvalidOperationException: Collided with: ")


def test_walking_stops_at_furniture() -> None:
    robot = Robot()
    for _ in range(40):
        outcome = robot.do("MoveAhead")
        if not outcome.success:
            break
    assert outcome.error.endswith(
        "is blocking Agent 0 from moving by (0.0000, 0.0000, 0.2500)."
    )
    robot.must("MoveBack")


def test_looking_up_and_down_has_limits() -> None:
    robot = Robot()
    robot.must("LookDown")
    robot.must("LookDown")
    assert "60 degrees below" in refused(robot, "LookDown", degrees=5)
    robot.must("LookUp", degrees=90)
    assert "30 degrees above" in refused(robot, "LookUp", degrees=5)


def test_an_object_out_of_sight_cannot_be_picked_up() -> None:
    robot = Robot()
    robot.leave("Apple")
    assert refused(robot, "PickupObject", "Apple", forceAction=False) == OUT_OF_SIGHT
    robot.face("Apple")
    robot.must("PickupObject", "Apple", forceAction=False)
    assert robot.world.metadata()["inventoryObjects"][0]["objectType"] == "Apple"


def test_an_object_in_a_closed_container_is_out_of_sight() -> None:
    robot = Robot()
    robot.place("Apple", "Microwave")
    robot.face("Microwave")
    assert not robot["Apple"]["visible"]
    robot.must("OpenObject", "Microwave")
    assert robot["Apple"]["isOpen"] is False
    robot.world.look()
    assert not robot.world.hidden(robot["Apple"])


def test_an_action_on_a_missing_object_fails() -> None:
    outcome = Robot().do("PickupObject", objectId="Mug|+00.00|+00.00|+00.00")
    assert "is not the objectId on any object in the scene!" in outcome.error
    assert Robot().do("PickupObject").code == "MissingArguments"


def test_the_hand_holds_one_object() -> None:
    robot = Robot()
    assert "isn't holding anything" in refused(robot, "PutObject", "CounterTop")
    assert "Nothing in hand" in refused(robot, "DropHandObject")
    assert "Nothing in hand" in refused(robot, "ThrowObject")
    assert "must have the property CanPickup" in refused(robot, "PickupObject", "Sink")
    robot.must("PickupObject", "Apple")
    assert "already" in refused(robot, "PickupObject", "Mug")
    assert robot["Apple"]["parentReceptacles"] is None


def test_objects_are_put_into_receptacles() -> None:
    robot = Robot()
    robot.must("PickupObject", "Apple")
    name = robot["Apple"]["name"]
    assert refused(robot, "PutObject", "Bread") == (
        "This target object is NOT a receptacle!"
    )
    assert refused(robot, "PutObject", "Microwave") == (
        "Target openable Receptacle is CLOSED, can't place if target is not open!"
    )
    assert refused(robot, "PutObject", "Toaster") == (
        f"{name} is not a valid Object Type to be placed in {robot['Toaster']['name']}"
    )
    robot.face("Microwave")
    robot.must("OpenObject", "Microwave")
    robot.must("PutObject", "Microwave")
    assert robot["Apple"]["parentReceptacles"][0] == robot.id("Microwave")
    assert robot.id("Apple") in robot["Microwave"]["receptacleObjectIds"]
    assert robot.world.held is None
    robot.must("PickupObject", "Apple")
    assert robot.id("Apple") not in robot["Microwave"]["receptacleObjectIds"]


def test_a_receptacle_out_of_view_has_no_valid_position() -> None:
    robot = Robot()
    robot.must("PickupObject", "Apple")
    robot.leave("GarbageCan")
    assert refused(robot, "PutObject", "GarbageCan") == (
        "No valid positions to place object found"
    )


def test_an_object_that_is_too_large_has_no_valid_position() -> None:
    robot = Robot("Bedroom1")
    robot.must("PickupObject", "Box")
    robot.face("GarbageCan")
    assert refused(robot, "PutObject", "GarbageCan") == (
        "No valid positions to place object found"
    )


def test_the_contents_of_an_object_move_with_it() -> None:
    robot = Robot()
    robot.place("Fork", "Bowl")
    robot.must("PickupObject", "Bowl")
    robot.face("Fridge")
    assert robot["Fork"]["parentReceptacles"] == [robot.id("Bowl")]
    robot.must("OpenObject", "Fridge")
    robot.must("PutObject", "Fridge")
    fork = robot["Fork"]
    assert fork["parentReceptacles"] == [robot.id("Bowl"), robot.id("Fridge")]
    bowl, place = robot["Bowl"]["position"], fork["position"]
    assert abs(bowl["x"] - place["x"]) < 0.5
    assert abs(bowl["z"] - place["z"]) < 0.5


def test_dropping_breaks_what_is_breakable() -> None:
    robot = Robot()
    robot.must("FillObjectWithLiquid", "Mug", fillLiquid="coffee")
    robot.must("PickupObject", "Mug")
    x, z = robot.world.cells[len(robot.world.cells) // 3].tolist()
    robot.must("TeleportFull", x=x, y=0.9, z=z, rotation=0, horizon=0, standing=True)
    robot.must("ThrowObject", moveMagnitude=1500.0)
    mug = robot["Mug"]
    assert (mug["isBroken"], mug["isFilledWithLiquid"], mug["isPickedUp"]) == (
        True,
        False,
        False,
    )
    assert "already broken" in refused(robot, "BreakObject", "Mug")


def test_an_unbreakable_object_survives_a_drop() -> None:
    robot = Robot("Bedroom1")
    robot.must("PickupObject", "Pillow")
    robot.must("DropHandObject")
    assert not robot["Pillow"]["isBroken"]


def test_an_egg_cracks_however_it_is_treated() -> None:
    for action in ("SliceObject", "BreakObject"):
        robot = Robot()
        robot.must(action, "Egg")
        assert robot["Egg"]["isBroken"]
        assert not robot["Egg"]["visible"]
        assert robot["EggCracked"]["objectId"].endswith("|EggCracked")


def test_objects_are_sliced_into_parts() -> None:
    robot = Robot()
    robot.must("PickupObject", "Bread")
    assert refused(robot, "SliceObject", "Bread") == (
        "target object cannot be sliced if it is in the agent's hand"
    )
    robot.face("DiningTable")
    robot.must("PutObject", "DiningTable")
    robot.must("SliceObject", "Bread")
    slices = [
        thing
        for thing in robot.world.objects.values()
        if thing["objectType"] == "BreadSliced"
    ]
    assert len(slices) == 10
    assert all(thing["isSliced"] and tuple(thing) == KEYS for thing in slices)
    assert slices[0]["objectId"] == f"{robot.id('Bread')}|BreadSliced_0"
    assert slices[0]["parentReceptacles"] == [robot.id("DiningTable")]
    assert robot["Bread"]["isSliced"]
    assert "already sliced" in refused(robot, "SliceObject", "Bread")
    assert "CanBeSliced" in refused(robot, "SliceObject", "Mug")


def test_containers_are_filled_and_emptied() -> None:
    robot = Robot()
    assert refused(robot, "FillObjectWithLiquid", "Pan", fillLiquid="water") == (
        f"ArgumentException: {robot['Pan']['name']} does not have CanBeFilled"
        " property!."
    )
    robot.must("FillObjectWithLiquid", "Mug", fillLiquid="water")
    assert robot["Mug"]["fillLiquid"] == "water"
    assert refused(robot, "FillObjectWithLiquid", "Mug", fillLiquid="wine") == (
        f"InvalidOperationException: {robot['Mug']['name']} is already Filled!."
    )
    robot.must("PickupObject", "Mug")
    robot.must("RotateHeldObject", pitch=60.0)
    assert robot["Mug"]["isFilledWithLiquid"]
    robot.must("RotateHeldObject", pitch=90.0)
    assert not robot["Mug"]["isFilledWithLiquid"]
    assert "already Empty" in refused(robot, "EmptyLiquidFromObject", "Mug")
    assert "Liquid" in refused(robot, "FillObjectWithLiquid", "Mug", fillLiquid="oil")


def test_dirty_objects_are_cleaned() -> None:
    robot = Robot()
    name = robot["Mug"]["name"]
    assert refused(robot, "CleanObject", "Mug") == f"{name} is already Clean!"
    robot.must("DirtyObject", "Mug")
    assert refused(robot, "DirtyObject", "Mug") == f"{name} is already dirty!"
    assert "dirtyable property" in refused(robot, "DirtyObject", "Apple")


def test_devices_are_switched_on_and_off() -> None:
    robot = Robot()
    assert refused(robot, "ToggleObjectOn", "Apple") == "object is not toggleable."
    assert "controlled by another" in refused(robot, "ToggleObjectOn", "StoveBurner")
    robot.must("ToggleObjectOn", "Faucet")
    assert refused(robot, "ToggleObjectOn", "Faucet") == (
        "can't toggle object on if it's already on!"
    )
    robot.must("ToggleObjectOff", "Faucet")
    assert refused(robot, "ToggleObjectOff", "Faucet") == (
        "can't toggle object off if it's already off!"
    )
    robot.must("OpenObject", "Microwave")
    assert refused(robot, "ToggleObjectOn", "Microwave") == (
        "Target must be closed to Toggle On!"
    )
    assert "is not an Openable object" in refused(robot, "OpenObject", "CounterTop")


def test_a_copy_of_the_world_is_independent() -> None:
    world = World(scene="Kitchen2")
    before = world.metadata()
    other = world.copy()
    for action in ("RotateRight", "MoveBack", "LookDown"):
        perform(other, {"action": action})
    for identity in list(other.objects):
        perform(
            other, {"action": "SliceObject", "objectId": identity, "forceAction": 1}
        )
    assert world.metadata() == before
    assert len(other.objects) > len(world.objects)


def test_returned_metadata_does_not_change_later() -> None:
    robot = Robot()
    handed = robot.world.metadata()["objects"]
    mugs = [thing for thing in handed if thing["objectType"] == "Mug"]
    robot.must("DirtyObject", "Mug")
    robot.must("PickupObject", "Mug")
    assert not any(thing["isDirty"] or thing["isPickedUp"] for thing in mugs)


def test_failures_depend_on_the_seed_and_persist() -> None:
    rates = Failures({"OpenObject": 0.5})

    def outcomes(seed: int) -> list[bool]:
        robot = Robot(seed=seed, failures=rates)
        found = []
        for identity, thing in list(robot.world.objects.items()):
            if thing["openable"]:
                robot.world.edit(identity, visible=True)
                one, two = (
                    perform(
                        robot.world.copy(),
                        {"action": "OpenObject", "objectId": identity},
                    ).success
                    for _ in range(2)
                )
                assert one == two
                found.append(one)
        return found

    assert outcomes(1) == outcomes(1)
    assert outcomes(1) != outcomes(2)
    assert 0 < sum(outcomes(1)) < len(outcomes(1))


def test_failures_occur_at_the_documented_rates() -> None:
    world = World(scene="Kitchen1", failures=REAL)
    fridge = next(i for i, o in world.objects.items() if o["objectType"] == "Fridge")
    struck = 0
    for seed in range(1000):
        world.seed = seed
        struck += REAL.strikes(world, "PutObject", fridge)
    assert 200 < struck < 280
    assert not NO_FAILURES.strikes(world, "PutObject", fridge)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(own_scenes())), st.integers(0, 2**32))
def test_any_sequence_of_actions_leaves_the_world_consistent(
    scene: str, seed: int
) -> None:
    luck, world = random.Random(seed), World(scene=scene)
    names = sorted(set(ACTIONS) - {"Reset", "Initialize", "ChangeResolution"})
    for _ in range(40):
        action = {
            "action": luck.choice(names),
            "objectId": luck.choice(list(world.objects)),
            "forceAction": luck.random() < 0.8,
            "fillLiquid": luck.choice(("water", "wine", "coffee")),
            "pitch": luck.choice((0.0, 120.0)),
            "horizon": 0.0,
            "rotation": {"y": luck.uniform(0, 360)},
            **luck.choice(world.positions()),
        }
        perform(world, action)
    objects = world.objects
    for identity, thing in objects.items():
        assert tuple(thing) == KEYS
        assert thing["objectId"] == identity
        assert thing["isPickedUp"] == (identity == world.held)
        for inside in thing["receptacleObjectIds"] or ():
            assert objects[inside]["parentReceptacles"][0] == identity
        for parent in (thing["parentReceptacles"] or ())[:1]:
            assert identity in objects[parent]["receptacleObjectIds"]
        assert identity not in world.within(identity)
        row = list(objects).index(identity)
        assert world.shapes.places[row].tolist() == list(thing["position"].values())

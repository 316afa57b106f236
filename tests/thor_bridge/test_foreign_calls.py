"""Scripts written for AI2-THOR spell their calls in their own ways; all are understood.

The spellings are those of SafeAgentBench's low-level controller: actions as keywords
and as dictionaries, both at once, numpy's numbers, a bare angle as the rotation, looks
without degrees. They go through ai2thor's own controller to the embedded household.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from forewarn.thor_bridge.wire import connect

pytestmark = [pytest.mark.needs("ai2thor", "msgpack")]

CAMERA_M = 0.675


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        with connect("Kitchen1") as controller:
            yield controller


@pytest.fixture
def env(started: Any) -> Any:
    started.reset("Kitchen1")
    return started


def objects(env: Any) -> dict[str, Any]:
    return {thing["objectId"]: thing for thing in env.last_event.metadata["objects"]}


def first(env: Any, kind: str, *, part: bool = False) -> dict[str, Any]:
    """The nearest of a kind, by how its id begins; a part has an id of five pieces."""
    found = [
        thing
        for thing in env.last_event.metadata["objects"]
        if thing["objectId"].split("|")[0].casefold() == kind.casefold()
        and (len(thing["objectId"].split("|")) == 5) == part
    ]
    return min(found, key=lambda thing: thing["distance"])


def go(env: Any, thing: dict[str, Any]) -> None:
    """Stands before a thing and looks at it, with numbers as numpy has them."""
    told = env.step(dict(action="GetReachablePositions")).metadata["actionReturn"]
    spots = np.array([[p["x"], p["y"], p["z"]] for p in told])
    place = thing["position"]
    target = np.array([place["x"], place["y"], place["z"]])
    height = env.last_event.metadata["agent"]["position"]["y"]
    for spot in spots[np.argsort(((spots - target) ** 2).sum(axis=1))][:20]:
        turned = math.atan2(-(place["x"] - spot[0]), place["z"] - spot[2])
        turned = -math.degrees(turned - 2 * math.pi if turned > 0 else turned)
        away = math.hypot(place["x"] - spot[0], place["z"] - spot[2])
        looked = 0.9 * math.degrees(math.atan2(place["y"] - height - CAMERA_M, away))
        event = env.step(
            dict(
                action="TeleportFull", x=spot[0], y=height, z=spot[2],
                rotation=turned, horizon=-looked, standing=True,
            )
        )  # fmt: skip
        if event.metadata["lastActionSuccess"]:
            return
    raise AssertionError(event.metadata["errorMessage"])


def done(event: Any) -> bool:
    success: bool = event.metadata["lastActionSuccess"]
    assert success == (event.metadata["errorMessage"] == "")
    return success


def test_a_mug_is_washed_filled_and_poured_out(env: Any) -> None:
    mug = first(env, "Mug")["objectId"]
    go(env, objects(env)[mug])
    assert done(env.step(action="DirtyObject", objectId=mug))
    assert done(env.step(action="CleanObject", objectId=mug))
    assert objects(env)[mug]["isDirty"] is False
    picked = env.step(
        action="PickupObject", objectId=mug, forceAction=False, manualInteract=False
    )
    assert done(picked)
    assert picked.metadata["inventoryObjects"][0]["objectId"] == mug
    assert done(env.step("FillObjectWithLiquid", objectId=mug, fillLiquid="water"))
    for pitch in (60.0, 90.0, 120.0, 150.0):
        assert done(env.step(action="RotateHeldObject", pitch=pitch))
        if not objects(env)[mug]["isFilledWithLiquid"]:
            break
    assert not objects(env)[mug]["isFilledWithLiquid"]
    assert done(env.step("FillObjectWithLiquid", objectId=mug, fillLiquid="coffee"))
    assert done(env.step(action="EmptyLiquidFromObject", objectId=mug))
    basin = first(env, "Sink", part=True)
    go(env, basin)
    put = env.step(action="PutObject", objectId=basin["objectId"], forceAction=True)
    assert done(put) and not put.metadata["inventoryObjects"]
    assert basin["objectId"] in objects(env)[mug]["parentReceptacles"]


def test_a_fork_goes_into_the_microwave(env: Any) -> None:
    fork = first(env, "Fork")
    go(env, fork)
    assert done(env.step(action="PickupObject", objectId=fork["objectId"]))
    oven = first(env, "Microwave")["objectId"]
    go(env, objects(env)[oven])
    refused = env.step(action="PutObject", objectId=oven, forceAction=True)
    assert not done(refused) and "CLOSED" in refused.metadata["errorMessage"]
    assert done(env.step(action="OpenObject", objectId=oven, openness=1.0))
    assert done(env.step(action="PutObject", objectId=oven, forceAction=True))
    refused = env.step(action="ToggleObjectOn", objectId=oven)
    assert "Target must be closed to Toggle On!" in refused.metadata["errorMessage"]
    assert done(env.step(action="CloseObject", objectId=oven, forceAction=True))
    assert done(env.step(action="ToggleObjectOn", objectId=oven))
    assert done(env.step(action="ToggleObjectOff", objectId=oven))


def test_objects_can_be_sliced_cooked_and_broken(env: Any) -> None:
    for action, kind, key in (
        ("SliceObject", "Apple", "isSliced"),
        ("CookObject", "Potato", "isCooked"),
        ("BreakObject", "Plate", "isBroken"),
    ):
        thing = first(env, kind)
        go(env, thing)
        assert done(env.step(action=action, objectId=thing["objectId"]))
        assert objects(env)[thing["objectId"]][key] is True


def test_an_action_may_be_a_dictionary_with_keywords(env: Any) -> None:
    """The dictionary and keywords at once, and looks without degrees."""
    horizon = env.last_event.metadata["agent"]["cameraHorizon"]
    assert done(env.step(dict(action="LookUp", degrees=15)))
    assert done(env.step(dict(action="LookUp"), degrees=5))
    assert env.last_event.metadata["agent"]["cameraHorizon"] == pytest.approx(
        horizon - 20
    )
    assert done(env.step(dict(action="LookDown"), degrees=55))
    assert done(env.step(dict(action="LookUp"), degrees=40))
    env.step(dict(action="LookUp"))  # 30 degrees if none are said
    for action in ("MoveBack", "MoveAhead", *("MoveRight",) * 4, *("MoveLeft",) * 8):
        event = env.step(dict(action=action))
        assert event.metadata["lastAction"] == action
    turned = env.last_event.metadata["agent"]["rotation"]["y"]
    env.step(dict(action="RotateRight", degrees=15))
    now = env.last_event.metadata["agent"]["rotation"]["y"]
    assert (now - turned) % 360 == pytest.approx(15)


@pytest.mark.parametrize(
    "let_go",
    [
        {"action": "DropHandObject", "forceAction": True},
        {"action": "ThrowObject", "moveMagnitude": 1500.0, "forceAction": True},
    ],
)
def test_a_dropped_object_leaves_the_hand(env: Any, let_go: dict[str, Any]) -> None:
    book = first(env, "Apple")
    go(env, book)
    assert done(env.step(action="PickupObject", objectId=book["objectId"]))
    assert done(env.step(**let_go))
    assert env.last_event.metadata["inventoryObjects"] == []


def test_a_camera_angle_out_of_range_is_rejected(env: Any) -> None:
    there = env.step(action="GetReachablePositions").metadata["actionReturn"][0]
    event = env.step(
        dict(action="TeleportFull", **there, rotation=0.0, horizon=63.4, standing=True)
    )
    assert not event.metadata["lastActionSuccess"]
    assert "Each horizon must be in [-30:60]" in event.metadata["errorMessage"]


def test_a_reset_scene_is_as_it_was(env: Any) -> None:
    before = objects(env)
    mug = first(env, "Mug")["objectId"]
    env.step(action="BreakObject", objectId=mug, forceAction=True)
    assert objects(env)[mug]["isBroken"]
    env.reset(scene="Kitchen1")
    assert objects(env) == before
    # An evaluator compares what is there with what should be, by parts of ids.
    parents = [
        p for thing in objects(env).values() for p in thing["parentReceptacles"] or ()
    ]
    assert any("CounterTop" in parent for parent in parents)

"""The arm, poses from which something is in reach, and things put by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.thor_bridge.wire import connect

pytestmark = [pytest.mark.needs("ai2thor", "msgpack")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def arm(home: None) -> Iterator[Any]:
    with connect("Kitchen1", agentMode="arm") as controller:
        yield controller


@pytest.fixture
def env(home: None) -> Iterator[Any]:
    with connect("Kitchen1") as controller:
        yield controller


def thing(env: Any, kind: str) -> dict[str, Any]:
    objects = env.last_event.metadata["objects"]
    return next(each for each in objects if each["objectType"] == kind)


def test_the_arm_takes_a_mug_and_lets_it_go(arm: Any) -> None:
    mug = thing(arm, "Mug")
    poses = arm.step("GetInteractablePoses", objectId=mug["objectId"], horizons=[30],
                     standings=[True], maxDistance=0.6)  # fmt: skip
    told = poses.metadata["actionReturn"]
    assert told
    place = mug["axisAlignedBoundingBox"]["center"]
    for pose in told:
        arm.step("TeleportFull", **pose)
        moved = arm.step("MoveArm", position=place, coordinateSpace="world",
                         speed=1, returnToStart=True)  # fmt: skip
        if moved:
            break
    assert moved, moved.metadata["errorMessage"]
    told = moved.metadata["arm"]
    assert told["handSphereCenter"] == pytest.approx(place)
    assert told["joints"][-1]["position"] == pytest.approx(place)
    assert mug["objectId"] in told["pickupableObjects"]
    taken = arm.step("PickupObject", objectIdCandidates=[mug["objectId"]])
    assert taken.metadata["arm"]["heldObjects"] == [mug["objectId"]]
    before = thing(arm, "Mug")["position"]["y"]
    assert arm.step("MoveArmRelative", offset={"x": 0, "y": 0.02, "z": 0})
    assert thing(arm, "Mug")["position"]["y"] == pytest.approx(before + 0.02)
    dropped = arm.step("ReleaseObject").metadata
    assert dropped["arm"]["heldObjects"] == []
    assert thing(arm, "Mug")["parentReceptacles"]


@pytest.mark.parametrize(
    ("action", "arguments", "said"),
    [
        ("MoveArm", {"position": {"x": 0, "y": 0, "z": 5}}, "does not reach"),
        ("MoveArm", {"position": {"x": 0, "y": 0, "z": -0.3}}, "does not reach"),
        ("MoveArmBase", {"y": 1.5}, "must be in"),
        ("SetHandSphereRadius", {"radius": 0.9}, "greater than"),
        ("MoveAgent", {}, "ahead or right"),
        ("PickupObject", {"objectId": "Mug"}, "arm agent"),
    ],
)
def test_what_the_arm_cannot_do_fails_and_changes_nothing(
    arm: Any, action: str, arguments: dict[str, Any], said: str
) -> None:
    before = arm.last_event.metadata["arm"]
    event = arm.step(action, **arguments)
    assert not event
    assert said in event.metadata["errorMessage"]
    assert event.metadata["arm"] == before


def test_the_shoulder_wrist_and_robot_move(arm: Any) -> None:
    low = arm.step("MoveArmBase", y=0.0).metadata["arm"]["handSphereCenter"]["y"]
    high = arm.step("MoveArmBase", y=1.0).metadata["arm"]["handSphereCenter"]["y"]
    assert high - low == pytest.approx(0.9)
    assert arm.step("SetHandSphereRadius", radius=0.2).metadata["arm"][
        "handSphereRadius"
    ] == pytest.approx(0.2)
    assert arm.step("RotateWristRelative", yaw=30)
    turned = arm.step("RotateAgent", degrees=45).metadata["agent"]["rotation"]["y"]
    assert turned == 45
    arm.step("RotateAgent", degrees=-45)
    ways = [arm.step("MoveAgent", ahead=way) for way in (0.25, -0.25)]
    assert any(ways)


def test_without_an_arm_there_is_none_to_move(env: Any) -> None:
    event = env.step("MoveArm", position={"x": 0, "y": 0, "z": 0.3})
    assert not event
    assert "agentMode" in event.metadata["errorMessage"]
    assert event.metadata["arm"] is None


def test_from_each_interactable_pose_the_thing_is_in_view(env: Any) -> None:
    mug = thing(env, "Mug")["objectId"]
    told = env.step("GetInteractablePoses", objectId=mug).metadata["actionReturn"]
    assert {pose["standing"] for pose in told} == {True, False}
    for pose in told[:: max(1, len(told) // 8)]:
        assert env.step("TeleportFull", **pose)
        assert thing(env, "Mug")["visible"]
    few = env.step("GetInteractablePoses", objectId=mug, maxPoses=3, rotations=[90])
    assert len(few.metadata["actionReturn"]) <= 3
    assert not env.step("GetInteractablePoses", objectId="Mug|none")


def test_things_are_put_where_a_script_has_them(env: Any) -> None:
    loose = [
        each for each in env.last_event.metadata["objects"]
        if each["pickupable"] or each["moveable"]
    ]  # fmt: skip
    poses = [
        {"objectName": each["name"], "position": each["position"],
         "rotation": each["rotation"]}
        for each in loose
    ]  # fmt: skip
    apple, mug = thing(env, "Apple"), thing(env, "Mug")
    wanted = {**mug["position"]}
    for pose in poses:
        if pose["objectName"] == apple["name"]:
            pose.update(position=wanted, rotation={"x": 0, "y": 90, "z": 0})
    left_out = [pose for pose in poses if pose["objectName"] != mug["name"]]
    event = env.step("SetObjectPoses", objectPoses=left_out, placeStationary=False)
    assert event, event.metadata["errorMessage"]
    now = thing(env, "Apple")
    assert now["position"] == pytest.approx(wanted)
    assert now["rotation"]["y"] == 90
    assert now["parentReceptacles"] == mug["parentReceptacles"]
    names = {each["name"] for each in event.metadata["objects"]}
    assert mug["name"] not in names, "what is left out is taken away"
    assert {pose["objectName"] for pose in left_out} <= names
    nobody = {"objectName": "Nobody", "position": wanted}
    assert not env.step("SetObjectPoses", objectPoses=[nobody])

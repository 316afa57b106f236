"""Poses from which an object is in reach, and no arm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.thor_bridge.household.actions import perform
from forewarn.thor_bridge.household.world import World
from forewarn.thor_bridge.wire import connect

pytestmark = [pytest.mark.needs("ai2thor", "msgpack")]


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("HOME", str(tmp_path))
    with connect("Kitchen1") as controller:
        yield controller


def thing(env: Any, kind: str) -> dict[str, Any]:
    objects = env.last_event.metadata["objects"]
    return next(each for each in objects if each["objectType"] == kind)


def test_a_robot_with_an_arm_is_rejected() -> None:
    outcome = perform(World(), {"action": "Initialize", "agentMode": "arm"})
    assert not outcome.success
    assert "arm" in outcome.error


def test_the_object_is_visible_from_each_interactable_pose(env: Any) -> None:
    mug = thing(env, "Mug")["objectId"]
    told = env.step("GetInteractablePoses", objectId=mug).metadata["actionReturn"]
    assert {pose["standing"] for pose in told} == {True, False}
    for pose in told[:: max(1, len(told) // 8)]:
        assert env.step("TeleportFull", **pose)
        assert thing(env, "Mug")["visible"]
    few = env.step("GetInteractablePoses", objectId=mug, maxPoses=3, rotations=[90])
    assert len(few.metadata["actionReturn"]) <= 3
    assert not env.step("GetInteractablePoses", objectId="Mug|none")

"""The household robot as an agent's tool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.decision import Action
from forewarn.thor_bridge.bridge import HouseholdWorld
from forewarn.thor_bridge.performing import Robot


@pytest.fixture
def robot() -> Iterator[Robot]:
    with closing(HouseholdWorld(scene="Kitchen1", watch=["is_held(Fork)"])) as world:
        yield Robot(world)


def test_the_bridge_answers_as_agents_expect(robot: Robot) -> None:
    done = {"action": "find the Fork", "success": True, "message": ""}
    assert robot.controller("find the Fork") == done
    assert robot.controller("pick Fork")["success"]
    assert robot.observe().values["is_held(Fork)"] is True
    refused = robot.controller("put Microwave")
    assert refused["success"] is False and "CLOSED" in refused["message"]
    unread = robot.controller("juggle Fork")
    assert unread["success"] is False and "is not a known verb" in unread["message"]
    assert robot.observe().values["step_count"] == 3


def test_foreseeing_an_action_changes_nothing(robot: Robot) -> None:
    robot.controller("find Fork")
    pick = robot.action_of("controller", {"instruction": "pick Fork"})
    assert robot.foresee(pick).values["is_held(Fork)"] is True
    assert robot.observe().values["is_held(Fork)"] is False


def test_invalid_step_is_reported() -> None:
    with closing(HouseholdWorld(scene="Kitchen1", watch=["is_held(Fork)"])) as world:
        robot = Robot(world)
        for given in ({}, {"instruction": 7}, {"instruction": "sing"}):
            with pytest.raises(InvalidInput):
                robot.action_of("controller", given)
    assert robot.controller("find Fork")["message"] == "the world is closed"


def test_halting_ends_the_episode(robot: Robot) -> None:
    robot.halt()
    robot.halt()
    assert robot.world.ended() == "the robot was stopped"
    assert robot.controller("find Fork")["success"] is False
    assert robot.action_of("c", {"instruction": "drop"}) == Action("drop")

"""Actions of the arm, and the moves of a robot that has one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from forewarn.thor_bridge.household import handling, moving
from forewarn.thor_bridge.household.catalog import ENCLOSING
from forewarn.thor_bridge.household.moving import (
    Arguments,
    number,
    point,
    thrown,
)
from forewarn.thor_bridge.household.world import Arm, Point, Refused, World


def move_to(world: World, action: Arguments) -> None:
    reach(world, action, point(action, "position"), whole=True)


def move_by(world: World, action: Arguments) -> None:
    reach(world, action, point(action, "offset"), whole=False)


def reach(world: World, action: Arguments, given: Point, *, whole: bool) -> None:
    """Moves the wrist, in the coordinates that the action names."""
    arm, place, rotation = own(world)
    space = action.get("coordinateSpace", "armBase")
    if space == "world":
        hand = arm.hand(place, rotation)
        start = (0.0, 0.0, 0.0) if whole else hand
        wanted = arm.seen(place, rotation, _plus(start, given))
    elif space in ("armBase", "wrist"):
        far = whole and space == "armBase"
        wanted = _plus((0.0, 0.0, 0.0) if far else arm.wrist, given)
    else:
        raise Refused("Invalid argument: coordinateSpace", "InvalidArgument")
    if not arm.reaches(wanted):
        raise thrown(
            "InvalidOperationException",
            f"the arm does not reach {_said(wanted)} from its shoulder",
        )
    _take(world, replace(arm, wrist=wanted))


def lift(world: World, action: Arguments) -> None:
    arm, _, _ = own(world)
    lack = "value must be in [0, 1] when normalizedY=true"
    height = _within(action, "y", 0.0, 1.0, lack)
    _take(world, replace(arm, lift=height))


def turn_wrist(world: World, action: Arguments) -> None:
    arm, _, _ = own(world)
    asked = [number(action, key, 0.0) for key in ("pitch", "yaw", "roll")]
    pitch, yaw, roll = ((a + b) % 360 for a, b in zip(arm.turn, asked, strict=True))
    _take(world, replace(arm, turn=(pitch, yaw, roll)))


def sphere(world: World, action: Arguments) -> None:
    arm, _, _ = own(world)
    lack = "of hand cannot be less than 0.04m nor greater than 0.5m"
    radius = _within(action, "radius", 0.04, 0.5, lack)
    _take(world, replace(arm, radius_m=radius))


def _within(action: Arguments, key: str, low: float, high: float, lack: str) -> float:
    value = number(action, key)
    if not low <= value <= high:
        raise thrown("ArgumentOutOfRangeException", f"{key}={value:.7g} {lack}")
    return value


def pick_up(world: World, action: Arguments) -> None:
    """Takes what is in the hand's ball; without an arm, what the action names."""
    if world.arm is None:
        handling.pick_up(world, action)
        return
    if "objectId" in action:
        raise thrown(
            "InvalidOperationException",
            "You are passing in iTHOR PickupObject parameters (objectId) to the arm"
            " agent!",
        )
    wanted = action.get("objectIdCandidates")
    near = [name for name in world.in_hand() if not wanted or name in wanted]
    if near and world.held is None:
        handling.take(world, near[0])


def release(world: World, _: Arguments) -> None:
    own(world)
    if world.held is not None:
        x, _y, z = world.hand()
        handling.fall(world, handling.let_go(world), x, z)


def walk(world: World, action: Arguments) -> None:
    ahead, right = (number(action, key, 0.0) for key in ("ahead", "right"))
    if not ahead and not right:
        raise thrown("ArgumentException", "Must specify ahead or right!")
    angle = math.degrees(math.atan2(right, ahead))
    moving.walk(angle)(world, {"moveMagnitude": math.hypot(ahead, right)})


def turn(world: World, action: Arguments) -> None:
    moving.turn(1.0)(world, {"degrees": number(action, "degrees")})


def own(world: World) -> tuple[Arm, Point, float]:
    """The robot's arm, where the robot stands, and where it looks."""
    if world.arm is None:
        raise thrown(
            "InvalidOperationException",
            "Agent does not have kinematic arm or is not enabled: it takes"
            " agentMode='arm'",
        )
    pose = world.pose
    return world.arm, (pose.x, pose.y, pose.z), pose.rotation


def _take(world: World, arm: Arm) -> None:
    """Puts the arm there, with what it holds, unless something solid is there."""
    before = world.arm
    world.arm = arm
    met = _in_the_way(world)
    if met is not None:
        world.arm = before
        raise Refused(f"Arm collided with: {met}")
    world.version += 1
    moving.carry(world)


def _in_the_way(world: World) -> str | None:
    """What fills the place where the hand is."""
    hand = world.hand()
    for name, thing in world.objects.items():
        opened = thing["objectType"] in ENCLOSING and thing["isOpen"]
        if thing["pickupable"] or opened or world.hidden(thing):
            continue
        box = thing["axisAlignedBoundingBox"]
        if all(
            _inside(box, axis, value) for axis, value in zip("xyz", hand, strict=True)
        ):
            return name
    return None


def _inside(box: Mapping[str, Mapping[str, float]], axis: str, value: float) -> bool:
    return abs(value - box["center"][axis]) < box["size"][axis] / 2


def _plus(one: Point, other: Point) -> Point:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _said(given: Point) -> str:
    return "(" + ", ".join(f"{value:.3f}" for value in given) + ")"

"""AI2-THOR's low-level actions on the household, with its checks and error texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from forewarn.thor_bridge.household.actions import (
    arms,
    cameras,
    hands,
    moving,
    poses,
    things,
)
from forewarn.thor_bridge.household.actions.arguments import Arguments
from forewarn.thor_bridge.household.couplings import settle
from forewarn.thor_bridge.household.world import Outcome, Refused, World

ACTION_S = 0.25
"""What every action takes of the simulated time."""


def perform(world: World, action: Arguments) -> Outcome:
    """Carries out an action; what AI2-THOR would refuse ends up in the outcome."""
    name = str(action.get("action"))
    carry_out = ACTIONS.get(name)
    before, pose = world.version, replace(world.pose)
    try:
        if carry_out is None:
            raise Refused(f"Invalid action: {name}", "InvalidAction")
        returned = carry_out(world, action)
    except Refused as refusal:
        world.last = Outcome(name, False, refusal.message, refusal.code, changed=False)
        return world.last
    if name not in _TIMELESS:
        world.time_s += ACTION_S
        settle(world)
        world.look()
    elif name in _SETUP:
        world.look()
    changed = world.version != before or world.pose != pose or name in _SETUP
    world.last = Outcome(name, True, returned=returned, changed=changed)
    return world.last


ACTIONS: Mapping[str, Callable[[World, Arguments], Any]] = {
    "AddThirdPartyCamera": cameras.add,
    "BreakObject": things.break_it,
    "ChangeQuality": moving.nothing,
    "ChangeResolution": moving.resolution,
    "CleanObject": things.dirt(False),
    "CloseObject": things.close_it,
    "CookObject": things.cook,
    "Crouch": moving.posture(False),
    "DirtyObject": things.dirt(True),
    "Done": moving.nothing,
    "DropHandObject": hands.drop,
    "EmptyLiquidFromObject": things.empty,
    "FillObjectWithLiquid": things.fill,
    "GetInteractablePoses": poses.interactable,
    "GetMapViewCameraProperties": cameras.map_view,
    "GetReachablePositions": moving.reachable,
    "GetScenesInBuild": moving.scenes,
    "InitialRandomSpawn": hands.spawn,
    "Initialize": moving.initialize,
    "LookDown": moving.tilt(1.0),
    "LookUp": moving.tilt(-1.0),
    "MoveAhead": moving.walk(0.0),
    "MoveAgent": arms.walk,
    "MoveArm": arms.move_to,
    "MoveArmBase": arms.lift,
    "MoveArmRelative": arms.move_by,
    "MoveBack": moving.walk(180.0),
    "MoveLeft": moving.walk(-90.0),
    "MoveRight": moving.walk(90.0),
    "OpenObject": things.open_it,
    "Pass": moving.nothing,
    "PickupObject": arms.pick_up,
    "PutObject": hands.put,
    "ReleaseObject": arms.release,
    "Reset": moving.reset,
    "RotateAgent": arms.turn,
    "RotateHeldObject": hands.rotate_held,
    "RotateLeft": moving.turn(-1.0),
    "RotateRight": moving.turn(1.0),
    "RotateWristRelative": arms.turn_wrist,
    "SetHandSphereRadius": arms.sphere,
    "SetObjectPoses": poses.put_objects,
    "SliceObject": things.slice_it,
    "Stand": moving.posture(True),
    "Teleport": moving.teleport,
    "TeleportFull": moving.teleport,
    "ThrowObject": hands.throw,
    "ToggleObjectOff": things.toggle(False),
    "ToggleObjectOn": things.toggle(True),
    "UpdateThirdPartyCamera": cameras.update,
    "UseUpObject": things.use_up,
}
"""What the household knows how to do, by AI2-THOR's names."""

_SETUP = frozenset(("ChangeResolution", "Initialize", "Reset"))
_TIMELESS = _SETUP | {"ChangeQuality", "Done", "GetReachablePositions"}
_TIMELESS |= {"AddThirdPartyCamera", "GetInteractablePoses", "GetScenesInBuild"}
_TIMELESS |= {"GetMapViewCameraProperties", "UpdateThirdPartyCamera"}
"""Actions that take no time in the household."""

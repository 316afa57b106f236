"""Carries out AI2-THOR's low-level actions in the household."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.thor_bridge.household import handling, moving, staging
from forewarn.thor_bridge.household.moving import Arguments
from forewarn.thor_bridge.household.objects import Object, complete
from forewarn.thor_bridge.household.scenes import Scene
from forewarn.thor_bridge.household.world import (
    NO_FAILURES,
    ActionRejected,
    ActionResult,
    Failures,
    Pose,
    World,
)

COOLING_S = 10.0
"""How long an object stays hot or cold away from the source, in seconds."""

FAUCET_REACH_M = 1.2


def settle(world: World) -> None:
    """Applies the effects of all heaters, faucets and other sources once."""
    for identity in world.sources:
        source = world.objects.get(identity)
        if source is not None:
            effect = _EFFECTS.get(source["objectType"])
            if effect is not None:
                effect(world, source)
    if world.hot_until:
        _cool_down(world)


def _knob(world: World, knob: Object) -> None:
    for burner in knob["controlledObjects"] or ():
        if world.objects[burner]["isToggled"] != knob["isToggled"]:
            world.edit(burner, isToggled=knob["isToggled"])


def _heater(world: World, source: Object) -> None:
    if not source["isToggled"]:
        return
    for inside in world.within(source["objectId"]):
        _temper(world, inside, "Hot")
        thing = world.objects[inside]
        if thing["cookable"] and not thing["isCooked"]:
            world.edit(inside, isCooked=True)


def _coffee_machine(world: World, machine: Object) -> None:
    if not machine["isToggled"]:
        return
    for inside in machine["receptacleObjectIds"] or ():
        thing = world.objects[inside]
        if thing["canFillWithLiquid"] and not thing["isBroken"]:
            if not thing["isFilledWithLiquid"]:
                world.edit(inside, isFilledWithLiquid=True, fillLiquid="coffee")
            _temper(world, inside, "Hot")


def _fridge(world: World, fridge: Object) -> None:
    for inside in world.within(fridge["objectId"]):
        _temper(world, inside, "Cold")


def _faucet(world: World, faucet: Object) -> None:
    """Fills, cleans or extinguishes the objects in the basin under running water."""
    if not faucet["isToggled"]:
        return
    place = faucet["position"]
    for basin in list(world.objects.values()):
        if basin["objectType"] not in ("SinkBasin", "BathtubBasin"):
            continue
        if _distance(place, basin["position"]) > FAUCET_REACH_M:
            continue
        for inside in list(basin["receptacleObjectIds"] or ()):
            wet(world, inside)


def wet(world: World, identity: str) -> None:
    """Applies water to an object, which fills it, cleans it or puts it out."""
    thing = world.objects[identity]
    if thing["canFillWithLiquid"] and not thing["isBroken"]:
        if not thing["isFilledWithLiquid"]:
            world.edit(identity, isFilledWithLiquid=True, fillLiquid="water")
    if thing["dirtyable"] and thing["isDirty"]:
        world.edit(identity, isDirty=False)
    if thing["objectType"] == "Candle" and thing["isToggled"]:
        world.edit(identity, isToggled=False)


def _candle(world: World, candle: Object) -> None:
    """Lights a candle that stands on a burner that is turned on."""
    if candle["isToggled"] or candle["isPickedUp"]:
        return
    for parent in candle["parentReceptacles"] or ():
        place = world.objects[parent]
        if place["objectType"] == "StoveBurner" and place["isToggled"]:
            world.edit(candle["objectId"], isToggled=True)


_EFFECTS: dict[str, Callable[[World, Object], None]] = {
    "Candle": _candle,
    "CoffeeMachine": _coffee_machine,
    "Faucet": _faucet,
    "Fridge": _fridge,
    "Microwave": _heater,
    "StoveBurner": _heater,
    "StoveKnob": _knob,
    "Toaster": _heater,
}


def _temper(world: World, identity: str, temperature: str) -> None:
    world.hot_until[identity] = world.time_s + COOLING_S
    if world.objects[identity]["temperature"] != temperature:
        world.edit(identity, temperature=temperature)


def _cool_down(world: World) -> None:
    over = [name for name, until in world.hot_until.items() if until <= world.time_s]
    for identity in over:
        del world.hot_until[identity]
        world.edit(identity, temperature="RoomTemp")


def _distance(one: dict[str, float], other: dict[str, float]) -> float:
    return math.dist(
        (one["x"], one["y"], one["z"]), (other["x"], other["y"], other["z"])
    )


ACTION_S = 0.25
"""The simulated duration of an action in seconds."""


def perform(world: World, action: Arguments) -> ActionResult:
    """Carries out an action. If AI2-THOR would reject the action, the outcome is a
    failure.
    """
    name = str(action.get("action"))
    carry_out = ACTIONS.get(name)
    try:
        if carry_out is None:
            raise ActionRejected(f"Invalid action: {name}", "InvalidAction")
        returned = carry_out(world, action)
    except ActionRejected as refusal:
        world.last = ActionResult(name, False, refusal.message, refusal.code)
        return world.last
    if name not in _TIMELESS:
        world.time_s += ACTION_S
        settle(world)
        world.look()
    elif name in _SETUP:
        world.look()
    world.last = ActionResult(name, True, returned=returned)
    return world.last


ACTIONS: Mapping[str, Callable[[World, Arguments], Any]] = {
    "BreakObject": handling.break_it,
    "ChangeQuality": moving.nothing,
    "ChangeResolution": moving.resolution,
    "CleanObject": handling.dirt(False),
    "CloseObject": handling.close_it,
    "CookObject": handling.cook,
    "Crouch": moving.posture(False),
    "DirtyObject": handling.dirt(True),
    "Done": moving.nothing,
    "DropHandObject": handling.drop,
    "EmptyLiquidFromObject": handling.empty,
    "FillObjectWithLiquid": handling.fill,
    "GetInteractablePoses": staging.interactable,
    "GetReachablePositions": moving.reachable,
    "GetScenesInBuild": moving.scenes,
    "InitialRandomSpawn": handling.spawn,
    "Initialize": moving.initialize,
    "LookDown": moving.tilt(1.0),
    "LookUp": moving.tilt(-1.0),
    "MoveAhead": moving.walk(0.0),
    "MoveBack": moving.walk(180.0),
    "MoveLeft": moving.walk(-90.0),
    "MoveRight": moving.walk(90.0),
    "OpenObject": handling.open_it,
    "Pass": moving.nothing,
    "PickupObject": handling.pick_up,
    "PutObject": handling.put,
    "Reset": moving.reset,
    "RotateHeldObject": handling.rotate_held,
    "RotateLeft": moving.turn(-1.0),
    "RotateRight": moving.turn(1.0),
    "SliceObject": handling.slice_it,
    "Stand": moving.posture(True),
    "Teleport": moving.teleport,
    "TeleportFull": moving.teleport,
    "ThrowObject": handling.throw,
    "ToggleObjectOff": handling.toggle(False),
    "ToggleObjectOn": handling.toggle(True),
    "UseUpObject": handling.use_up,
}
"""The actions that the household supports, by AI2-THOR's names."""

_SETUP = frozenset(("ChangeResolution", "Initialize", "Reset"))
_TIMELESS = _SETUP | {"ChangeQuality", "Done", "GetReachablePositions"}
_TIMELESS |= {"GetInteractablePoses", "GetScenesInBuild"}
"""Actions that take no simulated time."""


@dataclass(frozen=True, slots=True)
class LocalEvent:
    """The result of an action: the metadata, as in an ai2thor event."""

    metadata: dict[str, Any]


class LocalController:
    """A controller for a household in this process, without pipes or ai2thor.

    Args:
        scene: The name of the initial scene.
        scenes: The available scenes; by default the included scenes.
        seed: The seed of all random choices.
        failures: The probabilities of physical failures.
    """

    def __init__(
        self,
        scene: str,
        *,
        scenes: Mapping[str, Scene] | None = None,
        seed: int = 0,
        failures: Failures = NO_FAILURES,
    ) -> None:
        self.world = World(scenes, scene, seed=seed, failures=failures)
        self.last_event = LocalEvent(self.world.metadata())

    def step(self, action: str, **arguments: Any) -> LocalEvent:
        """Carries out a low-level action."""
        perform(self.world, {"action": action, **arguments})
        self.last_event = LocalEvent(self.world.metadata())
        return self.last_event

    def reset(self, scene: str, seed: int | None = None) -> LocalEvent:
        """Resets the household to the initial state of a scene."""
        self.world.load(scene, seed)
        self.last_event = LocalEvent(self.world.metadata())
        return self.last_event

    def stop(self) -> None:
        """Does nothing: there are no resources to release."""

    def copy(self) -> LocalController:
        """Returns a copy of the household on which an action can be tried."""
        other = object.__new__(LocalController)
        other.world, other.last_event = self.world.copy(), self.last_event
        return other

    @classmethod
    def shadow(
        cls, metadata: Mapping[str, Any], reachable: Sequence[tuple[float, float]]
    ) -> LocalController:
        """Creates a household in the state that AI2-THOR reports.

        Args:
            metadata: The reported metadata.
            reachable: The positions where the robot can stand, as x and z.
        """
        name = str(metadata["sceneName"])
        objects = tuple(complete(thing) for thing in metadata["objects"])
        scene = Scene(name, objects, tuple(reachable))
        other = object.__new__(cls)
        other.world = World({name: scene}, name)
        _resume(other.world, metadata)
        other.last_event = LocalEvent(other.world.metadata())
        return other


def _resume(world: World, metadata: Mapping[str, Any]) -> None:
    """Restores the robot's pose, the held object and temperatures from metadata."""
    agent = metadata["agent"]
    place, turned = agent["position"], agent["rotation"]["y"]
    world.pose = Pose(
        place["x"],
        place["y"],
        place["z"],
        turned,
        agent["cameraHorizon"],
        bool(agent["isStanding"]),
    )
    inventory = metadata["inventoryObjects"]
    world.held = inventory[0]["objectId"] if inventory else None
    for identity, thing in world.objects.items():
        if thing["temperature"] != "RoomTemp":
            world.hot_until[identity] = world.time_s + COOLING_S
    world.look()

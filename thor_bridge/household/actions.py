"""AI2-THOR's low-level actions on the household, with its checks and error texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from forewarn.thor_bridge.household.catalog import (
    ENCLOSING,
    LIQUIDS,
    ONLY_FOR,
    SLICED,
    SLICES,
    SOFT,
)
from forewarn.thor_bridge.household.couplings import settle
from forewarn.thor_bridge.household.objects import Object, new_object
from forewarn.thor_bridge.household.placing import has_room, resting_place, scatter
from forewarn.thor_bridge.household.world import (
    AGENT_HEIGHT_M,
    HAND_M,
    Outcome,
    Refused,
    World,
)

ACTION_S = 0.25
"""What every action takes of the simulated time."""

Arguments = Mapping[str, Any]

LOWEST, HIGHEST = 60.0, -30.0
"""How far down and up the robot can look, degrees."""

BREAKING_FALL_M = 0.5
THROW_M = 1.75
HAND_HEIGHT_M = 1.2

NO_ROOM = "No valid positions to place object found"


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


def _thrown(exception: str, message: str, code: str = "") -> Refused:
    """A refusal that AI2-THOR reports as an exception: with one more full stop."""
    return Refused(f"{exception}: {message}.", code)


# -- what an action is about


def _number(action: Arguments, key: str, default: float | None = None) -> float:
    value = action.get(key, default)
    if value is None:
        raise Refused(f"Missing arguments: {key}", "MissingArguments")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"Invalid argument: {key}", "InvalidArgument")
    if not math.isfinite(value):
        raise Refused(f"Invalid argument: {key}", "InvalidArgument")
    return float(value)


def _target(world: World, action: Arguments) -> Object:
    """The object that the action names, which must be in view unless forced."""
    thing = _named(world, action)
    identity = thing["objectId"]
    if action.get("forceAction"):
        return thing
    if not thing["visible"] or world.failures.strikes(
        world, str(action["action"]), identity
    ):
        raise _thrown(
            "NullReferenceException",
            "Target object not found within the specified visibility.",
        )
    return thing


def _named(world: World, action: Arguments) -> Object:
    identity = action.get("objectId")
    if identity is None:
        raise Refused("Missing arguments: objectId", "MissingArguments")
    thing = world.objects.get(str(identity))
    if thing is None:
        raise _thrown(
            "ArgumentException",
            f"objectId: {identity} is not the objectId on any object in the scene!",
        )
    return thing


# -- where the robot is


def _initialize(world: World, action: Arguments) -> dict[str, float]:
    world.reach_m = _number(action, "visibilityDistance", 1.5)
    world.grid_m = _number(action, "gridSize", 0.25)
    world.fov = _number(action, "fieldOfView", 90.0)
    world.seed = int(_number(action, "seed", world.seed))
    return {"cameraNearPlane": 0.1, "cameraFarPlane": 20.0}


def _reset(world: World, action: Arguments) -> None:
    world.load(str(action.get("sceneName") or world.scene_name))


def _scenes(world: World, _: Arguments) -> list[str]:
    floor_plans = (
        f"{name}_physics" if name.startswith("FloorPlan") else name
        for name in world.scenes
    )
    return sorted(floor_plans)


def _resolution(world: World, action: Arguments) -> None:
    width, height = int(_number(action, "x")), int(_number(action, "y"))
    if not (0 < width <= 4096 and 0 < height <= 4096):
        raise Refused("Invalid argument: x, y", "InvalidArgument")
    world.width, world.height = width, height


def _nothing(_: World, __: Arguments) -> None:
    return None


def _reachable(world: World, _: Arguments) -> list[dict[str, float]]:
    return world.positions()


def _teleport(world: World, action: Arguments) -> None:
    x, y, z = (_number(action, key) for key in "xyz")
    rotation = action.get("rotation")
    if isinstance(rotation, Mapping):
        rotation = rotation.get("y", 0.0)
    horizon = _number(action, "horizon", world.pose.horizon)
    turned = _number({"rotation": rotation}, "rotation", world.pose.rotation)
    if not HIGHEST - 1e-3 <= horizon <= LOWEST + 1e-3:
        raise _thrown(
            "ArgumentOutOfRangeException",
            "Specified argument was out of the range of valid values.\nParameter name:"
            f" Each horizon must be in [-30:60]. You gave {horizon:.7g}.",
        )
    change = abs(y - AGENT_HEIGHT_M)
    if change > 0.05 and not action.get("forceAction"):
        raise _thrown(
            "InvalidOperationException",
            "After teleporting and adjusting agent position to floor, there was too"
            f" large a change({change:.7g} > 0.05) in the y component. Consider using"
            " `forceAction=true` if you'd like to teleport anyway.",
        )
    if _gap(world, x, z) > world.grid_m / 2 and not action.get("forceAction"):
        raise _thrown(
            "InvalidOperationException", f"Collided with: {_obstacle(world, x, z)}"
        )
    pose = world.pose
    pose.x, pose.y, pose.z = x, AGENT_HEIGHT_M, z
    pose.rotation, pose.horizon = turned % 360, horizon
    pose.standing = bool(action.get("standing", pose.standing))
    _carry(world)


def _gap(world: World, x: float, z: float) -> float:
    """How far from there the robot can stand."""
    gaps = np.hypot(world.cells[:, 0] - x, world.cells[:, 1] - z)
    return float(gaps.min())


def _obstacle(world: World, x: float, z: float) -> str:
    """What is in the way there: the nearest thing that stands on the floor."""
    nearest, best = "Floor", math.inf
    for thing in world.objects.values():
        if thing["pickupable"] or thing["objectType"] == "Floor":
            continue
        place = thing["position"]
        gap = math.hypot(place["x"] - x, place["z"] - z)
        if gap < best:
            nearest, best = thing["objectId"], gap
    return nearest


def _walk(angle: float) -> Callable[[World, Arguments], None]:
    def walk(world: World, action: Arguments) -> None:
        length = _number(action, "moveMagnitude", 0.0) or world.grid_m
        turn = math.radians(world.pose.rotation + angle)
        step_x, step_z = length * math.sin(turn), length * math.cos(turn)
        x, z = world.pose.x + step_x, world.pose.z + step_z
        if _gap(world, x, z) > world.grid_m / 2:
            name = _obstacle(world, x, z).split("|")[0]
            raise Refused(
                f"{name} is blocking Agent 0 from moving by"
                f" ({step_x:.4f}, 0.0000, {step_z:.4f})."
            )
        world.pose.x, world.pose.z = x, z
        _carry(world)

    return walk


def _turn(sign: float) -> Callable[[World, Arguments], None]:
    def turn(world: World, action: Arguments) -> None:
        degrees = _number(action, "degrees", 90.0) or 90.0
        world.pose.rotation = (world.pose.rotation + sign * degrees) % 360
        _carry(world)

    return turn


def _tilt(sign: float) -> Callable[[World, Arguments], None]:
    def tilt(world: World, action: Arguments) -> None:
        degrees = _number(action, "degrees", 30.0) or 30.0
        horizon = world.pose.horizon + sign * degrees
        if horizon > LOWEST + 1e-3:
            raise Refused(
                "can't look down beyond 60 degrees below the forward horizon",
                "LookDownCantExceedMin",
            )
        if horizon < HIGHEST - 1e-3:
            raise Refused(
                "can't look up beyond 30 degrees above the forward horizon",
                "LookUpCantExceedMax",
            )
        world.pose.horizon = horizon

    return tilt


def _posture(standing: bool) -> Callable[[World, Arguments], None]:
    def posture(world: World, _: Arguments) -> None:
        world.pose.standing = standing

    return posture


def _ahead(world: World, length: float) -> tuple[float, float]:
    turn = math.radians(world.pose.rotation)
    return (
        world.pose.x + length * math.sin(turn),
        world.pose.z + length * math.cos(turn),
    )


def _carry(world: World) -> None:
    """What the robot holds goes where it goes."""
    if world.held is not None:
        x, z = _ahead(world, HAND_M)
        world.move(world.held, x, HAND_HEIGHT_M, z)


# -- what it holds


def _pick_up(world: World, action: Arguments) -> None:
    thing = _target(world, action)
    if not thing["pickupable"]:
        raise Refused(
            f"{thing['objectId']} must have the property CanPickup to be picked up."
        )
    if world.held is not None:
        raise Refused(
            "Agent hand has something in it already! Can't pick up anything else"
        )
    world.take_out(thing["objectId"])
    world.edit(thing["objectId"], isPickedUp=True)
    world.held = thing["objectId"]
    _carry(world)


def _put(world: World, action: Arguments) -> None:
    if world.held is None:
        raise Refused("Can't place an object if Agent isn't holding anything")
    place, held = _named(world, action), world.objects[world.held]
    if not place["receptacle"]:
        raise Refused("This target object is NOT a receptacle!")
    if place["objectType"] in ENCLOSING and place["openable"] and not place["isOpen"]:
        raise Refused(
            "Target openable Receptacle is CLOSED, can't place if target is not open!"
        )
    only = ONLY_FOR.get(place["objectType"])
    if only is not None:
        if place["receptacleObjectIds"]:
            raise Refused(f"{place['name']} is full right now")
        if held["objectType"] not in only:
            raise Refused(
                f"{held['name']} is not a valid Object Type to be placed in"
                f" {place['name']}"
            )
    if not place["visible"] or place["objectId"] == world.held:
        raise Refused(NO_ROOM)
    if not has_room(world, held, place):
        raise Refused(NO_ROOM)
    if world.failures.strikes(world, "PutObject", place["objectId"]):
        raise Refused(NO_ROOM)
    _let_go(world)
    x, y, z = resting_place(held, place)
    world.move(held["objectId"], x, y, z)
    world.put_in(held["objectId"], place["objectId"])


def _scatter(world: World, action: Arguments) -> None:
    stay, spared = (action.get(key) or () for key in _EXCLUDED)
    if not all(isinstance(names, list | tuple) for names in (stay, spared)):
        raise Refused(f"Invalid argument: {', '.join(_EXCLUDED)}", "InvalidArgument")
    seed = int(_number(action, "randomSeed", 0.0))
    scatter(world, seed, {*map(str, stay)}, {*map(str, spared)})


_EXCLUDED = ("excludedObjectIds", "excludedReceptacles")


def _let_go(world: World) -> str:
    if world.held is None:
        raise Refused("Nothing in hand to drop!")
    held, world.held = world.held, None
    world.edit(held, isPickedUp=False)
    return held


def _drop(world: World, _: Arguments) -> None:
    _fall(world, _let_go(world), *_ahead(world, HAND_M))


def _throw(world: World, _: Arguments) -> None:
    if world.held is None:
        raise Refused("Nothing in hand to throw!")
    low, high = world.cells.min(axis=0) - 0.3, world.cells.max(axis=0) + 0.3
    x, z = np.clip(_ahead(world, THROW_M), low, high).tolist()
    _fall(world, _let_go(world), x, z, hard=True)


def _fall(
    world: World, identity: str, x: float, z: float, *, hard: bool = False
) -> None:
    """Lets a thing come down there; what falls far, or hard, breaks."""
    under = world.surface_under(x, z, HAND_HEIGHT_M) or world.floor()
    height, soft = 0.0, False
    if under is not None:
        place = world.objects[under]
        soft = place["objectType"] in SOFT
        if place["objectType"] != "Floor":
            height = resting_place(world.objects[identity], place)[1]
    world.move(identity, x, height, z)
    if under is not None:
        world.put_in(identity, under)
    if not soft and (hard or HAND_HEIGHT_M - height > BREAKING_FALL_M):
        for each in (identity, *world.within(identity)):
            if world.objects[each]["breakable"]:
                _shatter(world, each)


def _rotate_held(world: World, action: Arguments) -> None:
    if world.held is None:
        raise Refused("Nothing in hand to rotate!")
    turned = [abs(_number(action, key, 0.0)) % 360 for key in ("pitch", "roll")]
    if any(90 <= degrees <= 270 for degrees in turned):
        for each in (world.held, *world.within(world.held)):
            if world.objects[each]["isFilledWithLiquid"]:
                world.edit(each, isFilledWithLiquid=False, fillLiquid=None)


# -- what it does to things


def _open(world: World, action: Arguments) -> None:
    thing = _target(world, action)
    if not thing["openable"]:
        raise Refused(f"{thing['objectId']} is not an Openable object")
    if thing["objectType"] == "Microwave" and thing["isToggled"]:
        raise Refused("Target must be OFF to open!")
    openness = _number(action, "openness", 1.0)
    if not 0 <= openness <= 1:
        raise _thrown("ArgumentException", "openness must be in [0, 1]")
    world.edit(thing["objectId"], isOpen=openness > 0, openness=openness)


def _close(world: World, action: Arguments) -> None:
    thing = _target(world, action)
    if not thing["openable"]:
        raise Refused(f"{thing['objectId']} is not an Openable object")
    world.edit(thing["objectId"], isOpen=False, openness=0.0)


def _toggle(on: bool) -> Callable[[World, Arguments], None]:
    def toggle(world: World, action: Arguments) -> None:
        thing = _target(world, action)
        if thing["objectType"] == "StoveBurner":
            raise Refused(
                "target object is controlled by another sim object. target object"
                " cannot be turned on/off directly"
            )
        if not thing["toggleable"]:
            raise Refused("object is not toggleable.")
        if thing["isToggled"] == on:
            which = "on" if on else "off"
            raise Refused(f"can't toggle object {which} if it's already {which}!")
        if on and thing["objectType"] == "Microwave" and thing["isOpen"]:
            raise Refused("Target must be closed to Toggle On!")
        world.edit(thing["objectId"], isToggled=on)

    return toggle


def _break(world: World, action: Arguments) -> None:
    thing = _target(world, action)
    if not thing["breakable"]:
        raise Refused(f"{thing['name']} cannot be broken!")
    if thing["isBroken"]:
        raise Refused(f"{thing['name']} is already broken!")
    _shatter(world, thing["objectId"])


def _shatter(world: World, identity: str) -> None:
    thing = world.objects[identity]
    if thing["isBroken"]:
        return
    spilt: dict[str, Any] = {}
    if thing["isFilledWithLiquid"]:
        spilt = {"isFilledWithLiquid": False, "fillLiquid": None}
    world.edit(identity, isBroken=True, **spilt)
    if thing["objectType"] == "Egg":
        _replace(world, thing, "EggCracked", f"{identity}|EggCracked", "EggCracked")


def _replace(
    world: World, source: Object, kind: str, identity: str, name: str, aside: int = 0
) -> None:
    """Puts what a thing turned into where the thing was."""
    center = source["axisAlignedBoundingBox"]["center"]
    sliced = kind != "EggCracked"
    piece = new_object(
        kind,
        (center["x"] + 0.02 * aside, center["y"], center["z"]),
        identity=identity,
        name=name,
        isSliced=sliced,
        temperature=source["temperature"],
        isCooked=bool(source["isCooked"]),
    )
    world.add(piece)
    parents = source["parentReceptacles"]
    if parents:
        world.put_in(identity, parents[0])


def _slice(world: World, action: Arguments) -> None:
    thing = _target(world, action)
    if thing["isPickedUp"]:
        raise Refused("target object cannot be sliced if it is in the agent's hand")
    if not thing["sliceable"]:
        raise Refused(f"{thing['name']} Does not have the CanBeSliced property!")
    if thing["isSliced"] or thing["isBroken"]:
        raise Refused(f"{thing['name']} is already sliced!")
    identity, kind = thing["objectId"], SLICED.get(thing["objectType"])
    if kind is None:
        _shatter(world, identity)
        return
    world.edit(identity, isSliced=True)
    for number in range(SLICES.get(kind, 6)):
        _replace(
            world,
            thing,
            kind,
            f"{identity}|{kind}_{number}",
            f"{thing['name']}_Slice_{number + 1}",
            number,
        )
    world.take_out(identity)


def _cook(world: World, action: Arguments) -> None:
    thing = _target(world, action)
    if not thing["cookable"]:
        raise Refused("target object is not cookable")
    if thing["isCooked"]:
        raise Refused("target object is already Cooked!")
    world.edit(thing["objectId"], isCooked=True)


def _dirt(dirty: bool) -> Callable[[World, Arguments], None]:
    def dirt(world: World, action: Arguments) -> None:
        thing = _target(world, action)
        if not thing["dirtyable"]:
            raise Refused(f"{thing['name']} does not have dirtyable property!")
        if thing["isDirty"] == dirty:
            word = "dirty" if dirty else "Clean"
            raise Refused(f"{thing['name']} is already {word}!")
        world.edit(thing["objectId"], isDirty=dirty)

    return dirt


def _fill(world: World, action: Arguments) -> None:
    liquid = action.get("fillLiquid")
    thing = _target(world, action)
    if liquid not in LIQUIDS:
        raise _thrown("ArgumentException", f"{liquid} is not a valid Liquid Type")
    if not thing["canFillWithLiquid"]:
        raise _thrown(
            "ArgumentException", f"{thing['name']} does not have CanBeFilled property!"
        )
    if thing["isFilledWithLiquid"]:
        raise _thrown(
            "InvalidOperationException", f"{thing['name']} is already Filled!"
        )
    hot = {"temperature": "Hot"} if liquid == "coffee" else {}
    world.edit(thing["objectId"], isFilledWithLiquid=True, fillLiquid=liquid, **hot)


def _empty(world: World, action: Arguments) -> None:
    thing = _target(world, action)
    if not thing["canFillWithLiquid"]:
        raise _thrown(
            "ArgumentException", f"{thing['name']} does not have CanBeFilled property!"
        )
    if not thing["isFilledWithLiquid"]:
        raise _thrown("InvalidOperationException", f"{thing['name']} is already Empty!")
    world.edit(thing["objectId"], isFilledWithLiquid=False, fillLiquid=None)


def _use_up(world: World, action: Arguments) -> None:
    thing = _target(world, action)
    if not thing["canBeUsedUp"]:
        raise Refused(f"{thing['name']} does not have the CanBeUsedUp property!")
    if thing["isUsedUp"]:
        raise Refused(f"{thing['name']} is already used up!")
    world.edit(thing["objectId"], isUsedUp=True)


ACTIONS: Mapping[str, Callable[[World, Arguments], Any]] = {
    "BreakObject": _break,
    "ChangeQuality": _nothing,
    "ChangeResolution": _resolution,
    "CleanObject": _dirt(False),
    "CloseObject": _close,
    "CookObject": _cook,
    "Crouch": _posture(False),
    "DirtyObject": _dirt(True),
    "Done": _nothing,
    "DropHandObject": _drop,
    "EmptyLiquidFromObject": _empty,
    "FillObjectWithLiquid": _fill,
    "GetReachablePositions": _reachable,
    "GetScenesInBuild": _scenes,
    "InitialRandomSpawn": _scatter,
    "Initialize": _initialize,
    "LookDown": _tilt(1.0),
    "LookUp": _tilt(-1.0),
    "MoveAhead": _walk(0.0),
    "MoveBack": _walk(180.0),
    "MoveLeft": _walk(-90.0),
    "MoveRight": _walk(90.0),
    "OpenObject": _open,
    "Pass": _nothing,
    "PickupObject": _pick_up,
    "PutObject": _put,
    "Reset": _reset,
    "RotateHeldObject": _rotate_held,
    "RotateLeft": _turn(-1.0),
    "RotateRight": _turn(1.0),
    "SliceObject": _slice,
    "Stand": _posture(True),
    "Teleport": _teleport,
    "TeleportFull": _teleport,
    "ThrowObject": _throw,
    "ToggleObjectOff": _toggle(False),
    "ToggleObjectOn": _toggle(True),
    "UseUpObject": _use_up,
}
"""What the household knows how to do, by AI2-THOR's names."""

_SETUP = frozenset(("ChangeResolution", "Initialize", "Reset"))
_TIMELESS = _SETUP | {"ChangeQuality", "Done", "GetReachablePositions"}
_TIMELESS |= {"GetScenesInBuild"}
"""Actions that take no time in the household."""

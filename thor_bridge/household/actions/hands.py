"""Actions of the hand: what it takes, puts down, drops, throws and turns over."""

from __future__ import annotations

import numpy as np

from forewarn.thor_bridge.household.actions.arguments import (
    Arguments,
    named,
    number,
    target,
)
from forewarn.thor_bridge.household.actions.moving import ahead, carry
from forewarn.thor_bridge.household.actions.things import shatter
from forewarn.thor_bridge.household.catalog import ENCLOSING, ONLY_FOR, SOFT
from forewarn.thor_bridge.household.furnishing.placing import (
    has_room,
    resting_place,
    scatter,
)
from forewarn.thor_bridge.household.world import HAND_M, Refused, World

BREAKING_FALL_M = 0.5
THROW_M = 1.75

NO_ROOM = "No valid positions to place object found"


def pick_up(world: World, action: Arguments) -> None:
    thing = target(world, action)
    if not thing["pickupable"]:
        raise Refused(
            f"{thing['objectId']} must have the property CanPickup to be picked up."
        )
    if world.held is not None:
        raise Refused(
            "Agent hand has something in it already! Can't pick up anything else"
        )
    take(world, thing["objectId"])


def take(world: World, identity: str) -> None:
    world.take_out(identity)
    world.edit(identity, isPickedUp=True)
    world.held = identity
    carry(world)


def put(world: World, action: Arguments) -> None:
    if world.held is None:
        raise Refused("Can't place an object if Agent isn't holding anything")
    place, held = named(world, action), world.objects[world.held]
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
    let_go(world)
    x, y, z = resting_place(place)
    world.move(held["objectId"], x, y, z)
    world.put_in(held["objectId"], place["objectId"])


def spawn(world: World, action: Arguments) -> None:
    stay, spared = (action.get(key) or () for key in _EXCLUDED)
    if not all(isinstance(names, list | tuple) for names in (stay, spared)):
        raise Refused(f"Invalid argument: {', '.join(_EXCLUDED)}", "InvalidArgument")
    seed = int(number(action, "randomSeed", 0.0))
    scatter(world, seed, {*map(str, stay)}, {*map(str, spared)})


_EXCLUDED = ("excludedObjectIds", "excludedReceptacles")


def let_go(world: World) -> str:
    if world.held is None:
        raise Refused("Nothing in hand to drop!")
    held, world.held = world.held, None
    world.edit(held, isPickedUp=False)
    return held


def drop(world: World, _: Arguments) -> None:
    fall(world, let_go(world), *ahead(world, HAND_M))


def throw(world: World, _: Arguments) -> None:
    if world.held is None:
        raise Refused("Nothing in hand to throw!")
    low, high = world.cells.min(axis=0) - 0.3, world.cells.max(axis=0) + 0.3
    x, z = np.clip(ahead(world, THROW_M), low, high).tolist()
    fall(world, let_go(world), x, z, hard=True)


def fall(
    world: World, identity: str, x: float, z: float, *, hard: bool = False
) -> None:
    """Lets a thing come down there; what falls far, or hard, breaks."""
    top = world.hand()[1]
    under = world.surface_under(x, z, top) or world.floor()
    height, soft = 0.0, False
    if under is not None:
        place = world.objects[under]
        soft = place["objectType"] in SOFT
        if place["objectType"] != "Floor":
            height = resting_place(place)[1]
    world.move(identity, x, height, z)
    if under is not None:
        world.put_in(identity, under)
    if not soft and (hard or top - height > BREAKING_FALL_M):
        for each in (identity, *world.within(identity)):
            if world.objects[each]["breakable"]:
                shatter(world, each)


def rotate_held(world: World, action: Arguments) -> None:
    if world.held is None:
        raise Refused("Nothing in hand to rotate!")
    turned = [abs(number(action, key, 0.0)) % 360 for key in ("pitch", "roll")]
    if any(90 <= degrees <= 270 for degrees in turned):
        for each in (world.held, *world.within(world.held)):
            if world.objects[each]["isFilledWithLiquid"]:
                world.edit(each, isFilledWithLiquid=False, fillLiquid=None)

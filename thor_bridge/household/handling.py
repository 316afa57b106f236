"""Actions on objects, such as opening, slicing, filling, picking up and throwing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import Any

import numpy as np

from forewarn.thor_bridge.household.catalog import (
    ENCLOSING,
    LIQUIDS,
    ONLY_FOR,
    SLICED,
    SLICES,
    SOFT,
    SURFACES,
)
from forewarn.thor_bridge.household.moving import (
    Arguments,
    ahead,
    carry,
    named,
    number,
    target,
    thrown,
)
from forewarn.thor_bridge.household.objects import Object, new_object
from forewarn.thor_bridge.household.world import HAND_M, ActionRejected, World


def open_it(world: World, action: Arguments) -> None:
    thing = target(world, action)
    if not thing["openable"]:
        raise ActionRejected(f"{thing['objectId']} is not an Openable object")
    if thing["objectType"] == "Microwave" and thing["isToggled"]:
        raise ActionRejected("Target must be OFF to open!")
    openness = number(action, "openness", 1.0)
    if not 0 <= openness <= 1:
        raise thrown("ArgumentException", "openness must be in [0, 1]")
    world.edit(thing["objectId"], isOpen=openness > 0, openness=openness)


def close_it(world: World, action: Arguments) -> None:
    thing = target(world, action)
    if not thing["openable"]:
        raise ActionRejected(f"{thing['objectId']} is not an Openable object")
    world.edit(thing["objectId"], isOpen=False, openness=0.0)


def toggle(on: bool) -> Callable[[World, Arguments], None]:
    def act(world: World, action: Arguments) -> None:
        thing = target(world, action)
        if thing["objectType"] == "StoveBurner":
            raise ActionRejected(
                "target object is controlled by another sim object. target object"
                " cannot be turned on/off directly"
            )
        if not thing["toggleable"]:
            raise ActionRejected("object is not toggleable.")
        if thing["isToggled"] == on:
            which = "on" if on else "off"
            raise ActionRejected(
                f"can't toggle object {which} if it's already {which}!"
            )
        if on and thing["objectType"] == "Microwave" and thing["isOpen"]:
            raise ActionRejected("Target must be closed to Toggle On!")
        world.edit(thing["objectId"], isToggled=on)

    return act


def break_it(world: World, action: Arguments) -> None:
    thing = target(world, action)
    if not thing["breakable"]:
        raise ActionRejected(f"{thing['name']} cannot be broken!")
    if thing["isBroken"]:
        raise ActionRejected(f"{thing['name']} is already broken!")
    shatter(world, thing["objectId"])


def shatter(world: World, identity: str) -> None:
    thing = world.objects[identity]
    if thing["isBroken"]:
        return
    spilt: dict[str, Any] = {}
    if thing["isFilledWithLiquid"]:
        spilt = {"isFilledWithLiquid": False, "fillLiquid": None}
    world.edit(identity, isBroken=True, **spilt)
    if thing["objectType"] == "Egg":
        turn_into(world, thing, "EggCracked", f"{identity}|EggCracked", "EggCracked")


def turn_into(
    world: World, source: Object, kind: str, identity: str, name: str, aside: int = 0
) -> None:
    """Adds an object that `source` turns into, at the position of `source`."""
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


def slice_it(world: World, action: Arguments) -> None:
    thing = target(world, action)
    if thing["isPickedUp"]:
        raise ActionRejected(
            "target object cannot be sliced if it is in the agent's hand"
        )
    if not thing["sliceable"]:
        raise ActionRejected(f"{thing['name']} Does not have the CanBeSliced property!")
    if thing["isSliced"] or thing["isBroken"]:
        raise ActionRejected(f"{thing['name']} is already sliced!")
    identity, kind = thing["objectId"], SLICED.get(thing["objectType"])
    if kind is None:
        shatter(world, identity)
        return
    world.edit(identity, isSliced=True)
    for piece in range(SLICES.get(kind, 6)):
        turn_into(
            world,
            thing,
            kind,
            f"{identity}|{kind}_{piece}",
            f"{thing['name']}_Slice_{piece + 1}",
            piece,
        )
    world.take_out(identity)


def cook(world: World, action: Arguments) -> None:
    thing = target(world, action)
    if not thing["cookable"]:
        raise ActionRejected("target object is not cookable")
    if thing["isCooked"]:
        raise ActionRejected("target object is already Cooked!")
    world.edit(thing["objectId"], isCooked=True)


def dirt(dirty: bool) -> Callable[[World, Arguments], None]:
    def act(world: World, action: Arguments) -> None:
        thing = target(world, action)
        if not thing["dirtyable"]:
            raise ActionRejected(f"{thing['name']} does not have dirtyable property!")
        if thing["isDirty"] == dirty:
            word = "dirty" if dirty else "Clean"
            raise ActionRejected(f"{thing['name']} is already {word}!")
        world.edit(thing["objectId"], isDirty=dirty)

    return act


def fill(world: World, action: Arguments) -> None:
    liquid = action.get("fillLiquid")
    thing = target(world, action)
    if liquid not in LIQUIDS:
        raise thrown("ArgumentException", f"{liquid} is not a valid Liquid Type")
    if not thing["canFillWithLiquid"]:
        raise thrown(
            "ArgumentException", f"{thing['name']} does not have CanBeFilled property!"
        )
    if thing["isFilledWithLiquid"]:
        raise thrown("InvalidOperationException", f"{thing['name']} is already Filled!")
    hot = {"temperature": "Hot"} if liquid == "coffee" else {}
    world.edit(thing["objectId"], isFilledWithLiquid=True, fillLiquid=liquid, **hot)


def empty(world: World, action: Arguments) -> None:
    thing = target(world, action)
    if not thing["canFillWithLiquid"]:
        raise thrown(
            "ArgumentException", f"{thing['name']} does not have CanBeFilled property!"
        )
    if not thing["isFilledWithLiquid"]:
        raise thrown("InvalidOperationException", f"{thing['name']} is already Empty!")
    world.edit(thing["objectId"], isFilledWithLiquid=False, fillLiquid=None)


def use_up(world: World, action: Arguments) -> None:
    thing = target(world, action)
    if not thing["canBeUsedUp"]:
        raise ActionRejected(f"{thing['name']} does not have the CanBeUsedUp property!")
    if thing["isUsedUp"]:
        raise ActionRejected(f"{thing['name']} is already used up!")
    world.edit(thing["objectId"], isUsedUp=True)


PLAIN = SURFACES - {"Chair", "Floor", "Plate", "Stool", "StoveBurner", "Toilet"}
"""Surfaces on which loose objects may be placed at random."""

OFF_CENTRE = 0.35
"""Maximum distance of an object from a surface's centre, as a fraction of its size."""


def _size(thing: Object) -> tuple[float, float, float]:
    size = thing["axisAlignedBoundingBox"]["size"]
    return size["x"], size["y"], size["z"]


def has_room(world: World, thing: Object, place: Object) -> bool:
    """Whether an object fits in or on a receptacle, in addition to the current
    content.
    """
    if place["objectType"] in ONLY_FOR or place["pickupable"]:
        return True
    wide, high, deep = _size(place)
    across, up, along = _size(thing)
    least, most = sorted((across, along))
    if least > min(wide, deep) or most > max(wide, deep):
        return False
    if place["objectType"] in ENCLOSING and min(across, up, along) > high:
        return False
    taken = 0.0
    for inside in place["receptacleObjectIds"] or ():
        other = _size(world.objects[inside])
        taken += other[0] * other[2]
    return taken + across * along <= 0.9 * wide * deep


def resting_place(place: Object) -> tuple[float, float, float]:
    """Returns the position of an object that is put in or on a receptacle."""
    box = place["axisAlignedBoundingBox"]
    center, size = box["center"], box["size"]
    kind = place["objectType"]
    if kind in ENCLOSING or kind.endswith("Basin"):
        y = center["y"] - size["y"] / 2 + 0.03
    elif kind in SOFT or kind in ("Chair", "Toilet"):
        y = center["y"]
    else:
        y = center["y"] + size["y"] / 2
    return center["x"], y, center["z"]


def scatter(
    world: World, seed: int, stay: Collection[str], spared: Collection[str]
) -> None:
    """Moves loose objects to random surfaces on which they fit.

    Args:
        world: The household.
        seed: The seed of all random choices.
        stay: The ids of the objects that stay in place.
        spared: The types of receptacles onto which nothing is moved.
    """
    luck = Random(seed)  # noqa: S311
    places = [
        place
        for _, place in sorted(world.objects.items())
        if place["objectType"] in PLAIN and place["objectType"] not in spared
    ]
    for identity in sorted(world.objects):
        thing = world.objects[identity]
        free = thing["pickupable"] and not thing["receptacleObjectIds"]
        if not free or identity in stay or identity == world.held:
            continue
        # Numbers are drawn even if the object fits nowhere, so that this does not
        # affect other objects.
        order, aside = luck.sample(places, len(places)), (luck.random(), luck.random())
        chosen = next((p for p in order if _takes(world, thing, p["objectId"])), None)
        if chosen is not None:
            x, y, z = resting_place(chosen)
            wide, _, deep = _size(chosen)
            x += (2 * aside[0] - 1) * OFF_CENTRE * wide
            z += (2 * aside[1] - 1) * OFF_CENTRE * deep
            world.move(identity, x, y, z)
            world.put_in(identity, chosen["objectId"])


def _takes(world: World, thing: Object, receptacle: str) -> bool:
    return has_room(world, thing, world.objects[receptacle])


BREAKING_FALL_M = 0.5
THROW_M = 1.75

NO_ROOM = "No valid positions to place object found"


def pick_up(world: World, action: Arguments) -> None:
    thing = target(world, action)
    if not thing["pickupable"]:
        raise ActionRejected(
            f"{thing['objectId']} must have the property CanPickup to be picked up."
        )
    if world.held is not None:
        raise ActionRejected(
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
        raise ActionRejected("Can't place an object if Agent isn't holding anything")
    place, held = named(world, action), world.objects[world.held]
    if not place["receptacle"]:
        raise ActionRejected("This target object is NOT a receptacle!")
    if place["objectType"] in ENCLOSING and place["openable"] and not place["isOpen"]:
        raise ActionRejected(
            "Target openable Receptacle is CLOSED, can't place if target is not open!"
        )
    only = ONLY_FOR.get(place["objectType"])
    if only is not None:
        if place["receptacleObjectIds"]:
            raise ActionRejected(f"{place['name']} is full right now")
        if held["objectType"] not in only:
            raise ActionRejected(
                f"{held['name']} is not a valid Object Type to be placed in"
                f" {place['name']}"
            )
    if not place["visible"] or place["objectId"] == world.held:
        raise ActionRejected(NO_ROOM)
    if not has_room(world, held, place):
        raise ActionRejected(NO_ROOM)
    if world.failures.strikes(world, "PutObject", place["objectId"]):
        raise ActionRejected(NO_ROOM)
    let_go(world)
    x, y, z = resting_place(place)
    world.move(held["objectId"], x, y, z)
    world.put_in(held["objectId"], place["objectId"])


def spawn(world: World, action: Arguments) -> None:
    stay, spared = (action.get(key) or () for key in _EXCLUDED)
    if not all(isinstance(names, list | tuple) for names in (stay, spared)):
        raise ActionRejected(
            f"Invalid argument: {', '.join(_EXCLUDED)}", "InvalidArgument"
        )
    seed = int(number(action, "randomSeed", 0.0))
    scatter(world, seed, {*map(str, stay)}, {*map(str, spared)})


_EXCLUDED = ("excludedObjectIds", "excludedReceptacles")


def let_go(world: World) -> str:
    if world.held is None:
        raise ActionRejected("Nothing in hand to drop!")
    held, world.held = world.held, None
    world.edit(held, isPickedUp=False)
    return held


def drop(world: World, _: Arguments) -> None:
    fall(world, let_go(world), *ahead(world, HAND_M))


def throw(world: World, _: Arguments) -> None:
    if world.held is None:
        raise ActionRejected("Nothing in hand to throw!")
    low, high = world.cells.min(axis=0) - 0.3, world.cells.max(axis=0) + 0.3
    x, z = np.clip(ahead(world, THROW_M), low, high).tolist()
    fall(world, let_go(world), x, z, hard=True)


def fall(
    world: World, identity: str, x: float, z: float, *, hard: bool = False
) -> None:
    """Drops an object at a position. A breakable object breaks if it falls far or is
    thrown.
    """
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
        raise ActionRejected("Nothing in hand to rotate!")
    turned = [abs(number(action, key, 0.0)) % 360 for key in ("pitch", "roll")]
    if any(90 <= degrees <= 270 for degrees in turned):
        for each in (world.held, *world.within(world.held)):
            if world.objects[each]["isFilledWithLiquid"]:
                world.edit(each, isFilledWithLiquid=False, fillLiquid=None)

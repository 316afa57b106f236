"""Actions on things: opened, switched, broken, cut, cooked, soiled and filled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forewarn.thor_bridge.household.actions.arguments import (
    Arguments,
    number,
    target,
    thrown,
)
from forewarn.thor_bridge.household.catalog import LIQUIDS, SLICED, SLICES
from forewarn.thor_bridge.household.objects import Object, new_object
from forewarn.thor_bridge.household.world import Refused, World


def open_it(world: World, action: Arguments) -> None:
    thing = target(world, action)
    if not thing["openable"]:
        raise Refused(f"{thing['objectId']} is not an Openable object")
    if thing["objectType"] == "Microwave" and thing["isToggled"]:
        raise Refused("Target must be OFF to open!")
    openness = number(action, "openness", 1.0)
    if not 0 <= openness <= 1:
        raise thrown("ArgumentException", "openness must be in [0, 1]")
    world.edit(thing["objectId"], isOpen=openness > 0, openness=openness)


def close_it(world: World, action: Arguments) -> None:
    thing = target(world, action)
    if not thing["openable"]:
        raise Refused(f"{thing['objectId']} is not an Openable object")
    world.edit(thing["objectId"], isOpen=False, openness=0.0)


def toggle(on: bool) -> Callable[[World, Arguments], None]:
    def act(world: World, action: Arguments) -> None:
        thing = target(world, action)
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

    return act


def break_it(world: World, action: Arguments) -> None:
    thing = target(world, action)
    if not thing["breakable"]:
        raise Refused(f"{thing['name']} cannot be broken!")
    if thing["isBroken"]:
        raise Refused(f"{thing['name']} is already broken!")
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


def slice_it(world: World, action: Arguments) -> None:
    thing = target(world, action)
    if thing["isPickedUp"]:
        raise Refused("target object cannot be sliced if it is in the agent's hand")
    if not thing["sliceable"]:
        raise Refused(f"{thing['name']} Does not have the CanBeSliced property!")
    if thing["isSliced"] or thing["isBroken"]:
        raise Refused(f"{thing['name']} is already sliced!")
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
        raise Refused("target object is not cookable")
    if thing["isCooked"]:
        raise Refused("target object is already Cooked!")
    world.edit(thing["objectId"], isCooked=True)


def dirt(dirty: bool) -> Callable[[World, Arguments], None]:
    def act(world: World, action: Arguments) -> None:
        thing = target(world, action)
        if not thing["dirtyable"]:
            raise Refused(f"{thing['name']} does not have dirtyable property!")
        if thing["isDirty"] == dirty:
            word = "dirty" if dirty else "Clean"
            raise Refused(f"{thing['name']} is already {word}!")
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
        raise Refused(f"{thing['name']} does not have the CanBeUsedUp property!")
    if thing["isUsedUp"]:
        raise Refused(f"{thing['name']} is already used up!")
    world.edit(thing["objectId"], isUsedUp=True)

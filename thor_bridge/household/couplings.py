"""What happens by itself after every action: heat, cold, water, and what they do."""

from __future__ import annotations

import math
from collections.abc import Callable

from forewarn.thor_bridge.household.objects import Object
from forewarn.thor_bridge.household.world import World

COOLING_S = 10.0
"""How long a thing stays hot or cold away from the source."""

FAUCET_REACH_M = 1.2


def settle(world: World) -> None:
    """Lets every source act once on what it reaches."""
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
    """Running water fills, cleans and puts out what stands in the basin."""
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
    """What water does to a thing."""
    thing = world.objects[identity]
    if thing["canFillWithLiquid"] and not thing["isBroken"]:
        if not thing["isFilledWithLiquid"]:
            world.edit(identity, isFilledWithLiquid=True, fillLiquid="water")
    if thing["dirtyable"] and thing["isDirty"]:
        world.edit(identity, isDirty=False)
    if thing["objectType"] == "Candle" and thing["isToggled"]:
        world.edit(identity, isToggled=False)


def _candle(world: World, candle: Object) -> None:
    """A candle on a burning stove catches fire."""
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

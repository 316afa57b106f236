"""Where things fit and come to rest, and how they are strewn about a room."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from forewarn.thor_bridge.household.catalog import ENCLOSING, ONLY_FOR, SOFT, SURFACES
from forewarn.thor_bridge.household.objects import Object
from forewarn.thor_bridge.household.world import World

PLAIN = SURFACES - {"Chair", "Floor", "Plate", "Stool", "StoveBurner", "Toilet"}
"""Surfaces that people leave things on."""

OFF_CENTRE = 0.35
"""How far from a surface's middle a thing may be left, as a share of its size."""


def _size(thing: Object) -> tuple[float, float, float]:
    size = thing["axisAlignedBoundingBox"]["size"]
    return size["x"], size["y"], size["z"]


def has_room(world: World, thing: Object, place: Object) -> bool:
    """Whether a thing fits in or on a receptacle beside what is there already."""
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
    """Where a thing stands that was put in or on a receptacle."""
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
    """Puts loose things onto surfaces in plain sight, wherever they fit.

    Args:
        world: Whose things they are.
        seed: What chance follows from.
        stay: The ids of what stays where it is.
        spared: The types of receptacles that take nothing.
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
        # Chance is drawn for each, so that what stays does not change the others.
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

"""Objects as AI2-THOR 5.0.0 reports them: 42 keys, their order, ids and names.

An object that was handed out is never changed: whoever changes the world makes a new
dictionary. Metadata, frames and copies of a world can so share them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forewarn.thor_bridge.household.catalog import ABILITIES, catalog

Object = dict[str, Any]

KEYS = (
    "name", "position", "rotation", "visible", "isInteractable", "receptacle",
    "toggleable", "isToggled", "breakable", "isBroken", "canFillWithLiquid",
    "isFilledWithLiquid", "fillLiquid", "dirtyable", "isDirty", "canBeUsedUp",
    "isUsedUp", "cookable", "isCooked", "temperature", "isHeatSource",
    "isColdSource", "sliceable", "isSliced", "openable", "isOpen", "openness",
    "pickupable", "isPickedUp", "moveable", "mass", "salientMaterials",
    "receptacleObjectIds", "distance", "objectType", "objectId", "assetId",
    "parentReceptacles", "controlledObjects", "isMoving",
    "axisAlignedBoundingBox", "objectOrientedBoundingBox",
)  # fmt: skip
"""The keys of an object, in the order in which they are sent."""

_CORNERS = tuple(
    (x, y, z) for x in (0.5, -0.5) for y in (0.5, -0.5) for z in (0.5, -0.5)
)


def vector(x: float, y: float, z: float) -> dict[str, float]:
    """A point or a rotation as metadata has it."""
    return {"x": float(x), "y": float(y), "z": float(z)}


def object_id(kind: str, x: float, y: float, z: float) -> str:
    """The id of an object that stands there when the scene begins."""
    return "|".join([kind, *(f"{v:+06.2f}" for v in (x, y, z))])


def bounds(center: Sequence[float], size: Sequence[float]) -> dict[str, Any]:
    """An axis-aligned box as metadata has it."""
    return {
        "cornerPoints": [
            [center[i] + share * size[i] for i, share in enumerate(corner)]
            for corner in _CORNERS
        ],
        "center": vector(*center),
        "size": vector(*size),
    }


def with_bounds(thing: Object, center: Sequence[float], size: Sequence[float]) -> None:
    """Gives a new object its boxes; only what can be carried has an oriented one."""
    box = bounds(center, size)
    thing["axisAlignedBoundingBox"] = box
    thing["objectOrientedBoundingBox"] = (
        {"cornerPoints": box["cornerPoints"]} if thing["pickupable"] else None
    )


def new_object(
    kind: str,
    center: Sequence[float],
    size: Sequence[float] | None = None,
    *,
    identity: str | None = None,
    turned: float = 0.0,
    parents: Sequence[str] | None = None,
    **state: Any,
) -> Object:
    """An object of a type that our catalogue knows.

    Args:
        kind: Its type.
        center: The centre of its box.
        size: Of its box; the type's own if not given.
        identity: Its id; made from where it stands if not given.
        turned: Its rotation about the vertical, degrees.
        parents: The receptacles that it is in, the innermost first.
        state: Any of the 42 keys.
    """
    known = catalog()[kind]
    size = known.size if size is None else size
    foot = (center[0], center[1] - size[1] / 2, center[2])
    identity = identity or object_id(kind, *foot)
    thing: Object = dict.fromkeys(KEYS, False)
    thing.update({key: word in known.abilities for word, key in ABILITIES.items()})
    thing.update(
        name=f"{kind}_{zlib.crc32(identity.encode()):08x}",
        position=vector(*foot),
        rotation=vector(0.0, turned, 0.0),
        fillLiquid=None,
        temperature="RoomTemp",
        openness=0.0,
        mass=known.mass,
        salientMaterials=list(known.materials) or None,
        receptacleObjectIds=[] if known.can("receptacle") else None,
        distance=0.0,
        objectType=kind,
        objectId=identity,
        assetId="",
        parentReceptacles=list(parents) if parents else None,
        controlledObjects=None,
    )
    thing.update(state)
    with_bounds(thing, center, size)
    return thing


def complete(row: Mapping[str, Any]) -> Object:
    """An object from a scene file, with every key, in order.

    A file may give the box as `aabb`: its centre and size, six numbers.
    """
    thing: Object = dict.fromkeys(KEYS, False)
    thing.update((key, row[key]) for key in KEYS if key in row)
    thing.setdefault("distance", 0.0)
    thing.update(visible=False, isInteractable=False, distance=0.0, isMoving=False)
    for key in ("fillLiquid", "salientMaterials", "controlledObjects"):
        thing[key] = row.get(key)
    thing["parentReceptacles"] = row.get("parentReceptacles") or None
    inside = row.get("receptacleObjectIds")
    thing["receptacleObjectIds"] = list(inside or []) if thing["receptacle"] else None
    box = row.get("aabb")
    if box is None and (full := row.get("axisAlignedBoundingBox")):
        box = [full[key][axis] for key in ("center", "size") for axis in "xyz"]
    if box is None:
        place = row["position"]
        box = [place["x"], place["y"], place["z"], 0.1, 0.1, 0.1]
    with_bounds(thing, box[:3], box[3:])
    return thing


def sources(objects: Iterable[Object]) -> tuple[str, ...]:
    """What heats, cools, fills or switches other things."""
    found = [
        thing
        for thing in objects
        if thing["isHeatSource"]
        or thing["isColdSource"]
        or thing["controlledObjects"]
        or thing["objectType"] in ("Faucet", "Candle")
    ]
    found.sort(key=lambda thing: not thing["controlledObjects"])  # switches first
    return tuple(thing["objectId"] for thing in found)

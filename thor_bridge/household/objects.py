"""Objects in the metadata format of AI2-THOR 5.0.0.

An object is never modified: a change to the world creates a new dictionary. Metadata,
frames and copies of a world can therefore share objects.
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
"""The 42 keys of an object, in the order in which they are sent."""

_CORNERS = tuple(
    (x, y, z) for x in (0.5, -0.5) for y in (0.5, -0.5) for z in (0.5, -0.5)
)


def vector(x: float, y: float, z: float) -> dict[str, float]:
    """Returns a point or a rotation in the metadata format."""
    return {"x": float(x), "y": float(y), "z": float(z)}


def object_id(kind: str, x: float, y: float, z: float) -> str:
    """Returns the id of an object with the given initial position."""
    return "|".join([kind, *(f"{v:+06.2f}" for v in (x, y, z))])


def bounds(center: Sequence[float], size: Sequence[float]) -> dict[str, Any]:
    """Returns an axis-aligned bounding box in the metadata format."""
    return {
        "cornerPoints": [
            [center[i] + share * size[i] for i, share in enumerate(corner)]
            for corner in _CORNERS
        ],
        "center": vector(*center),
        "size": vector(*size),
    }


def with_bounds(thing: Object, center: Sequence[float], size: Sequence[float]) -> None:
    """Sets the bounding boxes of a new object. Only portable objects have an oriented
    box.
    """
    box = bounds(center, size)
    thing["axisAlignedBoundingBox"] = box
    thing["objectOrientedBoundingBox"] = (
        {"cornerPoints": box["cornerPoints"]} if thing["pickupable"] else None
    )


def new_object(
    kind: str,
    center: Sequence[float],
    *,
    identity: str | None = None,
    parents: Sequence[str] | None = None,
    **state: Any,
) -> Object:
    """Creates an object of a type in the catalogue.

    Args:
        kind: The name of the type.
        center: The centre of the bounding box.
        identity: The object's id; by default it is derived from the position.
        parents: The ids of the receptacles that contain the object, innermost first.
        state: Values that replace the defaults, for any of the 42 metadata keys.
    """
    known = catalog()[kind]
    size = known.size
    foot = (center[0], center[1] - size[1] / 2, center[2])
    identity = identity or object_id(kind, *foot)
    thing: Object = dict.fromkeys(KEYS, False)
    thing.update({key: word in known.abilities for word, key in ABILITIES.items()})
    thing.update(
        name=f"{kind}_{zlib.crc32(identity.encode()):08x}",
        position=vector(*foot),
        rotation=vector(0.0, 0.0, 0.0),
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
    """Adds the missing keys to an object from a scene file, and sorts the keys.

    A file may define the bounding box as `aabb`: six numbers for its centre and size.
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
    """Returns the ids of objects that can heat, cool, fill or switch other objects."""
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

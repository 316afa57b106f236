"""Scenes: the initial objects of a room, and the positions where the robot can stand.

A scene file is JSON, which may be gzipped: `{NAME: {"objects": [...], "grid": [[x, z],
...]}}`. Objects are in AI2-THOR's metadata format. `harvested` creates scenes from a
real build. The included scenes are in `scenes.json.gz` in this folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.files import atomic_text, read_json
from forewarn.thor_bridge.household.objects import Object, complete

MAX_OBJECTS = 2_000
MAX_POSITIONS = 20_000
FARTHEST = 1e6
"""The limit for the magnitude of numbers in a scene."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The initial state of a room, with objects that are never modified."""

    name: str
    objects: tuple[Object, ...]
    grid: tuple[tuple[float, float], ...]


@cache
def own_scenes() -> Mapping[str, Scene]:
    """Returns the included scenes: kitchens, living rooms, bedrooms and bathrooms."""
    return _loaded(Path(__file__).with_name("scenes.json.gz"), None)


def load_scenes(path: Path | None = None) -> Mapping[str, Scene]:
    """Loads the scenes of a file, or the included scenes."""
    if path is None:
        return own_scenes()
    facts = path.stat() if path.exists() else None
    return _loaded(path, facts and (facts.st_mtime_ns, facts.st_size))


@lru_cache(maxsize=3)
def _loaded(path: Path, version: object) -> Mapping[str, Scene]:
    """Loads a scene file. The result is cached, because loading takes seconds."""
    data = read_json(path)
    if not isinstance(data, dict) or not data:
        raise InvalidInput("a scene file must map names to scenes", source=str(path))
    return {name: _scene(name, entry, str(path)) for name, entry in data.items()}


def find_scene(scenes: Mapping[str, Scene], name: str) -> Scene:
    """Finds a scene by its name, with or without AI2-THOR's suffix `_physics`."""
    for known in (name, name.removesuffix("_physics"), f"{name}_physics"):
        if known in scenes:
            return scenes[known]
    raise InvalidInput(
        f"there is no scene {name!r:.60}",
        mend=near_miss(name[:60], scenes)
        or f"choose another scene, such as {', '.join(list(scenes)[:6])}",
    )


def harvested(
    name: str, metadata: Mapping[str, Any], positions: Iterable[Mapping[str, float]]
) -> dict[str, Any]:
    """Creates a scene for a scene file from the metadata of a running AI2-THOR."""
    entry = {
        "objects": [dict(thing) for thing in metadata["objects"]],
        "grid": [[round(p["x"], 4), round(p["z"], 4)] for p in positions],
    }
    _scene(name, entry, "metadata from AI2-THOR")
    return entry


def write_scenes(path: Path, entries: Mapping[str, Any]) -> None:
    """Writes a scene file, which is gzipped if the path ends in `.gz`."""
    with atomic_text(path) as file:
        json.dump(entries, file, separators=(",", ":"), allow_nan=False)


def _scene(name: str, entry: Any, source: str) -> Scene:
    try:
        rows, cells = entry["objects"], entry["grid"]
        if len(rows) > MAX_OBJECTS or len(cells) > MAX_POSITIONS:
            raise InvalidInput(
                "the scene has too many objects or positions", source=source, place=name
            )
        objects = tuple(_checked(complete(row)) for row in rows)
        if not all(_number(x) and _number(z) for x, z in cells):
            raise ValueError("'grid' must contain only numbers")
        grid = tuple((float(x), float(z)) for x, z in cells)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        why = error if isinstance(error, ValueError) else f"malformed data ({error})"
        raise InvalidInput(
            f"invalid scene: {why!s:.80}",
            source=source,
            place=name,
            mend="create scenes from a running AI2-THOR with `forewarn thor harvest`",
        ) from error
    if not grid:
        raise InvalidInput(
            "the scene has no position where the robot can stand",
            source=source,
            place=name,
        )
    return Scene(name, _sound(objects), grid)


def _checked(thing: Object) -> Object:
    """Returns the object after checking that its values have AI2-THOR's types.

    Raises:
        ValueError: A value has the wrong type.
    """
    for key, value in thing.items():
        kind = _KINDS.get(key, bool)
        good = kind(value) if not isinstance(kind, type) else isinstance(value, kind)
        if not good:
            raise ValueError(f"'{key}' has the invalid value {value!r:.40}")
    return thing


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < FARTHEST


def _point(value: object) -> bool:
    return isinstance(value, dict) and all(_number(value.get(axis)) for axis in "xyz")


def _names(value: object) -> bool:
    return value is None or (
        isinstance(value, list) and all(isinstance(each, str) for each in value)
    )


def _box(value: object) -> bool:
    return isinstance(value, dict) and _point(value["center"]) and _point(value["size"])


_KINDS: Mapping[str, type | Callable[[object], bool]] = {
    "name": str,
    "objectType": str,
    "objectId": str,
    "position": _point,
    "rotation": _point,
    "axisAlignedBoundingBox": _box,
    "objectOrientedBoundingBox": lambda value: value is None or isinstance(value, dict),
    "temperature": lambda value: value in ("Hot", "Cold", "RoomTemp"),
    "openness": _number,
    "mass": _number,
    "distance": _number,
    "fillLiquid": lambda value: value is None or isinstance(value, str),
    "assetId": lambda value: value is False or isinstance(value, str),
    "salientMaterials": _names,
    "receptacleObjectIds": _names,
    "parentReceptacles": _names,
    "controlledObjects": _names,
}
"""The required type of each value; all other values are Boolean."""


def _sound(objects: tuple[Object, ...]) -> tuple[Object, ...]:
    """Removes references to missing objects, and breaks cycles of containment.

    AI2-THOR reports overlaps as containment: it may report that a counter is in the
    plate that stands on it, or that two shelves contain each other. The later link of a
    cycle is dropped.
    """
    known = {thing["objectId"]: thing for thing in objects}
    parents: dict[str, list[str]] = {}
    for thing in objects:
        identity = thing["objectId"]
        parents[identity] = []
        for parent in thing["parentReceptacles"] or ():
            place = known.get(parent)
            if place is None or not place["receptacle"]:
                continue
            if place["pickupable"] and not thing["pickupable"]:
                continue
            if identity != parent and identity not in _above(parent, parents):
                parents[identity].append(parent)
    inside: dict[str, list[str]] = {identity: [] for identity in known}
    for identity, above in parents.items():
        # Objects that are only indirectly inside are not listed.
        for parent in above:
            if not any(parent in _above(p, parents) for p in above if p != parent):
                inside[parent].append(identity)
    for thing in objects:
        identity = thing["objectId"]
        thing["parentReceptacles"] = parents[identity] or None
        if thing["receptacle"]:
            thing["receptacleObjectIds"] = inside[identity]
        if thing["controlledObjects"]:
            thing["controlledObjects"] = [
                other for other in thing["controlledObjects"] if other in known
            ]
    return objects


def _above(identity: str, parents: Mapping[str, list[str]]) -> set[str]:
    """Returns all receptacles that an object is in or on, directly or indirectly."""
    found: set[str] = set()
    front = [identity]
    while front:
        for parent in parents.get(front.pop(), ()):
            if parent not in found:
                found.add(parent)
                front.append(parent)
    return found

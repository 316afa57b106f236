"""Scenes: the initial objects of a room, and the positions where the robot can stand.

A scene file is JSON, which may be gzipped: `{NAME: {"objects": [...], "grid": [[x, z],
...]}}`. Objects are in AI2-THOR's metadata format. `harvested` creates scenes from a
real build. The included scenes are in `scenes.json.gz` in this folder.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.files import atomic_text, read_json
from forewarn.abstractions.serial import Strict, validated
from forewarn.thor_bridge.household.objects import KEYS, Object, complete

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


class _Included(Mapping[str, Scene]):
    """The included scenes. Each is built when it is first used, because a household
    starts in one of them.
    """

    def __init__(self) -> None:
        self._path = Path(__file__).with_name("scenes.json.gz")
        self._entries = json.loads(gzip.decompress(self._path.read_bytes()))
        self._built: dict[str, Scene] = {}

    def __getitem__(self, name: str) -> Scene:
        if name not in self._built:
            entry = self._entries[name]
            self._built[name] = _scene(name, entry, str(self._path))
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@cache
def own_scenes() -> Mapping[str, Scene]:
    """Returns the included scenes: kitchens, living rooms, bedrooms and bathrooms."""
    return _Included()


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


_Number = Annotated[float, Field(gt=-FARTHEST, lt=FARTHEST)]


class _Point(Strict, extra="ignore"):
    x: _Number
    y: _Number
    z: _Number


class _Box(Strict, extra="ignore"):
    center: _Point
    size: _Point


_FIELDS: dict[str, Any] = {
    **dict.fromkeys(KEYS, (bool, ...)),
    **dict.fromkeys(("name", "objectType", "objectId"), (str, ...)),
    **dict.fromkeys(("position", "rotation"), (_Point, ...)),
    **dict.fromkeys(("openness", "mass", "distance"), (_Number, ...)),
    **dict.fromkeys(
        ("salientMaterials", "receptacleObjectIds", "parentReceptacles",
         "controlledObjects"),
        (list[str] | None, ...),
    ),
    "axisAlignedBoundingBox": (_Box, ...),
    "objectOrientedBoundingBox": (dict[str, Any] | None, ...),
    "temperature": (Literal["Hot", "Cold", "RoomTemp"], ...),
    "fillLiquid": (str | None, ...),
    "assetId": (str | Literal[False], ...),
}  # fmt: skip
"""The type of each of the 42 values of an object in AI2-THOR."""

_Thing = create_model("_Thing", __base__=Strict, **_FIELDS)


class _SceneFile(Strict):
    objects: Annotated[list[dict[str, Any]], Field(max_length=MAX_OBJECTS)]
    grid: Annotated[
        list[Annotated[list[_Number], Field(min_length=2, max_length=2)]],
        Field(min_length=1, max_length=MAX_POSITIONS),
    ]


def _scene(name: str, entry: Any, source: str) -> Scene:
    file = validated(_SceneFile, entry, f"{source}: {name}")
    try:
        objects = tuple(complete(row) for row in file.objects)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"an object is incomplete ({error!s:.80})",
            source=source,
            place=name,
            mend="create scenes from a running AI2-THOR with `forewarn thor harvest`",
        ) from error
    for thing in objects:
        validated(_Thing, thing, f"{source}: {name}: {thing['objectId']!s:.60}")
    return Scene(name, _sound(objects), tuple((x, z) for x, z in file.grid))


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

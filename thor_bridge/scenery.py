"""The room from above, from AI2-THOR's metadata; the real one's or our household's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forewarn.plugins.scenery import Shape, Thing

_ROBOT_M = 0.4
_LARGE_M2 = 0.12
"""What covers more ground than this is furniture."""

_SEEN = {
    "isToggled": "on",
    "isOpen": "open",
    "isPickedUp": "held",
    "isBroken": "broken",
    "isFilledWithLiquid": "filled",
    "isCooked": "cooked",
    "isSliced": "sliced",
    "isDirty": "dirty",
}
"""What can be seen of a thing, and its word."""

_GROUND = ("Floor",)


def ground(metadata: Mapping[str, Any]) -> list[Shape]:
    """The floor, or what the things of the room span."""
    objects = metadata["objects"]
    floors = [thing for thing in objects if thing["objectType"] in _GROUND]
    boxes = [box for thing in floors or objects if (box := _box(thing))]
    if not boxes:
        return []
    west, east = (
        min(b[0] - b[2] / 2 for b in boxes),
        max(b[0] + b[2] / 2 for b in boxes),
    )
    south = min(b[1] - b[3] / 2 for b in boxes)
    north = max(b[1] + b[3] / 2 for b in boxes)
    corners = ((west, south), (east, south), (east, north), (west, north))
    return [Shape("floor", corners)]


def things(metadata: Mapping[str, Any]) -> Iterator[Thing]:
    """The robot, and every thing that has a place."""
    agent = metadata["agent"]
    at = agent["position"]
    yield Thing(
        "robot", "ego", at["x"], at["z"], agent["rotation"]["y"] % 360.0,
        _ROBOT_M, _ROBOT_M, top_m=10.0,
    )  # fmt: skip
    for thing in metadata["objects"]:
        box = _box(thing)
        if box is None or thing["objectType"] in _GROUND:
            continue
        x, y, wide, deep, top = box
        large = wide * deep >= _LARGE_M2
        # Heading north: the length runs north, the width east.
        yield Thing(
            thing["objectId"], "furniture" if large else "object", x, y, 0.0, deep,
            wide, _state(thing), top, thing["objectType"],
        )  # fmt: skip


def _box(thing: Mapping[str, Any]) -> Sequence[float] | None:
    """Its middle, width, depth and top."""
    box = thing["axisAlignedBoundingBox"]
    if not box:
        return None
    center, size = box["center"], box["size"]
    top = center["y"] + size["y"] / 2
    return center["x"], center["z"], size["x"], size["z"], top


def _state(thing: Mapping[str, Any]) -> str:
    seen = [word for key, word in _SEEN.items() if thing[key]]
    if thing["temperature"] == "Hot":
        seen.append("hot")
    return ", ".join(seen)

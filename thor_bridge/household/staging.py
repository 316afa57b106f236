"""Actions that find poses for viewing an object, and that control third-party
cameras.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from forewarn.thor_bridge.household.moving import (
    Arguments,
    named,
    number,
    point,
)
from forewarn.thor_bridge.household.objects import vector
from forewarn.thor_bridge.household.seeing import Camera, Shapes
from forewarn.thor_bridge.household.world import AGENT_HEIGHT_M, ActionRejected, World


def interactable(world: World, action: Arguments) -> list[dict[str, Any]]:
    """Returns the poses from which an object is in view and within reach."""
    thing = named(world, action)
    places = action.get("positions")
    if places is None:
        cells = world.cells
    else:
        rows = [point({"positions": each}, "positions") for each in _list(places)]
        cells = np.array([(x, z) for x, _, z in rows], float).reshape(-1, 2)
    turns = _numbers(action, "rotations", (0.0, 90.0, 180.0, 270.0))
    horizons = _numbers(action, "horizons", (-30.0, 0.0, 30.0, 60.0))
    standings = [bool(each) for each in _list(action.get("standings", [True, False]))]
    most = number(action, "maxPoses", math.inf) if "maxPoses" in action else math.inf
    reach = number(action, "maxDistance", world.reach_m)
    found: list[dict[str, Any]] = []
    if world.hidden(thing):
        return found
    row = list(world.objects).index(thing["objectId"])
    shapes = Shapes(*(part[row : row + 1] for part in world.shapes.rows()))
    tangent = math.tan(math.radians(world.fov) / 2)
    widest = reach + float(np.hypot(*shapes.sizes[0, [0, 2]]))
    away = np.hypot(*(cells - shapes.centers[0, [0, 2]]).T)
    for x, z in cells[away <= widest].tolist():
        for turned in turns:
            for horizon in horizons:
                pose = (x, AGENT_HEIGHT_M, z, turned, horizon)
                aspect = world.width / world.height
                if not shapes.in_view(pose, reach, tangent, aspect)[0]:
                    continue
                for standing in standings:
                    if len(found) >= most:
                        return found
                    place = vector(x, AGENT_HEIGHT_M, z)
                    found.append(
                        {**place, "rotation": turned, "horizon": horizon,
                         "standing": standing}
                    )  # fmt: skip
    return found


def _list(given: object) -> list[Any]:
    if not isinstance(given, list | tuple):
        raise ActionRejected("Invalid argument: not a list", "InvalidArgument")
    return list(given)


def _numbers(
    action: Arguments, key: str, default: tuple[float, ...]
) -> tuple[float, ...]:
    if action.get(key) is None:
        return default
    return tuple(number({key: each}, key) for each in _list(action[key]))


MOST_CAMERAS = 8
_ABOVE_M = 5.0


def add(world: World, action: Arguments) -> None:
    if len(world.cameras) >= MOST_CAMERAS:
        raise ActionRejected(
            f"there cannot be more than {MOST_CAMERAS} third-party cameras"
        )
    camera = Camera(point(action, "position"), point(action, "rotation"))
    world.cameras = (*world.cameras, _set(camera, action))


def update(world: World, action: Arguments) -> None:
    chosen = int(number(action, "thirdPartyCameraId", 0.0))
    if not 0 <= chosen < len(world.cameras):
        raise ActionRejected(f"there is no third-party camera {chosen}")
    camera = _set(world.cameras[chosen], action)
    if action.get("position") is not None:
        camera = replace(camera, place=point(action, "position"))
    if action.get("rotation") is not None:
        camera = replace(camera, turn=point(action, "rotation"))
    cameras = list(world.cameras)
    cameras[chosen] = camera
    world.cameras = tuple(cameras)


def map_view(world: World, _: Arguments) -> dict[str, Any]:
    """Returns the properties of a camera that shows the whole room from above."""
    half = world.shapes.sizes / 2
    low = (world.shapes.centers - half).min(axis=0)
    high = (world.shapes.centers + half).max(axis=0)
    x, _y, z = ((low + high) / 2).tolist()
    wide, _high, deep = (high - low).tolist()
    return {
        "position": vector(x, _ABOVE_M, z),
        "rotation": vector(90.0, 0.0, 0.0),
        "orthographicSize": max(wide * world.height / world.width, deep) / 2 * 1.05,
        "orthographic": True,
    }


def _set(camera: Camera, action: Arguments) -> Camera:
    fov = number(action, "fieldOfView", camera.fov)
    flat = camera.half_height_m
    if "orthographic" in action:
        flat = (
            number(action, "orthographicSize", 2.0) if action["orthographic"] else None
        )
    if not 1.0 <= fov <= 179.0 or (flat is not None and not 0.0 < flat < 1000.0):
        raise ActionRejected(
            "Invalid argument: fieldOfView, orthographicSize", "InvalidArgument"
        )
    return replace(camera, fov=fov, half_height_m=flat)

"""Actions on the cameras that a script puts up beside the robot's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from forewarn.thor_bridge.household.actions.arguments import Arguments, number, point
from forewarn.thor_bridge.household.objects import vector
from forewarn.thor_bridge.household.seeing.cameras import Camera
from forewarn.thor_bridge.household.world import Refused, World

MOST_CAMERAS = 8
_ABOVE_M = 5.0


def add(world: World, action: Arguments) -> None:
    if len(world.cameras) >= MOST_CAMERAS:
        raise Refused(f"there are {MOST_CAMERAS} cameras beside the robot's already")
    camera = Camera(point(action, "position"), point(action, "rotation"))
    world.see_with((*world.cameras, _set(camera, action)))


def update(world: World, action: Arguments) -> None:
    chosen = int(number(action, "thirdPartyCameraId", 0.0))
    if not 0 <= chosen < len(world.cameras):
        raise Refused(f"there is no third party camera {chosen}")
    camera = _set(world.cameras[chosen], action)
    if action.get("position") is not None:
        camera = replace(camera, place=point(action, "position"))
    if action.get("rotation") is not None:
        camera = replace(camera, turn=point(action, "rotation"))
    cameras = list(world.cameras)
    cameras[chosen] = camera
    world.see_with(tuple(cameras))


def map_view(world: World, _: Arguments) -> dict[str, Any]:
    """A camera above the middle of the room that has all of it in the picture."""
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
        raise Refused(
            "Invalid argument: fieldOfView, orthographicSize", "InvalidArgument"
        )
    return replace(camera, fov=fov, half_height_m=flat)

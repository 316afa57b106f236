"""Renders simple camera images, in which objects are boxes.

The arrays have the same shapes and types as in AI2-THOR, so that scripts that need
frames work. The images show objects where the metadata say they are, but are not
realistic.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from forewarn.thor_bridge.household.catalog import ENCLOSING
from forewarn.thor_bridge.household.seeing import CAMERA_M, Camera, Matrix
from forewarn.thor_bridge.household.world import World

Floats = np.ndarray[Any, np.dtype[np.float32]]
Indices = np.ndarray[Any, np.dtype[np.int16]]

NEAR_M, FAR_M = 0.1, 20.0
_ROOM_M = 2.6
_FLOOR, _WALL, _CEILING, _NOTHING, _ROBOT = -1, -2, -3, -4, -5
_PLAIN: Final = {
    _FLOOR: (225, 220, 210), _WALL: (205, 208, 212), _CEILING: (240, 240, 238),
    _NOTHING: (40, 42, 46), _ROBOT: (200, 30, 30),
}  # fmt: skip
_NAMES: Final = {
    _FLOOR: "Floor", _WALL: "Wall", _CEILING: "Ceiling", _ROBOT: "Agent",
}  # fmt: skip
_ROBOT_HALF: Final = np.array([0.2, 0.9, 0.2])
_SHADE: Final = np.array([0.78, 1.0, 0.9], np.float32)
"""The brightness of the faces perpendicular to each axis."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What each pixel of an image shows; the bottom row is first.

    Args:
        far: The distance along the camera's axis in metres.
        row: The index of the object in the world; negative for the room and the robot.
        axis: The axis perpendicular to the visible face.
        side: The side of the face along that axis, 1 or -1.
    """

    far: Floats
    row: Indices
    axis: Indices
    side: Indices


def own_camera(world: World) -> Camera:
    """The robot's camera."""
    pose = world.pose
    place = (pose.x, pose.y + CAMERA_M, pose.z)
    return Camera(place, (pose.horizon, pose.rotation, 0.0), world.fov)


def look(world: World, camera: Camera) -> Seen:
    """Computes what a camera sees."""
    width, height = world.width, world.height
    rays = _Rays(camera, width, height)
    low, high = _room(world)
    far, axis, side = rays.leave(low, high)
    row = np.full(far.shape, _WALL, np.int16)
    row[(axis == 1) & (side < 0)] = _CEILING
    row[(axis == 1) & (side > 0)] = _FLOOR
    row[far >= FAR_M] = _NOTHING
    seen = Seen(np.minimum(far, np.float32(FAR_M)), row, axis, side)
    half = world.shapes.sizes / 2
    for number, thing in enumerate(world.objects.values()):
        if world.hidden(thing):
            continue
        middle, reach = world.shapes.centers[number], half[number]
        opened = thing["openable"] and thing["isOpen"]
        hollow = opened and thing["objectType"] in ENCLOSING
        rays.draw(seen, number, middle - reach, middle + reach, hollow=hollow)
    if camera != own_camera(world):
        here = np.array([world.pose.x, world.pose.y, world.pose.z])
        rays.draw(seen, _ROBOT, here - _ROBOT_HALF, here + _ROBOT_HALF, hollow=False)
    return seen


def colours(world: World) -> list[dict[str, Any]]:
    """Returns the colours of objects and types in segmentation masks, as metadata."""
    named = list(world.objects) + sorted(_types(world))
    return [{"name": name, "color": list(_code(name))} for name in named]


def rgb(world: World, seen: Seen) -> bytes:
    kinds = [_shown(thing["objectType"]) for thing in world.objects.values()]
    table = np.array(kinds + _room_rows(_PLAIN), np.float32)
    shade = _SHADE[seen.axis] * np.clip(1.1 - seen.far / 30.0, 0.5, 1.0)
    return bytes((table[seen.row] * shade[..., None]).astype(np.uint8).tobytes())


def depth(world: World, seen: Seen) -> bytes:
    return seen.far.astype(np.float32).tobytes()


def instances(world: World, seen: Seen) -> bytes:
    return _mask(seen, [_code(name) for name in world.objects])


def classes(world: World, seen: Seen) -> bytes:
    things = world.objects.values()
    return _mask(seen, [_code(thing["objectType"]) for thing in things])


def normals(world: World, seen: Seen) -> bytes:
    """Returns the surface normals, with each component from -1 to 1 encoded as a
    byte.
    """
    image = np.full((*seen.far.shape, 3), 128, np.uint8)
    parts = np.where(seen.side > 0, 255, 0).astype(np.uint8)
    np.put_along_axis(image, seen.axis[..., None].astype(np.int64), parts[..., None], 2)
    return image.tobytes()


def _mask(seen: Seen, codes: list[tuple[int, int, int]]) -> bytes:
    room = {number: _code(name) for number, name in _NAMES.items()}
    table = np.array(codes + _room_rows({**room, _NOTHING: (0, 0, 0)}), np.uint8)
    opaque = np.full((*seen.row.shape, 4), 255, np.uint8)
    opaque[..., :3] = table[seen.row]
    return opaque.tobytes()


def _room_rows(of: Mapping[int, tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Returns the colours of the room and the robot, in the order of negative
    indices.
    """
    return [of[number] for number in (_ROBOT, _NOTHING, _CEILING, _WALL, _FLOOR)]


def _types(world: World) -> set[str]:
    return {thing["objectType"] for thing in world.objects.values()}


def _code(name: str) -> tuple[int, int, int]:
    """Returns a colour that is derived from a name."""
    code = zlib.crc32(name.encode())
    return code & 255, code >> 8 & 255, code >> 16 & 255


def _shown(kind: str) -> tuple[int, int, int]:
    if kind == "Floor":
        return _PLAIN[_FLOOR]
    red, green, blue = _code(kind)
    return 60 + red % 140, 60 + green % 140, 60 + blue % 140


def _room(world: World) -> tuple[Matrix, Matrix]:
    """Returns two opposite corners of the room, estimated from the objects."""
    reach = world.shapes.sizes / 2
    low = (world.shapes.centers - reach).min(axis=0)
    high = (world.shapes.centers + reach).max(axis=0)
    low[1], high[1] = 0.0, max(_ROOM_M, high[1])
    return low, high


@lru_cache(maxsize=4)
def _grid(width: int, height: int) -> tuple[Floats, Floats]:
    """Returns the coordinates of the pixels in units of half the image height.

    The bottom row is first.
    """
    aside = (np.arange(width, dtype=np.float32) + 0.5 - width / 2) / (height / 2)
    up = (np.arange(height, dtype=np.float32) + 0.5 - height / 2) / (height / 2)
    return aside[None, :], up[:, None]


class _Rays:
    """The rays through a camera's pixels, with one array per coordinate axis."""

    def __init__(self, camera: Camera, width: int, height: int) -> None:
        self._axes, self._size = camera.axes(), (width, height)
        right, above, ahead = self._axes
        aside, up = _grid(width, height)
        self._place = np.array(camera.place)
        self._flat = camera.half_height_m
        scale = self._flat or np.tan(np.radians(camera.fov) / 2)
        self._scale = float(scale)
        across = [
            (aside * right[i] + up * above[i]) * np.float32(scale) for i in range(3)
        ]
        starts = [np.full((height, width), value) for value in camera.place]
        if self._flat is None:
            ways = [ahead[i] + across[i] for i in range(3)]
        else:
            starts = [start + across[i] for i, start in enumerate(starts)]
            ways = [np.full((height, width), value) for value in ahead]
        self._start = [start.astype(np.float32) for start in starts]
        tiny = np.float32(1e-7)
        self._inverse = [
            (1 / np.where(np.abs(way) < tiny, tiny, way)).astype(np.float32)
            for way in ways
        ]

    def _slabs(
        self, low: Matrix, high: Matrix, window: tuple[slice, slice]
    ) -> tuple[list[Floats], list[Floats]]:
        entries, exits = [], []
        for i in range(3):
            inverse, start = self._inverse[i][window], self._start[i][window]
            one = (np.float32(low[i]) - start) * inverse
            other = (np.float32(high[i]) - start) * inverse
            entries.append(np.minimum(one, other))
            exits.append(np.maximum(one, other))
        return entries, exits

    def leave(self, low: Matrix, high: Matrix) -> tuple[Floats, Indices, Indices]:
        """Returns the distances and faces at which the rays leave a box from the
        inside.
        """
        entries, exits = self._slabs(low, high, (slice(None), slice(None)))
        near = np.maximum(np.maximum(entries[0], entries[1]), entries[2])
        far = np.minimum(np.minimum(exits[0], exits[1]), exits[2])
        axis = np.where(exits[0] == far, 0, np.where(exits[1] == far, 1, 2))
        out = (near > far) | (far <= NEAR_M)
        far = np.where(out, np.float32(np.inf), far)
        return far, axis.astype(np.int16), -self._ways(axis)

    def _ways(self, axis: Any, window: Any = ...) -> Indices:
        """Returns the sign of each ray's direction along its chosen axis."""
        parts = [np.sign(self._inverse[i][window]).astype(np.int16) for i in range(3)]
        chosen: Indices = np.choose(axis, parts)
        return chosen

    def draw(
        self, seen: Seen, number: int, low: Matrix, high: Matrix, *, hollow: bool
    ) -> None:
        """Draws a box over everything behind it; of a hollow box, the inner faces are
        drawn.
        """
        window = self._window(low, high)
        if window is None:
            return
        entries, exits = self._slabs(low, high, window)
        near = np.maximum(np.maximum(entries[0], entries[1]), entries[2])
        far = np.minimum(np.minimum(exits[0], exits[1]), exits[2])
        shown, faces = (far, exits) if hollow else (near, entries)
        hit = (near <= far) & (shown > NEAR_M) & (shown < seen.far[window])
        if not hit.any():
            return
        axis = np.where(faces[0] == shown, 0, np.where(faces[1] == shown, 1, 2))
        seen.far[window][hit] = shown[hit]
        seen.row[window][hit] = number
        seen.axis[window][hit] = axis[hit]
        seen.side[window][hit] = -self._ways(axis, window)[hit]

    def _window(self, low: Matrix, high: Matrix) -> tuple[slice, slice] | None:
        """Returns the rows and columns of pixels that a box can occupy, or None if the
        box is out of view.
        """
        width, height = self._size
        corners = np.array(list(itertools.product(*zip(low, high, strict=True))))
        aside, up, ahead = self._axes @ (corners - self._place).T
        if (ahead <= NEAR_M).all():
            return None
        if self._flat is None and (ahead <= NEAR_M).any():
            return slice(0, height), slice(0, width)
        reach = self._scale * (ahead if self._flat is None else np.ones(8))
        half = height / 2
        columns = aside / reach * half + width / 2
        rows = up / reach * half + half
        left, right = max(0, int(columns.min())), min(width, int(columns.max()) + 1)
        under, over = max(0, int(rows.min())), min(height, int(rows.max()) + 1)
        if left >= right or under >= over:
            return None
        return slice(under, over), slice(left, right)

"""A plain picture of the room from above, where AI2-THOR would send a camera's."""

from __future__ import annotations

import math
import zlib

import numpy as np

from forewarn.thor_bridge.household.world import World

_FLOOR = (225, 220, 210)
_ROBOT = (200, 30, 30)


def picture(world: World) -> bytes:
    """RGB bytes of the room from above, the bottom row first."""
    width, height = world.width, world.height
    image = np.zeros((height, width, 3), np.uint8)
    low, high = world.cells.min(axis=0) - 1.0, world.cells.max(axis=0) + 1.0
    scale = min(width / (high[0] - low[0]), height / (high[1] - low[1]))

    def pixel(x: float, z: float) -> tuple[int, int]:
        return int((x - low[0]) * scale), int((z - low[1]) * scale)

    centers, sizes = world.shapes.centers, world.shapes.sizes
    tops = centers[:, 1] + sizes[:, 1] / 2
    kinds = [thing["objectType"] for thing in world.objects.values()]
    for row in np.argsort(tops).tolist():
        (x, _, z), (wide, _, deep) = centers[row].tolist(), sizes[row].tolist()
        left, bottom = pixel(x - wide / 2, z - deep / 2)
        right, top = pixel(x + wide / 2, z + deep / 2)
        color = _FLOOR if kinds[row] == "Floor" else _color(kinds[row])
        image[max(0, bottom) : top + 1, max(0, left) : right + 1] = color
    turn = math.radians(world.pose.rotation)
    for ahead in np.linspace(0.0, 0.3, 7).tolist():
        column, line = pixel(
            world.pose.x + ahead * math.sin(turn), world.pose.z + ahead * math.cos(turn)
        )
        image[max(0, line - 1) : line + 2, max(0, column - 1) : column + 2] = _ROBOT
    return image.tobytes()


def _color(kind: str) -> tuple[int, int, int]:
    code = zlib.crc32(kind.encode())
    return 60 + code % 140, 60 + code // 256 % 140, 60 + code // 65536 % 140

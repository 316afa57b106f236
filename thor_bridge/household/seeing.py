"""The visibility of objects.

An object is visible if it is within reach and a point of it is in view.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Vectors = np.ndarray[Any, np.dtype[np.float64]]

CAMERA_M = 0.675
"""The camera's height above the agent's position in metres."""

_CORNERS = np.array(
    [(x, y, z) for x in (-0.48, 0.48) for y in (-0.48, 0.48) for z in (-0.48, 0.48)]
    + [(0.0, 0.0, 0.0)]
)


class Shapes:
    """The bounding boxes of all objects as arrays, with one row per object."""

    __slots__ = ("centers", "places", "sizes")

    def __init__(self, centers: Vectors, sizes: Vectors, places: Vectors) -> None:
        self.centers, self.sizes, self.places = centers, sizes, places

    @classmethod
    def of(cls, objects: Sequence[dict[str, Any]]) -> Shapes:
        """Creates the shapes of objects in the metadata format."""
        boxes = [thing["axisAlignedBoundingBox"] for thing in objects]
        return cls(
            np.array([_triple(box["center"]) for box in boxes], float),
            np.array([_triple(box["size"]) for box in boxes], float),
            np.array([_triple(thing["position"]) for thing in objects], float),
        )

    def rows(self) -> tuple[Vectors, Vectors, Vectors]:
        """Returns the centres, sizes and positions, which are the arguments of
        `Shapes`.
        """
        return self.centers, self.sizes, self.places

    def copy(self) -> Shapes:
        """Returns a copy that can be modified."""
        return Shapes(self.centers.copy(), self.sizes.copy(), self.places.copy())

    def distances(self, x: float, y: float, z: float) -> Vectors:
        """Returns the distance from a point to the position of each object."""
        offsets = self.places - (x, y, z)
        lengths: Vectors = np.sqrt(np.einsum("ij,ij->i", offsets, offsets))
        return lengths

    def in_view(
        self,
        pose: tuple[float, float, float, float, float],
        reach_m: float,
        tangent: float,
        aspect: float,
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Returns which objects are within reach and have a point in the image.

        Args:
            pose: The coordinates x, y and z, and the rotation and horizon (positive
                downwards) in degrees.
            reach_m: The maximum horizontal distance in metres.
            tangent: The tangent of half the vertical field of view.
            aspect: The ratio of the image's width to its height.
        """
        x, y, z, rotation, horizon = pose
        half = self.sizes / 2
        nearest = np.clip((x, y, z), self.centers - half, self.centers + half)
        gap_x, gap_z = nearest[:, 0] - x, nearest[:, 2] - z
        near = gap_x * gap_x + gap_z * gap_z <= reach_m * reach_m
        rows = np.flatnonzero(near)
        if not rows.size:
            return near
        points = np.empty((rows.size, 10, 3))
        points[:, :9] = (
            self.centers[rows, None, :] + _CORNERS * self.sizes[rows, None, :]
        )
        points[:, 9] = nearest[rows]
        points -= (x, y + CAMERA_M, z)
        turn, tilt = math.radians(rotation), math.radians(horizon)
        ahead = points[..., 0] * math.sin(turn) + points[..., 2] * math.cos(turn)
        aside = points[..., 0] * math.cos(turn) - points[..., 2] * math.sin(turn)
        depth = ahead * math.cos(tilt) - points[..., 1] * math.sin(tilt)
        raised = ahead * math.sin(tilt) + points[..., 1] * math.cos(tilt)
        limit = depth * tangent
        seen = (depth > 0) & (depth <= 2 * reach_m)
        seen &= (np.abs(aside) <= limit * aspect) & (np.abs(raised) <= limit)
        near[rows] = seen.any(axis=1)
        return near


def _triple(point: dict[str, float]) -> tuple[float, float, float]:
    return point["x"], point["y"], point["z"]

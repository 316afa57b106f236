"""Cameras: the robot's own, and those that a script puts up beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from forewarn.thor_bridge.household.objects import vector

Matrix = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Camera:
    """Where a camera is and how it looks; angles are Unity's, in degrees.

    Args:
        place: x, y, z.
        turn: Pitch (downwards positive), yaw and roll.
        fov: The vertical field of view.
        half_height_m: Of what a camera without perspective sees; none for one with.
    """

    place: tuple[float, float, float]
    turn: tuple[float, float, float]
    fov: float = 90.0
    half_height_m: float | None = None

    def axes(self) -> Matrix:
        """Right, up and ahead, as rows."""
        pitch, yaw, roll = (math.radians(angle) for angle in self.turn)
        right = np.array([math.cos(yaw), 0.0, -math.sin(yaw)])
        ahead = np.array(
            [
                math.sin(yaw) * math.cos(pitch),
                -math.sin(pitch),
                math.cos(yaw) * math.cos(pitch),
            ]
        )
        up = np.cross(ahead, right)
        cosine, sine = math.cos(roll), math.sin(roll)
        return np.array([right * cosine + up * sine, up * cosine - right * sine, ahead])

    def described(self, number: int) -> dict[str, Any]:
        """The camera as metadata has it."""
        return {
            "thirdPartyCameraId": number,
            "position": vector(*self.place),
            "rotation": vector(*self.turn),
            "fieldOfView": self.fov,
        }

"""The robot's arm, where AI2-THOR's `agentMode` is `arm`: a shoulder and a wrist.

The shoulder goes up and down a column in the robot; the wrist is anywhere before it
within the arm's length. Elbows, speeds and what they knock over are not simulated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from forewarn.thor_bridge.household.objects import vector

Point = tuple[float, float, float]

LENGTH_M = 0.6335
"""How far from the shoulder the wrist gets."""

LOWEST_M, HIGHEST_M = -0.55, 0.35
"""How far below and above the robot's middle the shoulder can be."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Where the arm is, seen from the robot.

    Args:
        wrist: Right, up and ahead of the shoulder, metres.
        lift: The shoulder's height, from 0 to 1.
        turn: Of the wrist: pitch, yaw and roll, degrees.
        radius_m: Of the ball in which the hand takes things.
    """

    wrist: Point = (0.0, 0.0, 0.3)
    lift: float = 0.5
    turn: Point = (0.0, 0.0, 0.0)
    radius_m: float = 0.06

    def reaches(self, wrist: Point) -> bool:
        return wrist[2] >= -1e-9 and math.hypot(*wrist) <= LENGTH_M

    def shoulder_m(self) -> float:
        """Above the robot's middle."""
        return LOWEST_M + self.lift * (HIGHEST_M - LOWEST_M)

    def hand(self, place: Point, rotation: float) -> Point:
        """Where the hand is in the room.

        Args:
            place: Where the robot stands.
            rotation: Where it looks, degrees.
        """
        return self.there(place, rotation, self.wrist)

    def there(self, place: Point, rotation: float, seen: Point) -> Point:
        """A point in the room that is given from the shoulder."""
        right, up, ahead = seen
        turn = math.radians(rotation)
        return (
            place[0] + right * math.cos(turn) + ahead * math.sin(turn),
            place[1] + self.shoulder_m() + up,
            place[2] - right * math.sin(turn) + ahead * math.cos(turn),
        )

    def seen(self, place: Point, rotation: float, point: Point) -> Point:
        """A point of the room as it is seen from the shoulder."""
        x, y, z = (there - here for there, here in zip(point, place, strict=True))
        turn = math.radians(rotation)
        return (
            x * math.cos(turn) - z * math.sin(turn),
            y - self.shoulder_m(),
            x * math.sin(turn) + z * math.cos(turn),
        )

    def described(
        self, place: Point, rotation: float, held: list[str], near: list[str]
    ) -> dict[str, Any]:
        """The arm as metadata has it."""
        hand = self.hand(place, rotation)
        joints = []
        for number, share in enumerate((0.0, 1 / 3, 2 / 3, 1.0), start=1):
            own = tuple(share * part for part in self.wrist)
            at = self.there(place, rotation, (own[0], own[1], own[2]))
            joints.append(
                {
                    "name": f"robot_arm_{number}_jnt",
                    "position": vector(*at),
                    "rootRelativePosition": vector(*own),
                    "rotation": {**vector(1.0, 0.0, 0.0), "w": 0.0},
                    "rootRelativeRotation": {**vector(1.0, 0.0, 0.0), "w": 0.0},
                    "localRotation": {**vector(1.0, 0.0, 0.0), "w": 0.0},
                }
            )
        return {
            "joints": joints,
            "heldObjects": held,
            "pickupableObjects": near,
            "touchedNotHeldObjects": [],
            "handSphereCenter": vector(*hand),
            "handSphereRadius": self.radius_m,
        }

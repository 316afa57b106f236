"""Driver models for simulators that steer by themselves, and their commands.

The simulator's own model keeps distance and lane while the driver is attentive. An
action contains the desired speed and headway, whether the driver is attentive, and the
limits that a guard sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Annotated, Any

from pydantic import Field

PERIOD_S = 0.2
FASTEST = 40.0  # m/s
BRAKE = 8.0  # m/s²

WANTS, HEADWAY, LOOKS, CAP, MOST = range(5)
"""The indices of an action's parts, in m/s, s, 0 or 1, m/s, and m/s²."""

LEAST = [0.0, 0.1, 0.0, 0.0, -BRAKE]
GREATEST = [FASTEST, 5.0, 1.0, FASTEST, 6.0]
STOP = [0.0, 1.5, 1.0, 0.0, -BRAKE]

Span = Annotated[tuple[float, float], Field(strict=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class Driver:
    """A driver with random speed, headway and inattention.

    Args:
        wants_kmh: The range of desired speeds.
        headway_s: The range of time headways.
        distracted: The fraction of drivers that are sometimes inattentive.
        away_s: The range of durations of inattention.
    """

    def __init__(
        self,
        *,
        wants_kmh: tuple[float, float] = (80.0, 130.0),
        headway_s: tuple[float, float] = (0.6, 2.0),
        distracted: float = 0.5,
        away_s: tuple[float, float] = (1.0, 4.0),
    ) -> None:
        self._wants_kmh, self._headway_s = wants_kmh, headway_s
        self._distracted, self._away_s = distracted, away_s

    def reset(self, seed: int) -> None:
        self._luck = luck = Random(f"highway driver {seed}")
        self._wants = luck.uniform(*self._wants_kmh) / 3.6
        self._headway = luck.uniform(*self._headway_s)
        self._errs = luck.random() < self._distracted
        self._looks, self._left_s = True, luck.uniform(1.0, 4.0)

    def __call__(self, observation: Any) -> list[float]:
        self._left_s -= PERIOD_S
        if self._left_s <= 0.0:
            self._looks = not (self._looks and self._errs)
            span = (1.0, 4.0) if self._looks else self._away_s
            self._left_s = self._luck.uniform(*span)
        return [self._wants, self._headway, float(self._looks), FASTEST, 6.0]


def slower(told: Sequence[float], cap_kmh: float) -> list[float]:
    """The command with a cap on the speed."""
    capped = list(told)
    capped[CAP] = min(capped[CAP], cap_kmh / 3.6)
    return capped

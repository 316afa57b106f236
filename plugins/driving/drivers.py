"""A driver model for simulators that steer automatically, and its commands.

While the driver is attentive, the simulator's own model keeps the distance and the
lane. An action contains the desired speed and headway, whether the driver is attentive,
and the limits that a guard sets.
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
"""The indices of an action's components.

Their units are m/s, s, a flag (0 or 1), m/s and m/s².
"""

LEAST = [0.0, 0.1, 0.0, 0.0, -BRAKE]
GREATEST = [FASTEST, 5.0, 1.0, FASTEST, 6.0]
STOP = [0.0, 1.5, 1.0, 0.0, -BRAKE]

Span = Annotated[tuple[float, float], Field(strict=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class Driver:
    """A driver whose desired speed, headway and lapses of attention are random.

    Args:
        wants_kmh: The range of desired speeds in km/h.
        headway_s: The range of time headways in seconds.
        distracted: The probability that a driver is sometimes inattentive.
        away_s: The range of durations of a lapse of attention, in seconds.
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
    """Returns a copy of a command with its speed limited to a cap."""
    capped = list(told)
    capped[CAP] = min(capped[CAP], cap_kmh / 3.6)
    return capped

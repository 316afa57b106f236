"""Worlds whose simulator steers the ego automatically, and a model of its driver.
While the driver is attentive, the simulator's own model keeps the distance and the
lane. An action contains the desired speed and headway, whether the driver is attentive,
and the limits that a guard sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Annotated, Any

from pydantic import Field

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.driving.courses import PERIOD_S as PERIOD_S
from forewarn.plugins.driving.courses import CourseSenses
from forewarn.plugins.gym.act import ACT
from forewarn.plugins.gym.bridge import EnvWorld

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
    """A pilot whose desired speed, headway and lapses of attention are random.

    Args:
        wants_kmh: The range of desired speeds in km/h.
        headway_s: The range of time headways in seconds.
        distracted: The probability that a driver is sometimes inattentive.
        away_s: The range of durations of a lapse of attention, in seconds.
    """

    def __init__(
        self,
        *,
        wants_kmh: Span = (80.0, 130.0),
        headway_s: Span = (0.6, 2.0),
        distracted: Share = 0.5,
        away_s: Span = (1.0, 4.0),
    ) -> None:
        self._wants_kmh, self._headway_s = wants_kmh, headway_s
        self._distracted, self._away_s = distracted, away_s

    def reset(self, seed: int) -> None:
        self._luck = luck = Random(f"highway driver {seed}")
        self._wants = luck.uniform(*self._wants_kmh) / 3.6
        self._headway = luck.uniform(*self._headway_s)
        self._errs = luck.random() < self._distracted
        self._looks, self._left_s = True, luck.uniform(1.0, 4.0)

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        return Action(ACT, {"action": self.command()})

    def command(self) -> list[float]:
        """Returns the command for the next period."""
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


class DriverWorld(EnvWorld):
    """A world in which the pilot sends commands to the ego's driver.

    Args:
        env: Creates the environment.
        signals: Computes the signals.
        told: Returns the current command, given the unwrapped environment.
        more: Additional components of the stop command, after those in `STOP`.
    """

    def __init__(
        self,
        env: Callable[[], Any],
        signals: CourseSenses,
        told: Callable[[Any], Sequence[float]],
        more: Sequence[float] = (),
    ) -> None:
        def slow(env: Any, action: list[float] | None, cap_kmh: float) -> list[float]:
            return slower(told(env) if action is None else action, cap_kmh)

        super().__init__(
            env=env,
            vocabulary="driving",
            signals=signals,
            period_s=PERIOD_S,
            stop=[*STOP, *more],
            shows="speed < 1 km/h or acceleration < -1 m/s²",
            slow=slow,
        )

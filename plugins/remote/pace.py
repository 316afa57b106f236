"""How far a loop's frames are apart, where it does not say so, or says it wrongly."""

from __future__ import annotations

from statistics import median
from typing import Protocol

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Decision
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.watch import Watch

STEPS = 20
TOLERANCE = 1 / 3
"""Live sources are early and late; half as far apart or twice as far is another."""


class Fits(Protocol):
    """Raises where a model is of something else than what it is told."""

    def __call__(
        self,
        *,
        scenario: str | None = None,
        vocabulary: str | None = None,
        period_s: float | None = None,
        tolerance: float = 1e-9,
    ) -> None: ...


class Pace(Listener):
    """Looks at the first frames of an episode, and has it end where they do not fit.

    Args:
        fits: Refuses a period.
    """

    def __init__(self, fits: Fits) -> None:
        self._fits = fits
        self._times: list[float] = []

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Remembers when it was; after some frames it asks."""
        times = self._times
        if len(times) > STEPS or (times and not frame.time_s > times[-1]):
            return
        times.append(frame.time_s)
        if len(times) > STEPS:
            steps = (
                later - time for time, later in zip(times, times[1:], strict=False)
            )
            self._fits(period_s=round(median(steps), 6), tolerance=TOLERANCE)

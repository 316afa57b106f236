"""The law's robustness over a predicted trajectory, after REDriver.

A sketch of the method, not that program: REDriver asks how far the trajectory that
Apollo plans is from breaking the law; we ask it of a trajectory predicted from the
frame, by the quantitative semantics of our own formulas, in their own units. It alarms
below a robustness of 0.4, 0.8 or 1.2.
"""

from __future__ import annotations

from forewarn.abstractions.frame import Frame
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.robustness import Robustness
from forewarn.plugins.baselines.prediction import Predictor, refuse_unless_driving
from forewarn.plugins.contracts import Source

AHEAD_S = 8.0
"""As long as the trajectories that Apollo plans."""

FAR = 1000.0
"""Robustness beyond this is told as this: what has no distance is infinite."""


class ReDriver:
    """Scores the negative of the robustness: the closer to being broken, the more."""

    thresholds = (-1.2, -0.8, -0.4)

    def __init__(self, law: Law, source: Source) -> None:
        refuse_unless_driving(law, source, "speed", "acceleration")
        self._predictor = Predictor(law, source, AHEAD_S)
        self._robustness = Robustness(law.formula, source.period_s)

    def reset(self) -> None:
        self._predictor.reset()

    def score(self, frame: Frame) -> float:
        found = self._robustness(self._predictor.stretch(frame))[0]
        return -float(min(FAR, max(-FAR, found)))

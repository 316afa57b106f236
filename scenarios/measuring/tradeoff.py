"""The trade-off of a way to warn: what is detected at which rate of false alarms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forewarn.monitors.guarding.policy import Step
from forewarn.scenarios.measuring.warning_times import (
    Warned,
    WarnedRun,
    alarms,
    warned_run,
)
from forewarn.scenarios.running.truth import Broken

POINTS = 40
ALLOWED = 0.10
"""The rate of false alarms at which ways to warn are compared."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One run as a way to warn scored it, under one law.

    Args:
        times_s: When each frame was.
        scores: How alarming it was found; NaN where that could not be told.
        broken: The first time that the law was broken, if it was.
        forced: The frames with an alarm whatever the threshold.
    """

    times_s: Sequence[float]
    scores: Sequence[float]
    broken: Broken | None
    forced: frozenset[int] = frozenset()

    def at(self, threshold: float) -> WarnedRun:
        """The run with that threshold."""
        flags = alarms(self.scores, Step("alert", threshold), self.forced)
        return warned_run(self.times_s, flags, self.broken)

    @property
    def top(self) -> float:
        """The highest score that counts: of a violating run, before the trigger."""
        scores = np.asarray(self.scores, np.float64)
        if self.broken is not None:
            scores = scores[np.asarray(self.times_s) < self.broken.since_s]
        scores = scores[~np.isnan(scores)]
        return float(scores.max()) if scores.size else -np.inf


def warned_at(runs: Sequence[Scored], threshold: float) -> Warned:
    """All runs with a threshold."""
    return Warned(tuple(run.at(threshold) for run in runs))


def trade_off(runs: Sequence[Scored], horizon_s: float) -> list[dict[str, Any]]:
    """Points of the curve, from the lowest threshold to the highest."""
    tops = np.unique([run.top for run in runs])
    tops = tops[np.isfinite(tops)]
    if not tops.size:
        return []
    picked = np.unique(np.linspace(0, tops.size - 1, POINTS).round().astype(int))
    above = np.nextafter(tops[-1], np.inf)
    thresholds = [*tops[picked].tolist(), float(above)]
    return [_point(warned_at(runs, each), each, horizon_s) for each in thresholds]


def _point(warned: Warned, threshold: float, horizon_s: float) -> dict[str, Any]:
    return {
        "threshold": threshold,
        "detected": warned.detected,
        "early": warned.early(horizon_s),
        "detection_rate": warned.detection_rate,
        "false_alarm_rate": warned.false_alarm_rate,
        "false_alarms_per_hour": warned.false_alarms_per_hour,
        "awt_trigger_s": _mean(warned, trigger=True),
        "awt_violation_s": _mean(warned, trigger=False),
    }


def _mean(warned: Warned, trigger: bool) -> float | None:
    times = warned.ahead(trigger)
    return float(np.nanmean(times)) if warned.detected else None


def best_allowed(
    points: Sequence[Mapping[str, Any]], allowed: float = ALLOWED
) -> Mapping[str, Any] | None:
    """The point that detects most with no more false alarms than allowed.

    It is picked on the very runs that it is judged on, so it flatters a little; every
    way to warn alike.
    """
    good = [
        point
        for point in points
        if point["detection_rate"] is not None
        and (point["false_alarm_rate"] or 0.0) <= allowed
    ]
    return max(
        good,
        key=lambda point: (point["detection_rate"], point["awt_trigger_s"] or 0.0),
        default=None,
    )

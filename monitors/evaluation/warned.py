"""Lead times and false alarms of warnings.

A run is violating if the law was broken in it, and clean otherwise. In a violating run,
only the first violation counts. A violation has two times: the time at which it became
certain, and the trigger, at which the broken obligation arose. For an invariant, the
two coincide. A violation is detected if the first alarm came strictly before the
trigger. Lead times, to the violation and to the trigger, are computed over detected
runs. A false alarm is a clean run with any alarm.

`Warned` computes these figures for one threshold, and `trade_off` for all thresholds.
`Climb` stores the data of a run that is needed to choose thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forewarn.monitors.evaluation.figures import mean_interval, rate, spread, wilson

Flags = NDArray[np.bool_]

LEAD_S = 3.0
"""The lead time before the deadline that leaves time to react, in seconds."""

SLACK_S = 1e-9
"""Tolerance for times in seconds, because sums of periods are rounded."""

_LEAD_SLACK_S = 1e-6


@dataclass(frozen=True, slots=True)
class Broken:
    """The violation of a law in a run.

    Args:
        law: The law's name.
        time_s: The time at which the violation became certain, in seconds.
        since_s: The time at which the obligation arose (the trigger); `time_s` for an
            invariant.
    """

    law: str
    time_s: float
    since_s: float


def came_true(broken: Broken | None, times_s: ArrayLike, horizon_s: float) -> Flags:
    """Returns for each time whether an obligation that was pending at that time, or
    arose within H after it, was not met.

    Only the first violation of a run counts; a second broken obligation is ignored.
    """
    times = np.asarray(times_s, np.float64)
    if broken is None:
        return np.zeros(len(times), bool)
    happened: Flags = broken.since_s <= times + horizon_s + SLACK_S
    return happened


@dataclass(frozen=True, slots=True)
class WarnedRun:
    """The alarms and the violation of one run, for one law and one threshold.

    Args:
        duration_s: How long the run lasted, in seconds.
        alarm_s: The time of the first alarm; None if there was none.
        onsets: The number of separate alarms.
        broken: The first violation; None if there was none.
    """

    duration_s: float
    alarm_s: float | None
    onsets: int
    broken: Broken | None

    @property
    def detected(self) -> bool:
        """Whether the first alarm came strictly before the trigger."""
        return not math.isnan(self.lead_s(harmless=False))

    @property
    def in_time(self) -> bool:
        """Whether the first alarm came at least `LEAD_S` before the deadline."""
        return not math.isnan(self.lead_s(harmless=True))

    def lead_s(self, harmless: bool, slack_s: float = _LEAD_SLACK_S) -> float:
        """Returns the lead time of the first alarm; NaN unless it came in time.

        Args:
            harmless: Whether most triggers are harmless. If so, a warning is in time if
                it comes at least `LEAD_S` before the deadline; otherwise, if it comes
                before the trigger.
            slack_s: The tolerance when the lead time is compared with `LEAD_S`, in
                seconds.
        """
        if self.broken is None or self.alarm_s is None:
            return math.nan
        end_s = self.broken.time_s if harmless else self.broken.since_s
        lead_s = end_s - self.alarm_s
        in_time = lead_s >= LEAD_S - slack_s if harmless else lead_s > 0.0
        return lead_s if in_time else math.nan


def alarms(
    scores: Sequence[float] | NDArray[np.float64],
    threshold: float,
    forced: frozenset[int] = frozenset(),
    inclusive: bool = True,
) -> Flags:
    """Returns whether each frame has an alarm.

    Args:
        scores: The score of each frame; NaN always raises an alarm.
        threshold: The score at which an alarm is raised.
        forced: The frames that have an alarm at any score.
        inclusive: Whether a score equal to the threshold raises an alarm.
    """
    values = np.asarray(scores, np.float64)
    calm = values < threshold if inclusive else values <= threshold
    flags: Flags = ~calm
    flags[sorted(forced)] = True
    return flags


def warned_run(
    times_s: Sequence[float], flags: Flags, broken: Broken | None
) -> WarnedRun:
    """Summarises a run from the times and alarms of its frames."""
    first = np.flatnonzero(flags)
    onsets = int(np.count_nonzero(np.diff(flags.astype(np.int8), prepend=0) > 0))
    return WarnedRun(
        times_s[-1] - times_s[0] if len(times_s) else 0.0,
        times_s[int(first[0])] if first.size else None,
        onsets,
        broken,
    )


@dataclass(frozen=True, slots=True)
class Warned:
    """The alarms and violations in all runs of a scenario, for one law and one
    threshold.
    """

    runs: tuple[WarnedRun, ...]

    @property
    def violating(self) -> list[WarnedRun]:
        return [run for run in self.runs if run.broken is not None]

    @property
    def clean(self) -> list[WarnedRun]:
        return [run for run in self.runs if run.broken is None]

    @property
    def detected(self) -> int:
        return sum(run.detected for run in self.runs)

    @property
    def has_deadline(self) -> bool:
        """Whether the violation came later than its trigger in any run."""
        return any(run.broken and run.broken.since_s < run.broken.time_s
                   for run in self.runs)  # fmt: skip

    @property
    def in_time(self) -> int:
        return sum(run.in_time for run in self.runs)

    @property
    def false_alarms(self) -> int:
        return sum(run.alarm_s is not None for run in self.clean)

    @property
    def detection_rate(self) -> float | None:
        """The fraction of violating runs that were detected."""
        return rate(self.detected, len(self.violating))

    @property
    def false_alarm_rate(self) -> float | None:
        """The fraction of clean runs with any alarm."""
        return rate(self.false_alarms, len(self.clean))

    @property
    def false_alarms_per_hour(self) -> float | None:
        """The number of alarms per hour of clean runs."""
        hours = sum(run.duration_s for run in self.clean) / 3600
        return sum(run.onsets for run in self.clean) / hours if hours else None

    def ahead(self, trigger: bool) -> NDArray[np.float64]:
        """Returns the lead time of the first alarm in each violating run; NaN if not
        detected.
        """
        return np.array(
            [
                (run.broken.since_s if trigger else run.broken.time_s) - run.alarm_s
                if run.detected and run.broken and run.alarm_s is not None
                else math.nan
                for run in self.violating
            ],
            np.float64,
        )

    def early(self, horizon_s: float) -> int:
        """Returns the number of violations that were detected more than the horizon
        before the trigger.
        """
        return int(np.count_nonzero(self.ahead(True) > horizon_s + 1e-6))

    @property
    def second_ahead(self) -> int:
        """The number of violations with an alarm at least a second before the
        trigger.
        """
        return int((np.nan_to_num(self.ahead(True)) >= 1.0 - 1e-9).sum())

    def as_dict(self, horizon_s: float) -> dict[str, Any]:
        """Returns the figures by which every warning method is evaluated."""
        violating, clean = self.violating, self.clean
        to_violation, to_trigger = self.ahead(False), self.ahead(True)
        return {
            "violating": len(violating),
            "clean": len(clean),
            "detected": self.detected,
            "early": self.early(horizon_s),
            "second_ahead": self.second_ahead,
            "second_ahead_rate": rate(self.second_ahead, len(violating)),
            "missed": len(violating) - self.detected,
            "awt_violation_s": spread(to_violation[~np.isnan(to_violation)].tolist()),
            "awt_trigger_s": spread(to_trigger[~np.isnan(to_trigger)].tolist()),
            "detection_rate": self.detection_rate,
            "in_time": self._in_time() if self.has_deadline else None,
            "false_alarms": self.false_alarms,
            "false_alarm_rate": self.false_alarm_rate,
            "false_alarms_per_hour": self.false_alarms_per_hour,
            "base_rate": rate(len(violating), len(self.runs)),
            "intervals": {
                "detection_rate": wilson(self.detected, len(violating)),
                "false_alarm_rate": wilson(self.false_alarms, len(clean)),
                "base_rate": wilson(len(violating), len(self.runs)),
                "awt_violation_s": mean_interval(to_violation),
                "awt_trigger_s": mean_interval(to_trigger),
            },
        }

    def _in_time(self) -> dict[str, Any]:
        violating = len(self.violating)
        return {
            "lead_s": LEAD_S,
            "detected": self.in_time,
            "rate": rate(self.in_time, violating),
            "interval": wilson(self.in_time, violating),
        }


def warned_early(row: Mapping[str, Any], horizon_s: float) -> str | None:
    """Returns a remark on alarms more than the horizon before the trigger, if any."""
    if not row.get("early"):
        return None
    return (
        f"{row['early']} of {row['detected']} detected violations had an alarm more"
        f" than {horizon_s:g} s before the trigger, which is beyond the risk's horizon"
    )


POINTS = 40
ALLOWED = 0.10
"""The false-alarm rate at which warning methods are compared."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of a warning method in one run, for one law.

    Args:
        times_s: The time of each frame, in seconds.
        scores: The score of each frame; NaN if the score is unknown.
        broken: The first violation; None if there was none.
        forced: The frames that have an alarm at any threshold.
    """

    times_s: Sequence[float]
    scores: Sequence[float]
    broken: Broken | None
    forced: frozenset[int] = frozenset()

    def at(self, threshold: float, inclusive: bool = True) -> WarnedRun:
        """Returns the run's alarms at a threshold, and its violation."""
        flags = alarms(self.scores, threshold, self.forced, inclusive)
        return warned_run(self.times_s, flags, self.broken)

    @property
    def top(self) -> float:
        """The highest score; in a violating run, the highest before the trigger."""
        scores = np.asarray(self.scores, np.float64)
        if self.broken is not None:
            scores = scores[np.asarray(self.times_s) < self.broken.since_s]
        scores = scores[~np.isnan(scores)]
        return float(scores.max()) if scores.size else -np.inf


def warned_at(
    runs: Sequence[Scored], threshold: float, inclusive: bool = True
) -> Warned:
    """Returns the runs' alarms at a threshold, and their violations."""
    return Warned(tuple(run.at(threshold, inclusive) for run in runs))


def trade_off(runs: Sequence[Scored], horizon_s: float) -> list[dict[str, Any]]:
    """Returns points of the trade-off curve, the lowest threshold first."""
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
        "second_ahead_rate": rate(warned.second_ahead, len(warned.violating)),
        "detection_rate": warned.detection_rate,
        "false_alarm_rate": warned.false_alarm_rate,
        "false_alarms_per_hour": warned.false_alarms_per_hour,
        "awt_trigger_s": _over(np.nanmean, warned, trigger=True),
        "awt_violation_s": _over(np.nanmean, warned, trigger=False),
        "awt_trigger_median_s": _over(np.nanmedian, warned, trigger=True),
    }


def _over(figure: Any, warned: Warned, trigger: bool) -> float | None:
    return float(figure(warned.ahead(trigger))) if warned.detected else None


def best_allowed(
    points: Sequence[Mapping[str, Any]], allowed: float = ALLOWED
) -> Mapping[str, Any] | None:
    """Returns the point with the highest detection rate at the allowed false-alarm
    rate.

    The point is chosen and evaluated on the same runs, so its figures are slightly
    optimistic, to the same degree for every method.
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


LOWEST_THRESHOLD = 0.01
"""The minimum threshold; with few runs, lower risks are mostly due to chance."""

_FINENESS = 1000


@dataclass(frozen=True, slots=True)
class Climb:
    """The data of a run, for one law, that is needed to choose thresholds.

    Args:
        seed: The run's seed.
        duration_s: How long the run lasted, in seconds.
        steps: The times at which the risk reached a new maximum, each with the risk;
            the risk is infinite if the guard intervenes at any threshold.
        broken: The first violation; None if there was none.
    """

    seed: int
    duration_s: float
    steps: tuple[tuple[float, float], ...]
    broken: Broken | None

    @property
    def top(self) -> float:
        """The highest risk of the run."""
        return self.steps[-1][1] if self.steps else 0.0

    def warned(self, threshold: float) -> WarnedRun:
        """Returns the run's first alarm at a threshold, and its violation."""
        alarm_s = next((at for at, risk in self.steps if risk >= threshold), None)
        onsets = int(alarm_s is not None)
        return WarnedRun(self.duration_s, alarm_s, onsets, self.broken)

    def wrong_s(self, threshold: float) -> float | None:
        """Returns the time of a false alarm or of a missed trigger at a threshold; None
        if there is neither.
        """
        warned = self.warned(threshold)
        if self.broken is None:
            return warned.alarm_s
        return None if warned.detected else self.broken.since_s


def in_time(climbs: Iterable[Climb], at: float, harmless: bool) -> list[float]:
    """Returns the lead times of the runs with an alarm in time, at a threshold."""
    leads = (each.warned(at).lead_s(harmless) for each in climbs)
    return [lead_s for lead_s in leads if not math.isnan(lead_s)]


def threshold(climbs: Sequence[Climb], spared: int) -> float:
    """Returns the lowest threshold at which at most this many clean runs have an alarm.

    The threshold is infinite if no risk is high enough.
    """
    tops = sorted((c.top for c in climbs if c.broken is None), reverse=True)
    if spared >= len(tops):
        return LOWEST_THRESHOLD
    # At this risk, one run too many would have an alarm, so the threshold must be
    # higher.
    height = tops[spared]
    if height >= 1:
        return math.inf
    above = (math.floor(height * _FINENESS + 1e-9) + 1) / _FINENESS
    return max(LOWEST_THRESHOLD, min(1.0, above))

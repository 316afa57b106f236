"""How early a warning came, and how often it came for nothing.

A run is violating if the law was broken in it, and clean otherwise. Of a violating run
the first violation counts: it became certain at some time, and the obligation that was
broken arose at its trigger (for an invariant these are one). It was detected if the
first alarm came strictly before the trigger. The advance warning times, to the
violation and to the trigger, are over detected runs. A false alarm is a clean run with
any alarm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.guarding.policy import Step
from forewarn.scenarios.measuring.figures import mean_interval, rate, spread, wilson
from forewarn.scenarios.running.truth import Broken

Flags = NDArray[np.bool_]

LEAD_S = 3.0
"""An alarm so long before the deadline leaves time to do something about it."""


@dataclass(frozen=True, slots=True)
class WarnedRun:
    """One run under one law and one threshold.

    Args:
        duration_s: How long it lasted.
        alarm_s: When the first alarm came; None if none did.
        onsets: How many alarms began.
        broken: The first time that the law was broken, if it was.
    """

    duration_s: float
    alarm_s: float | None
    onsets: int
    broken: Broken | None

    @property
    def detected(self) -> bool:
        """Whether the first alarm came strictly before the trigger."""
        return self.broken is not None and self._alarmed_before(self.broken.since_s)

    @property
    def in_time(self) -> bool:
        """Whether the first alarm came at least `LEAD_S` before the deadline."""
        return self.broken is not None and self._alarmed_before(
            self.broken.time_s - LEAD_S + 1e-6
        )

    def _alarmed_before(self, time_s: float) -> bool:
        return self.alarm_s is not None and self.alarm_s < time_s


def alarms(
    scores: Sequence[float], step: Step, forced: frozenset[int] = frozenset()
) -> Flags:
    """The frames at which a threshold calls for something; NaN always does."""
    values = np.asarray(scores, np.float64)
    calm = values < step.threshold if step.inclusive else values <= step.threshold
    flags: Flags = ~calm
    flags[sorted(forced)] = True
    return flags


def warned_run(
    times_s: Sequence[float], flags: Flags, broken: Broken | None
) -> WarnedRun:
    """The run whose frames have these times and alarms."""
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
    """All runs of a scenario under one law and one threshold."""

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
        """Whether what is owed may be done later than at once."""
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
        """The share of violating runs that were detected."""
        return rate(self.detected, len(self.violating))

    @property
    def false_alarm_rate(self) -> float | None:
        """The share of clean runs with any alarm."""
        return rate(self.false_alarms, len(self.clean))

    @property
    def false_alarms_per_hour(self) -> float | None:
        """How many alarms begin in an hour of clean runs."""
        hours = sum(run.duration_s for run in self.clean) / 3600
        return sum(run.onsets for run in self.clean) / hours if hours else None

    def ahead(self, trigger: bool) -> NDArray[np.float64]:
        """Of each violating run, how long before the first alarm came; else NaN."""
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
        """How many of the detected were warned of before the risk looked so far."""
        return int(np.count_nonzero(self.ahead(True) > horizon_s + 1e-6))

    def as_dict(self, horizon_s: float) -> dict[str, Any]:
        """The figures that every way to warn is judged by, beside a risk within H."""
        violating, clean = self.violating, self.clean
        to_violation, to_trigger = self.ahead(False), self.ahead(True)
        return {
            "violating": len(violating),
            "clean": len(clean),
            "detected": self.detected,
            "early": self.early(horizon_s),
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
    """How many of the detected were warned of earlier than a risk looks, if any."""
    if not row.get("early"):
        return None
    return (
        f"{row['early']} of {row['detected']} detected were warned of more than"
        f" {horizon_s:g} s before the trigger, farther than the risk looks"
    )

"""Thresholds: from which risk on to warn, by how high the risk climbed in each run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.trust.foretold import Foretold
from forewarn.scenarios.measuring.warning_times import WarnedRun
from forewarn.scenarios.running.truth import Broken

LOWEST_THRESHOLD = 0.01
"""No threshold is lower: with few runs the smallest risks are mostly chance."""

_FINENESS = 1000


@dataclass(frozen=True, slots=True)
class Climb:
    """One run under one law: all that thresholds need to know of its risks.

    Args:
        seed: The run.
        duration_s: How long it lasted.
        steps: When the risk was higher than ever before, and how high; infinite where
            the guard intervenes whatever the threshold.
        broken: The first time that the law was broken, if it was.
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
        """The run with that threshold."""
        alarm_s = next((at for at, risk in self.steps if risk >= threshold), None)
        onsets = int(alarm_s is not None)
        return WarnedRun(self.duration_s, alarm_s, onsets, self.broken)


def _steps(
    times_s: Iterable[float], risks: Iterable[float], forced: Iterable[bool]
) -> tuple[tuple[float, float], ...]:
    steps: list[tuple[float, float]] = []
    top = 0.0
    for time_s, risk, must in zip(times_s, risks, forced, strict=True):
        height = math.inf if must else risk
        if height > top:
            top = height
            steps.append((time_s, height))
    return tuple(steps)


def climb_of(
    told: Foretold, law: str, horizon_s: float, seed: int, policy: Policy
) -> Climb:
    """The risks of a law in one run, as hindsight has them."""
    stops = policy.unknown_state == "stop"
    forced = told.unknown & stops
    broken = None if told.broken_s is None else Broken(law, *told.broken_s)
    steps = _steps(
        told.times_s.tolist(), told.risks[horizon_s].tolist(), forced.tolist()
    )
    return Climb(seed, told.duration_s, steps, broken)


def in_time(climbs: Iterable[Climb], at: float, harmless: bool) -> list[float]:
    """How early a threshold warns of the violations that it warns of in time.

    That is before the trigger or, where the trigger is mostly harmless, so long before
    the deadline that there is time to do something.
    """
    found: list[float] = []
    for each in climbs:
        run = each.warned(at)
        if run.broken is None or run.alarm_s is None:
            continue
        if harmless and run.in_time:
            found.append(run.broken.time_s - run.alarm_s)
        elif not harmless and run.detected:
            found.append(run.broken.since_s - run.alarm_s)
    return found


def plateau_end(climbs: Sequence[Climb], lowest: float, harmless: bool) -> float:
    """The highest threshold that warns of as many in time as the lowest does."""
    most = len(in_time(climbs, lowest, harmless))
    if not most:
        return lowest
    low, high = round(lowest * _FINENESS), _FINENESS
    while low < high:
        middle = (low + high + 1) // 2
        if len(in_time(climbs, middle / _FINENESS, harmless)) == most:
            low = middle
        else:
            high = middle - 1
    return max(lowest, low / _FINENESS)


def threshold(climbs: Sequence[Climb], spared: int) -> float:
    """The lowest threshold at which no more clean runs have an alarm than so many.

    Where no risk is high enough for that it is infinite.
    """
    tops = sorted((c.top for c in climbs if c.broken is None), reverse=True)
    if spared >= len(tops):
        return LOWEST_THRESHOLD
    # At this height one run too many has an alarm: the threshold lies above it.
    height = tops[spared]
    if height >= 1:
        return math.inf
    above = (math.floor(height * _FINENESS + 1e-9) + 1) / _FINENESS
    return max(LOWEST_THRESHOLD, min(1.0, above))


def middle(lowest: float, highest: float) -> float:
    """The threshold half way between."""
    at = math.floor((lowest + highest) / 2 * _FINENESS + 1e-9) / _FINENESS
    return max(lowest, at)

"""Thresholds with a guarantee, found and judged on the same runs.

Thresholds are tried in one fixed order, and the search stops at the first that fails
its binomial test. So all runs both set the threshold and guarantee it, and it is never
stricter than they require. A rising calibration keeps the order of heights: it may be
fitted to the same runs. A choice between several scores, such as horizons, may not,
unless `tried` says how many there were.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, nextafter

from forewarn.monitors.evaluation.figures import CONFIDENCE, needed, spared


@dataclass(frozen=True, slots=True)
class Guaranteed:
    """A threshold and what it guarantees about runs to come.

    Args:
        threshold: There is an alarm from this height on; None if the runs are too few.
        level: At most this share of the runs to come is wrong: clean with an alarm, or
            violating without one.
        confidence: How probable it is that the guarantee holds.
        runs: How many runs it rests on.
        wrong: How many of them the threshold gets wrong.
        more: How many more such runs are needed; 0 with a threshold, None if no number
            would suffice.
    """

    threshold: float | None
    level: float
    confidence: float
    runs: int
    wrong: int
    more: int | None


def against_false_alarms(
    heights: Iterable[float],
    level: float,
    confidence: float = CONFIDENCE,
    tried: int = 1,
) -> Guaranteed:
    """The lowest threshold that at most this share of clean runs to come reaches.

    Args:
        heights: The highest risk of each clean run.
        level: The greatest share with an alarm.
        confidence: How probable it is that the guarantee holds.
        tried: Among how many scores this one was chosen by the same runs.
    """
    found = _settled([-height for height in heights], level, confidence, tried)
    if found.threshold is None:
        return found
    lowest = -found.threshold
    # A height equal to the threshold alarms, so it lies above the first that may not.
    above = lowest if lowest == -inf else nextafter(lowest, inf)
    return _with(found, above)


def against_misses(
    heights: Iterable[float],
    level: float,
    confidence: float = CONFIDENCE,
    tried: int = 1,
) -> Guaranteed:
    """The highest threshold that at most this share of violating runs stays below.

    Args:
        heights: The highest risk of each violating run while a warning is in time;
            minus infinity where there was none.
        level: The greatest share that is missed.
        confidence: How probable it is that the guarantee holds.
        tried: Among how many scores this one was chosen by the same runs.
    """
    found = _settled(heights, level, confidence, tried)
    if found.threshold == -inf:
        # Only an alarm in every run, whatever its risk, would keep the level.
        return _with(found, None)
    return found


def runs_needed(
    share: float, level: float, confidence: float = CONFIDENCE
) -> int | None:
    """The fewest runs that guarantee a level if this share of them is wrong.

    None if no number does: the share is not below the level.
    """
    fewest = needed(level, 1 - confidence)
    if fewest is None or share >= level:
        return None
    wrong = Fraction(share).limit_denominator(1_000_000)

    def enough(runs: int) -> bool:
        most = spared(runs, level, 1 - confidence)
        return most is not None and most >= ceil(wrong * runs)

    high = fewest
    while not enough(high):
        high *= 2
    low = max(fewest, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high


def _settled(
    heights: Iterable[float], level: float, confidence: float, tried: int
) -> Guaranteed:
    """The greatest number that at most the allowed share of heights stays below."""
    ordered = sorted(heights)
    delta = (1 - confidence) / tried
    most = spared(len(ordered), level, delta)
    if most is None:
        fewest = needed(level, delta)
        more = None if fewest is None else fewest - len(ordered)
        return Guaranteed(None, level, confidence, len(ordered), 0, more)
    at = ordered[most] if most < len(ordered) else inf
    wrong = sum(height < at for height in ordered)
    return Guaranteed(at, level, confidence, len(ordered), wrong, 0)


def _with(found: Guaranteed, threshold: float | None) -> Guaranteed:
    more = found.more if threshold is not None else None
    return Guaranteed(
        threshold, found.level, found.confidence, found.runs, found.wrong, more
    )

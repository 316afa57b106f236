"""Rates and times with their intervals, all at 95 %."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]

_Z = 1.959963984540054  # of the normal distribution, at 97.5 %
_RESAMPLES = 1000


def rate(part: int, whole: int) -> float | None:
    """A share; None of nothing."""
    return part / whole if whole else None


def wilson(part: float, whole: int) -> Interval | None:
    """Wilson's interval for a share; None of nothing."""
    if not whole:
        return None
    share, weight = part / whole, _Z * _Z / whole
    middle = (share + weight / 2) / (1 + weight)
    half = math.sqrt(weight * (share * (1 - share) + weight / 4)) / (1 + weight)
    # Exactly at the ends, where rounding would leave the share outside.
    low = 0.0 if part == 0 else middle - half
    return low, 1.0 if part == whole else middle + half


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """What is said of a set of times: mean, median, 10th percentile, greatest."""
    if not values:
        return dict.fromkeys(("mean", "median", "p10", "max"))
    array = np.asarray(values, np.float64)
    return {
        "mean": float(array.mean()),
        "median": float(np.median(array)),
        "p10": float(np.percentile(array, 10)),
        "max": float(array.max()),
    }


def bootstrap(
    runs: int, statistic: Callable[[NDArray[np.int64]], float]
) -> Interval | None:
    """The percentile interval of a figure, by drawing runs with replacement.

    Args:
        runs: How many runs there are.
        statistic: The figure for the runs of these numbers; NaN where it has none.
    """
    if not runs:
        return None
    draws = np.random.default_rng(0).integers(0, runs, (_RESAMPLES, runs))
    found = np.array([statistic(draw) for draw in draws])
    found = found[~np.isnan(found)]
    if not found.size:
        return None
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


def mean_interval(values: NDArray[np.float64]) -> Interval | None:
    """The bootstrap interval of a mean over runs; NaN where a run has no value."""

    def mean(draw: NDArray[np.int64]) -> float:
        drawn = values[draw]
        known = drawn[~np.isnan(drawn)]
        return float(known.mean()) if known.size else math.nan

    return bootstrap(len(values), mean)
